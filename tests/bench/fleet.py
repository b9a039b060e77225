"""What N hosts cost the machine that sets them up: gpuprov, one ansible-playbook for all, one for each, Mitogen and pyinfra.

The work is the same for all: the play of 40 small tasks of tests/bench/converge.py, whose end state was made before. CPU is user and system
time of the client's processes alone, by rusage: the hosts are processes of the embedded cloud, and no children of these. Memory is the
highest sum of PSS of the client's processes, twenty times a second. Wall time includes the hosts' own CPU, which is this machine's, so that
it says little about machines of their own. `no-op` is an observation of each host, which is what `up` does to hosts that hold.

MITOGEN is the folder of mitogen's package (ansible_mitogen in it), PYINFRA pyinfra's program; each is left out where it is not set.
`old hosts` are those that cannot set themselves up: gpuprov runs an Ansible for each of them.

`--broken` launches machines of its own, so many for each of three: those whose power is cut in the middle of their set-up, those that are
300 ms away, and those without room; and so many that are sound, whose set-up is also timed while the others need none. It prints what `up`
reports, when each kind was through, and what the next `up` makes of them. SHARE=2.5 gives each host so many hundredths of a core once all
are up, so that they do not take the time from each other that machines of their own would have.

`--table` launches machines of its own, and makes one table of all of it: see tests/bench/fleet_table.py.

Run: python -m tests.bench.fleet --table [16]
     python -m tests.bench.fleet NAME [N…]   (NAME: of `gpuprov up --rehearse --count M`, with M at least the largest N; TASKS=40)
     python -m tests.bench.fleet --broken [8 [40]]
"""

import contextlib
import json
import os
import re
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
import yaml

from provision.converge.bundle import config
from provision.converge.events import RunEvents
from provision.converge.run import play_here
from provision.converge.there import converge_there
from provision.host.ssh import Target
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.workflow.converging import sign
from provision.workflow.session import Session
from provision.workflow.setup import SetupRequest, observe
from tests.bench.converge import write_play
from tests.bench.cost import Cost, hosts_cpu, limited
from tests.workflow.broken_hosts import Machines

RUNS = int(os.environ.get("BENCH_RUNS", "3"))
ANSIBLE = str(Path(sys.executable).parent / "ansible-playbook")


def main() -> None:
    if sys.argv[1] == "--case":
        CASES[sys.argv[2]](sys.argv[4:], Path(sys.argv[3]))
        return
    if sys.argv[1] == "--broken":
        broken(*(int(word) for word in (sys.argv[2:] or ["8"])))
        return
    if sys.argv[1] == "--table":
        from tests.bench.fleet_table import table

        table(int(sys.argv[2]) if len(sys.argv) > 2 else 16)
        return
    name, counts = sys.argv[1], [int(word) for word in sys.argv[2:]] or [1, 8]
    hosts = Session.open().record(name).hosts
    print(f"{'':<28} {'hosts':>5} {'wall s':>8} {'CPU s':>8} {'a host':>8} {'MB':>8} {'a host':>8}   medians of {RUNS}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_play(folder)
        if "TASKS" in os.environ:
            small_tasks(folder, int(os.environ["TASKS"]))
        for case in CASES:
            if (case == "mitogen" and "MITOGEN" not in os.environ) or (case == "pyinfra" and "PYINFRA" not in os.environ):
                continue
            for count in counts:
                measured(case, hosts[:count], folder)  # makes the end state, and what a first run compiles
                costs = [measured(case, hosts[:count], folder) for _ in range(RUNS)]
                wall, cpu, memory = (statistics.median(getattr(cost, what) for cost in costs) for what in ("wall_s", "cpu_s", "memory_mb"))
                row = f"{case:<28} {count:5} {wall:8.1f} {cpu:8.2f} {cpu / count:8.2f} {memory:8.0f} {memory / count:8.0f}"
                print(row, flush=True)


def small_tasks(folder: Path, count: int) -> None:
    """A play of tasks that cost the host as little as a task can."""
    tasks = [{"name": f"Task {n}", "ansible.builtin.set_fact": {"a": n}} for n in range(count)]
    (folder / "play.json").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))


