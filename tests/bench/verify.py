"""`gpuprov verify` beside a bare `ssh HOST true`, pytest-testinfra and Ansible, near and 80 ms away; on 1, 16 and 64 hosts; judging alone.

All ask about the same 40 things (10 commands, 10 tools, 10 files and their contents); ours asks for all its facts, which are more.
Every run opens a new connection: the shared one of our SSH configuration is switched off for ours and for `ssh true`; testinfra and
Ansible have a ControlPath, as their manuals advise, opened and closed within the run. The hosts are aliases of one rehearsal host, so
that client and hosts share the cores of this machine; its sshd, which takes ten strangers at a time, is told to take 200. testinfra and
paramiko are taken from TESTINFRA (a path to a python with both) and left out where that is not set.

Run: python tests/bench/verify.py NAME [RUNS [HOSTS …]]   (NAME: an instance of `gpuprov up --rehearse`)
"""

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from provision.host.ssh import Target
from provision.profile import load
from provision.verify.facts import dump, parse
from provision.verify.fleet import verify
from provision.verify.judge import judge
from provision.verify.observe import observe
from provision.workflow.session import Session
from tests.bench.converge import PLAIN_ANSIBLE

ROUND_TRIP_MS = 80
_ASKED = load.load(load.find("t4-train"))
PROFILE = _ASKED.model_copy(update={"verify": _ASKED.verify.model_copy(update={"tier": "quick"})})
TOOLS = ["gcc", "make", "cmake", "git", "tmux", "ffmpeg", "python3", "nvcc", "nvidia-smi", "ncu"]
FILES = [
    f"/etc/{n}" for n in ["os-release", "passwd", "group", "fstab", "hosts", "hostname", "profile", "ld.so.conf", "shells", "login.defs"]
]
COMMANDS = ["uname -r", "uname -m", "id -un", "id -u", "nproc", "cat /proc/meminfo", "cat /proc/mounts", "df /", "ls /dev", "ls /etc/apt"]


