"""What N hosts cost the machine that sets them up: gpuprov, one ansible-playbook for all, one for each, Mitogen and pyinfra.

The work is the same for all: the play of 40 small tasks of tests/bench/converge.py, whose end state was made before. CPU is user and system
time of the client's processes alone, by rusage: the hosts are processes of the embedded cloud, and no children of these. Memory is the
highest sum of PSS of the client's processes, twenty times a second. Wall time includes the hosts' own CPU, which is this machine's, so that
it says little about machines of their own. `no-op` is an observation of each host, which is what `up` does to hosts that hold.

MITOGEN is the folder of mitogen's package (ansible_mitogen in it), PYINFRA pyinfra's program; each is left out where it is not set.

Run: python -m tests.bench.fleet NAME [N…]   (NAME: of `gpuprov up --rehearse --count M`, with M at least the largest N)
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psutil

from provision.converge.bundle import config
from provision.converge.events import RunEvents
from provision.converge.there import converge_there
from provision.host.ssh import Target
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.workflow.converging import sign
from provision.workflow.session import Session
from provision.workflow.setup import SetupRequest, observe
from tests.bench.converge import write_play

RUNS = int(os.environ.get("BENCH_RUNS", "3"))
ANSIBLE = str(Path(sys.executable).parent / "ansible-playbook")


@dataclass(frozen=True)
class Cost:
    wall_s: float
    cpu_s: float
    memory_mb: float


def main() -> None:
    if sys.argv[1] == "--case":
        CASES[sys.argv[2]](sys.argv[4:], Path(sys.argv[3]))
        return
    name, counts = sys.argv[1], [int(word) for word in sys.argv[2:]] or [1, 8]
    hosts = Session.open().record(name).hosts
    print(f"{'':<28} {'hosts':>5} {'wall s':>8} {'CPU s':>8} {'a host':>8} {'MB':>8} {'a host':>8}   medians of {RUNS}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_play(folder)
        for case in CASES:
            if (case == "mitogen" and "MITOGEN" not in os.environ) or (case == "pyinfra" and "PYINFRA" not in os.environ):
                continue
            for count in counts:
                measured(case, hosts[:count], folder)  # makes the end state, and what a first run compiles
                costs = [measured(case, hosts[:count], folder) for _ in range(RUNS)]
                wall, cpu, memory = (statistics.median(getattr(cost, what) for cost in costs) for what in ("wall_s", "cpu_s", "memory_mb"))
                row = f"{case:<28} {count:5} {wall:8.1f} {cpu:8.2f} {cpu / count:8.2f} {memory:8.0f} {memory / count:8.0f}"
                print(row, flush=True)


def measured(case: str, hosts: list[str], folder: Path) -> Cost:
    """One case in a process of its own."""
    began, most, ended = time.perf_counter(), [0.0], threading.Event()
    argv = [sys.executable, "-m", "tests.bench.fleet", "--case", case, str(folder), *hosts]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def watch() -> None:
        while not ended.wait(0.05):
            total = 0
            try:
                for each in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]:
                    total += each.memory_full_info().pss
            except psutil.Error:
                continue
            most[0] = max(most[0], total / 1e6)

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    ended.set()
    watcher.join()
    assert status == 0, said[-3000:]
    return Cost(time.perf_counter() - began, used.ru_utime + used.ru_stime, most[0])


def each(hosts: list[str], work: Callable[[Target], object]) -> None:
    session = Session.open()
    with ThreadPoolExecutor(len(hosts)) as pool:
        list(pool.map(work, [session.target(host) for host in hosts]))


def ours(hosts: list[str], folder: Path) -> None:
    session = Session.open()
    signed = sign(session, config((), {}, tags=(), playbook=folder / "play.json"))

    def work(target: Target) -> None:
        with tempfile.TemporaryDirectory() as place:
            converge_there(target, signed, RunEvents(target, Path(place), lambda _: None, diff=False), lambda _: None)

    each(hosts, work)


def no_op(hosts: list[str], folder: Path) -> None:
    session = Session.open()
    record = session.record(hosts[0])
    profile, lock = Profile.model_validate(record.profile), Lock.model_validate(record.lock)
    each(hosts, lambda target: observe(SetupRequest(target, profile, lock, without_gpu=True), folder))


def inventory(hosts: list[str], folder: Path) -> Path:
    ssh = Session.open().ssh
    path = folder / f"inventory-{os.getpid()}-{hosts[0]}"
    path.write_text(
        "".join(
            f"{host} ansible_host={ssh.target(host).destination} ansible_python_interpreter=/usr/bin/python3 "
            f"ansible_ssh_common_args='-F {ssh.target(host).config}'\n"
            for host in hosts
        )
    )
    return path


def ansible(hosts: list[str], folder: Path, **more: str) -> None:
    env = {**os.environ, "ANSIBLE_PIPELINING": "True", "LC_ALL": "C.UTF-8", "ANSIBLE_DEPRECATION_WARNINGS": "False", **more}
    argv = [ANSIBLE, "-i", str(inventory(hosts, folder)), "-f", str(len(hosts)), str(folder / "play.json")]
    subprocess.run(argv, check=True, env=env)


def mitogen(hosts: list[str], folder: Path) -> None:
    plugins = str(Path(os.environ["MITOGEN"], "ansible_mitogen/plugins/strategy"))
    ansible(hosts, folder, ANSIBLE_STRATEGY="mitogen_free", ANSIBLE_STRATEGY_PLUGINS=plugins, PYTHONPATH=os.environ["MITOGEN"])


def pyinfra(hosts: list[str], folder: Path) -> None:
    listed = folder / f"hosts_{os.getpid()}.py"
    ssh = Session.open().ssh
    options = [(ssh.target(host).destination, {"ssh_config_file": str(ssh.target(host).config)}) for host in hosts]
    listed.write_text(f"hosts = {json.dumps(options)}\nhosts = [(name, data) for name, data in hosts]\n")
    subprocess.run([os.environ["PYINFRA"], "-y", str(listed), str(folder / "deploy.py")], check=True)


CASES: dict[str, Callable[[list[str], Path], None]] = {
    "gpuprov, no-op": no_op,
    "gpuprov": ours,
    "ansible-playbook for all": ansible,
    "ansible-playbook for each": lambda hosts, folder: each(hosts, lambda target: ansible([target.name], folder)),
    "mitogen": mitogen,
    "pyinfra": pyinfra,
}


if __name__ == "__main__":
    main()