def measured(case: str, hosts: list[str], folder: Path) -> Cost:
    """One case in a process of its own."""
    born, began, most, ended = time.time(), time.perf_counter(), [0.0], threading.Event()
    argv = [sys.executable, "-m", "tests.bench.fleet", "--case", case, str(folder), *hosts]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    masters, spent = masters_of(hosts), dict[tuple[int, float], tuple[float, float]]()

    def watch() -> None:
        while not ended.wait(0.05):
            total = 0
            try:
                mine = psutil.Process(process.pid)
                for each in [mine, *mine.children(recursive=True), *masters()]:
                    total += each.memory_full_info().pss
            except psutil.Error:
                continue
            most[0] = max(most[0], total / 1e6)
            for master in masters():
                with contextlib.suppress(psutil.Error):
                    now, key = sum(master.cpu_times()[:2]), (master.pid, master.create_time())
                    spent[key] = (spent[key][0] if key in spent else now if master.create_time() < born else 0.0, now)

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    ended.set()
    watcher.join()
    assert status == 0, said[-3000:]
    connections = sum(now - before for before, now in spent.values())
    return Cost(time.perf_counter() - began, used.ru_utime + used.ru_stime + connections, most[0])


def masters_of(hosts: list[str]) -> Callable[[], list[psutil.Process]]:
    """The processes that hold the connections to these hosts: they leave their parent, so that no rusage has them."""
    ssh, titles = Session.open().ssh, set[str]()
    for host in hosts:
        said = subprocess.run(["ssh", "-F", str(ssh.config), "-G", f"gpuprov-{host}"], check=True, capture_output=True, text=True).stdout
        titles |= {f"ssh: {line.split(' ', 1)[1]} [mux]" for line in said.splitlines() if line.startswith("controlpath ")}
    known: dict[int, psutil.Process] = {}

    def found() -> list[psutil.Process]:
        for pid in set(psutil.pids()) - set(seen):
            seen.add(pid)
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                if process.name() == "ssh":
                    candidates[pid] = process
        for pid, process in list(candidates.items()):
            with contextlib.suppress(psutil.Error):
                if " ".join(process.cmdline()).strip() in titles:
                    known[pid] = process
        return [process for process in known.values() if process.is_running()]

    seen, candidates = set[int](), dict[int, psutil.Process]()
    return found


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


def old(hosts: list[str], folder: Path) -> None:
    playbook = folder / f"play-{os.getpid()}.yml"
    playbook.write_text(yaml.safe_dump(json.loads((folder / "play.json").read_text())))

    def work(target: Target) -> None:
        play_here(RunEvents(target, Path(tempfile.mkdtemp(dir=folder)), lambda _: None, diff=False), playbook, {}, tags=(), flags=())

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
    # It reads neither an included configuration nor the keys that gpuprov has of these hosts: it takes each as it comes, which only a
    # measurement may do.
    options = []
    for host in hosts:
        argv = ["ssh", "-F", str(ssh.target(host).config), "-G", ssh.target(host).destination]
        said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        known = dict(line.partition(" ")[::2] for line in said.splitlines())
        data = {"ssh_hostname": known["hostname"], "ssh_user": known["user"], "ssh_key": known["identityfile"]}
        options.append((host, {**data, "ssh_strict_host_key_checking": "no"}))
    listed.write_text(f"hosts = {json.dumps(options)}\nhosts = [(name, data) for name, data in hosts]\n")
    subprocess.run([os.environ["PYINFRA"], "-y", str(listed), str(folder / "deploy.py")], check=True)


