"""What converging costs beside what it installs: gpuprov, plain ansible-playbook and pyinfra on one rehearsal host, near and 40 ms away.

`correct host` is a converge of what holds already: ours is one observation; the peers' is a play of 40 small tasks (30 files, 10 folders)
whose end state was made before. `first, own share` is a first converge of t4-train without its GPU part, less the time in the package
manager and pip. pyinfra is taken from PYINFRA (a path to its program) and left out where that is not set.

Run: python tests/bench/converge.py NAME [RUNS]   (NAME: an instance of `gpuprov up --rehearse`)
"""

import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from provision.converge.progress import Progress
from provision.converge.roles import all_roles
from provision.converge.run import converge, undo
from provision.host.ssh import Target
from provision.profile import load
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.workflow.session import Session
from tests.bench.cost import Cost, hosts_folder, own

WAITING = {"Install the packages with apt", "Install OpenCV exactly as locked"}
ROUND_TRIP_MS = 40
PLAIN_ANSIBLE = "ansible-playbook, 40 tasks"  # of this peer the pipelined form alone stands in the table


def main() -> None:
    name, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    session = Session.open()
    record = session.record(name)
    profile = Profile.model_validate(record.profile)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        play = write_play(folder)
        for delay_ms in (0, ROUND_TRIP_MS):
            with Far(session, name, record.machines[0].address, folder / f"at-{delay_ms}", delay_ms) as target:
                tell(f"{delay_ms} ms round trip, medians of {runs}")
                bare = timed(runs, [*target.ssh, "true"])
                tell(f"  ssh true                       {bare:6.2f} s")
                ours = timed(
                    runs, [sys.executable, "-m", "provision", "apply", target.name, "--profile", "t4-train", "--without-gpu"], target.env
                )
                tell(f"  gpuprov apply, correct host    {ours:6.2f} s")
                for peer, argv in peers(play, target, folder).items():
                    run(argv, target.env)  # makes the end state
                    took = timed(runs, argv, target.env)
                    tell(f"  {peer:<30} {took:6.2f} s   {took / ours:5.1f} x ours")
                done = first(target, profile, record.lock, folder / f"first-{delay_ms}")
                own_s = f"{done.waiting_s:.1f} s in apt and pip, own {done.own_s:.1f} s"
                tell(f"  first converge                 {done.cost.wall_s:6.1f} s, {own_s}")


def tell(line: str) -> None:
    print(line, flush=True)