def main() -> None:
    name, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7
    crowds = [int(n) for n in sys.argv[3:]] or [16, 64]
    tell(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    tell(f"medians of {runs} interleaved runs, of the peers {max(1, runs // 3)}")
    more = "echo MaxStartups 200 | sudo tee /etc/ssh/sshd_config.d/10-bench.conf && sudo systemctl reload ssh"
    ours = Session.open().target(name)
    shell(["ssh", "-F", str(ours.config), ours.destination, more])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for delay_ms in (ROUND_TRIP_MS, 0):
            with Far(name, folder / f"at-{delay_ms}", delay_ms) as far:
                tell(f"{delay_ms} ms round trip")
                one_host(far, runs, folder)
                many_hosts(far, crowds, max(3, runs // 2))
    judging(name)


def tell(line: str) -> None:
    print(line, flush=True)


class Far:
    """One host under many aliases as ssh sees them through the delay line, with no shared connection."""

    def __init__(self, name: str, folder: Path, delay_ms: float) -> None:
        folder.mkdir()
        session = Session.open()
        address = session.record(name).machines[0].address
        relay = [sys.executable, str(Path(__file__).with_name("delay.py")), address, "22", str(delay_ms / 2)]
        self._relay = subprocess.Popen(relay, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._relay.stdout is not None
        port = self._relay.stdout.readline().strip()
        ours = session.ssh.target(name)
        said = subprocess.run(["ssh", "-F", str(ours.config), "-G", ours.destination], check=True, capture_output=True, text=True).stdout
        known = dict(line.partition(" ")[::2] for line in said.splitlines())
        self.config = folder / "config"
        self.config.write_text(
            f"Host far*\n HostName 127.0.0.1\n Port {port}\n User {known['user']}\n IdentityFile {known['identityfile']}\n"
            f" HostKeyAlias {known.get('hostkeyalias', known['hostname'])}\n UserKnownHostsFile {known['userknownhostsfile']}\n"
            f" StrictHostKeyChecking yes\n IdentitiesOnly yes\n BatchMode yes\n"
        )
        self.shared = folder / "shared"
        self.shared.write_text(f"Host far*\n ControlMaster auto\n ControlPath {folder}/%C\n ControlPersist 60\n" + self.config.read_text())
        # gpuprov's command calls ssh by name: this one has the configuration.
        program = folder / "bin/ssh"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {self.config} "$@"\n')
        program.chmod(0o755)
        self.env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}

    def target(self, number: int = 0) -> Target:
        return Target(f"far{number}", f"far{number}", self.config)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._relay.terminate()
        self._relay.wait()


def shell(argv: list[str], env: dict[str, str] | None = None, codes: tuple[int, ...] = (0,)) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode in codes, f"{argv}: {done.stdout[-1500:]}{done.stderr[-1500:]}"


def medians(ways: dict[str, Callable[[], object]], runs: int) -> dict[str, float]:
    took: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(runs):
        for way, run in ways.items():
            started = time.perf_counter()
            run()
            took[way].append(time.perf_counter() - started)
    return {way: statistics.median(values) for way, values in took.items()}


def one_host(far: Far, runs: int, folder: Path) -> None:
    ours = [sys.executable, "-m", "provision", "verify", "far0", "--profile", "t4-train", "--tier", "quick"]
    ways: dict[str, Callable[[], object]] = {
        "ssh true": lambda: shell(["ssh", "-F", str(far.config), "far0", "true"]),
        "gpuprov verify, the command": lambda: shell(ours, far.env, (0, 1, 3)),
        "verify() in this process": lambda: asyncio.run(verify(far.target(), PROFILE)),
    }
    found = medians(ways, runs)
    bare, command = found["ssh true"], found["gpuprov verify, the command"]
    for way, seconds in found.items():
        tell(f"  {way:<34} {seconds:6.2f} s   {seconds / bare:5.2f} x ssh true")
    target = 1.3 * bare + 0.3
    tell(f"  {'target: 1.3 x ssh true + 0.3 s':<34} {target:6.2f} s   {'met' if command <= target else 'missed'} by the command")
    for way, seconds in medians(peers(far, folder), max(1, runs // 3)).items():
        tell(f"  {way:<34} {seconds:6.2f} s   {seconds / command:5.1f} x the command")


def peers(far: Far, folder: Path, hosts: int = 1) -> dict[str, Callable[[], object]]:
    """The peers' commands by their names, each about so many hosts at the same time."""
    names = [f"far{number}" for number in range(hosts)]
    play = folder / "play.json"
    tasks = [{"name": c, "ansible.builtin.command": {"cmd": c}, "changed_when": False} for c in COMMANDS]
    tasks += [{"name": t, "ansible.builtin.command": {"cmd": f"which {t}"}, "changed_when": False, "failed_when": False} for t in TOOLS]
    tasks += [{"name": f, "ansible.builtin.stat": {"path": f}} for f in FILES]
    tasks += [{"name": f"again {f}", "ansible.builtin.slurp": {"src": f}} for f in FILES]
    assert len(tasks) == 40
    play.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    inventory = folder / "inventory"
    given = f"ansible_ssh_common_args='-F {far.config}' ansible_python_interpreter=/usr/bin/python3"
    inventory.write_text("".join(f"{name} {given}\n" for name in names))
    program = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(inventory), "-f", str(hosts), str(play)]
    env = {**os.environ, "LC_ALL": "C.UTF-8", "ANSIBLE_HOST_KEY_CHECKING": "True", "ANSIBLE_PIPELINING": "True"}
    cold = {"ANSIBLE_SSH_ARGS": f"-o ControlMaster=auto -o ControlPersist=60 -o ControlPath={folder}/%%C"}
    found: dict[str, Callable[[], object]] = {
        PLAIN_ANSIBLE: lambda: closing(far, folder, names, lambda: shell(program, {**env, **cold, "ANSIBLE_PIPELINING": "False"})),
        "ansible-playbook, pipelined": lambda: closing(far, folder, names, lambda: shell(program, {**env, **cold})),
    }
    if python := os.environ.get("TESTINFRA"):
        test = folder / "test_host.py"
        test.write_text(
            "import pytest\n"
            f"@pytest.mark.parametrize('c', {COMMANDS!r})\ndef test_command(host, c):\n    assert host.run(c).rc == 0\n"
            f"@pytest.mark.parametrize('t', {TOOLS!r})\ndef test_tool(host, t):\n    host.exists(t)\n"
            f"@pytest.mark.parametrize('f', {FILES!r})\ndef test_file(host, f):\n    assert host.file(f).exists\n"
            f"@pytest.mark.parametrize('f', {FILES!r})\ndef test_content(host, f):\n    assert host.file(f).content is not None\n"
        )
        base = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(test)]
        shared = [*base, "--ssh-config", str(far.shared), "--hosts", ",".join(f"ssh://{name}" for name in names)]
        paramiko = [*base, "--ssh-config", str(far.config), "--hosts", ",".join(f"paramiko://{name}" for name in names)]
        found["testinfra with ControlPath"] = lambda: closing(far, far.shared.parent, names, lambda: shell(shared))
        found["testinfra with paramiko"] = lambda: shell(paramiko)
    return found


def closing(far: Far, folder: Path, names: list[str], run: Callable[[], object]) -> None:
    """Close the shared connections afterwards, so that the next run is as cold; the time it takes is a few milliseconds."""
    run()
    for name in names:
        argv = ["ssh", "-F", str(far.config), "-o", f"ControlPath={folder}/%C", "-O", "exit", name]
        subprocess.run(argv, check=False, capture_output=True)


def many_hosts(far: Far, crowds: list[int], runs: int) -> None:
    """All at once, at most 64 connections."""

    async def together(count: int) -> None:
        room = asyncio.Semaphore(64)

        async def one(number: int) -> None:
            async with room:
                await verify(far.target(number), PROFILE, timeout_s=120)

        await asyncio.gather(*(one(number) for number in range(count)))

    alone = 0.0
    for count in (1, *crowds):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime + resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        (seconds,) = medians({"": lambda count=count: asyncio.run(together(count))}, runs).values()  # type: ignore[misc]
        used = resource.getrusage(resource.RUSAGE_SELF).ru_utime + resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        alone = alone or seconds
        tell(
            f"  gpuprov verify, {count:>3} hosts at once  {seconds:6.2f} s   {seconds / alone:5.2f} x one   client CPU {used / runs:.2f} s"
        )


def judging(name: str) -> None:
    text = dump(asyncio.run(observe(Session.open().target(name))))
    started = time.perf_counter()
    for _ in range(1000):
        judge(parse(json.loads(text), "bench"), PROFILE)
    tell(f"judging 1,000 facts files of {len(text) >> 10} KiB: {time.perf_counter() - started:.2f} s")


if __name__ == "__main__":
    main()