def broken(each_kind: int, sound: int = 0) -> None:
    names = [f"m-{number}" for number in range(1, 3 * each_kind + sound + 1)]
    kinds = {"cut": names[:each_kind], "far": names[each_kind : 2 * each_kind], "full": names[2 * each_kind : 3 * each_kind]}
    if sound:
        kinds["sound"] = names[3 * each_kind :]
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as until_end:
        machines = Machines(Path(place))
        until_end.callback(machines.gpuprov, "rehearse", "stop")
        profile = str(machines.small_profile())
        words = ("up", "--profile", profile, "--rehearse", "--name", "m", "--count", str(len(names)), "--without-gpu")
        timed(machines, words, "a first run")
        timed(machines, words, "where all hold")
        before = machines.ids()
        share_out(machines, words, until_end)
        if sound:
            undone(machines, kinds["sound"])
            verdicts("sound", kinds["sound"], timed(machines, words, "where the sound ones alone are set up").said)
        undone(machines, names)
        for name in kinds["full"]:
            machines.fill(name)
        with contextlib.ExitStack() as far:
            for name in kinds["far"]:
                far.enter_context(machines.far_away(name, 300))
            left = set(kinds["cut"])

            def told(line: str) -> None:
                for name in [name for name in left if f" {name}: preflight: " in line]:
                    machines.cut_power(before[name])
                    left.remove(name)

            said = timed(machines, words, "with broken ones", told).said
        print(said[said.index("error[hosts-failed]") :])
        for kind, of_kind in kinds.items():
            verdicts(kind, of_kind, said)
        for name in kinds["full"]:
            machines.make_room(name)
        timed(machines, words, "the next run")
        after = machines.ids()
        print(
            f"{len(set(before.values()) & set(after.values()))} machines kept, {len(set(after.values()) - set(before.values()))} launched"
        )


def share_out(machines: Machines, words: tuple[str, ...], until_end: contextlib.ExitStack) -> None:
    """Give each host its share of a core, where SHARE says one."""
    if share := os.environ.get("SHARE"):
        for group in limited(hosts_of(machines), float(share)):
            until_end.callback(group.rmdir)
        until_end.callback(machines.gpuprov, "rehearse", "stop")
        timed(machines, words, f"where all hold, with {share} % of a core for each host")


def undone(machines: Machines, names: list[str]) -> None:
    """Leave something to set up."""
    for name in names:
        machines.shell(name, "umount /data")


def verdicts(kind: str, names: list[str], said: str) -> None:
    """Print when the machines of a kind were through."""
    ends = [float(line.split(" s  ")[0]) for line in said.splitlines() if re.search(rf" s  ({'|'.join(names)}): (done|error)", line)]
    print(f"{kind}: {len(ends)} verdicts, {min(ends):.1f} to {max(ends):.1f} s", flush=True)


@dataclass(frozen=True)
class Timed:
    """One command: what it said on standard error, and what it took of this machine."""

    said: str
    code: int
    began: float
    cost: Cost


def hosts_of(machines: Machines) -> Path:
    """The folder of these machines' hosts."""
    return machines.folder / "state/rehearsal/hosts"


def timed(machines: Machines, words: tuple[str, ...], what: str, told: Callable[[str], None] = lambda _: None) -> Timed:
    """Run a command and print what it took of this machine, and what the hosts used meanwhile, those that ended too."""
    at, before, ended = time.time(), hosts_cpu(hosts_of(machines)), threading.Event()
    used, said, began, program = dict(before), "", time.perf_counter(), 0.0
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "provision", *words],
            env=machines.env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )

        def watch() -> None:
            nonlocal program
            while not ended.wait(0.25):
                used.update(hosts_cpu(hosts_of(machines)))
                with contextlib.suppress(psutil.Error):
                    program = max(program, sum(psutil.Process(process.pid).cpu_times()[:2]))

        watcher = threading.Thread(target=watch)
        watcher.start()
        assert process.stderr is not None
        for line in process.stderr:
            said += line
            told(line)
        _, status, spent = os.wait4(process.pid, 0)
    cost = Cost(time.perf_counter() - began, spent.ru_utime + spent.ru_stime, spent.ru_maxrss / 1e3, program)
    code = os.waitstatus_to_exitcode(status)
    ended.set()
    watcher.join()
    theirs = sum(used.values()) - sum(before.values())
    took = f"{cost.wall_s:.1f} s, {cost.cpu_s:.1f} CPU s ({program:.1f} of gpuprov itself), {cost.memory_mb:.0f} MB at most"
    print(f"{what}: exit code {code}, {took}; the hosts {theirs:.0f} CPU s", flush=True)
    return Timed(said, code, at, cost)


CASES: dict[str, Callable[[list[str], Path], None]] = {
    "gpuprov, no-op": no_op,
    "gpuprov": ours,
    "gpuprov, old hosts": old,
    "ansible-playbook for all": ansible,
    "ansible-playbook for each": lambda hosts, folder: each(hosts, lambda target: ansible([target.name], folder)),
    "mitogen": mitogen,
    "pyinfra": pyinfra,
}


if __name__ == "__main__":
    main()