class Far:
    """A host as ssh sees it through the delay line: its own configuration, known hosts and connection."""

    def __init__(self, session: Session, name: str, address: str, folder: Path, delay_ms: float) -> None:
        folder.mkdir()
        relay = [sys.executable, str(Path(__file__).with_name("delay.py")), address, "22", str(delay_ms / 2)]
        self._relay = subprocess.Popen(relay, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._relay.stdout is not None
        port = self._relay.stdout.readline().strip()
        config, self.name = folder / "config", f"far{int(delay_ms)}"
        ours = session.ssh.target(name)
        said = subprocess.run(["ssh", "-F", str(ours.config), "-G", ours.destination], check=True, capture_output=True, text=True).stdout
        known = dict(line.partition(" ")[::2] for line in said.splitlines())
        config.write_text(
            f"Host {self.name}\n HostName 127.0.0.1\n Port {port}\n User {known['user']}\n IdentityFile {known['identityfile']}\n"
            f" HostKeyAlias {known.get('hostkeyalias', known['hostname'])}\n UserKnownHostsFile {known['userknownhostsfile']}\n"
            f" StrictHostKeyChecking yes\n IdentitiesOnly yes\n BatchMode yes\n"
        )
        self.target = Target(self.name, self.name, config)
        self.ssh = ["ssh", "-F", str(config), self.name]
        self.login = {"ssh_port": int(port), "ssh_user": known["user"], "ssh_key": known["identityfile"]}
        # gpuprov and Ansible call ssh by name: this one has the configuration.
        program = folder / "bin/ssh"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {config} "$@"\n')
        program.chmod(0o755)
        self.env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
        self.config = config

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._relay.terminate()
        self._relay.wait()


def run(argv: list[str], env: dict[str, str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, f"{argv}: {done.stdout[-1500:]}{done.stderr[-1500:]}"


def timed(runs: int, argv: list[str], env: dict[str, str] | None = None) -> float:
    took = []
    for _ in range(runs):
        started = time.perf_counter()
        run(argv, env or dict(os.environ))
        took.append(time.perf_counter() - started)
    return statistics.median(took)


def write_play(folder: Path) -> Path:
    made = "ansible.builtin.file"
    folders = [{"name": f"Folder {n}", made: {"path": f"/opt/bench/d{n}", "state": "directory", "mode": "0755"}} for n in range(10)]
    paths = {n: f"/opt/bench/d{n % 10}/f{n}" for n in range(30)}
    copied = "ansible.builtin.copy"
    files = [{"name": f"File {n}", copied: {"dest": path, "content": f"{n}\n", "mode": "0644"}} for n, path in paths.items()]
    play = folder / "play.json"
    play.write_text(json.dumps([{"hosts": "all", "become": True, "tasks": [*folders, *files]}]))
    deploy = (
        "from io import StringIO\nfrom pyinfra.operations import files\n"
        "for n in range(10):\n    files.directory(f'/opt/bench/d{n}', mode='755', _sudo=True)\n"
        "for n in range(30):\n    files.put(StringIO(f'{n}\\n'), f'/opt/bench/d{n % 10}/f{n}', mode='644', _sudo=True)\n"
    )
    (folder / "deploy.py").write_text(deploy)
    return play


def peers(play: Path, far: Far, folder: Path) -> dict[str, list[str]]:
    inventory = folder / "inventory"
    inventory.write_text(f"{far.name} ansible_ssh_common_args='-F {far.config}'\n")
    program = str(Path(sys.executable).parent / "ansible-playbook")
    plain = [program, "-i", str(inventory), "-l", far.name, str(play)]
    found = {
        PLAIN_ANSIBLE: ["env", "ANSIBLE_PIPELINING=False", "LC_ALL=C.UTF-8", *plain],
        "ansible-playbook, pipelined": ["env", "ANSIBLE_PIPELINING=True", "LC_ALL=C.UTF-8", *plain],
    }
    if pyinfra := os.environ.get("PYINFRA"):
        hosts = folder / "hosts.py"
        # A host on loopback that nobody else listens for: its key is taken as it comes, which only a measurement may do.
        options = {**far.login, "ssh_hostname": "127.0.0.1", "ssh_strict_host_key_checking": "no"}
        hosts.write_text(f"hosts = [({far.name!r}, {options!r})]\n")
        found["pyinfra, 40 operations"] = [pyinfra, "-y", str(hosts), str(folder / "deploy.py")]
    return found


@dataclass(frozen=True, slots=True)
class First:
    """A first converge: what it took, and of its seconds those in apt and pip, and those in other tasks of Ansible."""

    cost: Cost
    waiting_s: float
    tasks_s: float

    @property
    def own_s(self) -> float:
        """Without what it installs."""
        return self.cost.wall_s - self.waiting_s


def first(far: Far, profile: Profile, lock: dict[str, object], folder: Path) -> First:
    """Undo what the roles made on a host, and set it up again, which alone is measured."""
    undo(far.target, all_roles(profile, without_gpu=True), run_dir=folder / "undo", on_progress=lambda _: None)
    waiting_s, tasks_s = 0.0, 0.0

    def told(progress: Progress) -> None:
        nonlocal waiting_s, tasks_s
        waiting_s += progress.task_s if progress.task in WAITING else 0.0
        tasks_s += progress.task_s if progress.task not in WAITING else 0.0

    roles = [role for role in all_roles(profile, without_gpu=True) if role not in {"preflight", "sources", "packages"}]
    asked, locked = load.load(load.find("t4-train")), Lock.model_validate(lock)
    run = functools.partial(converge, far.target, asked, roles, lock=locked, run_dir=folder / "run", login="ubuntu", on_progress=told)
    return First(own(run, hosts=hosts_folder()), waiting_s, tasks_s)


if __name__ == "__main__":
    main()
