"""The rows whose other side is a host, each in turn with its floor: `verify`, a first converge and a no-op `apply`, near and far away.

The client's own CPU is what `wait4` says of its process and of those that it waited for. The host's is not in it: the host is a rehearsal
host, whose processes are children of another program.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from provision.profile.model import Profile
from provision.workflow.session import Session
from tests.bench import converge, verify
from tests.bench.row import Row, pairs

GPUPROV = [sys.executable, "-m", "provision"]
CROWD = 64


def spent(argv: Sequence[str], environment: Mapping[str, str], *, codes: tuple[int, ...] = (0,)) -> tuple[float, float, float]:
    """Run a program: its seconds, its CPU seconds, and its largest size in MB."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(list(argv), env=dict(environment), stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        assert process.returncode in codes, said.read()[-2000:].decode(errors="replace")
    return time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


class HostRows:
    """The rows, with one rehearsal host by the name of its launch."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.session = Session.open()
        more = "echo MaxStartups 200 | sudo tee /etc/ssh/sshd_config.d/10-bench.conf && sudo systemctl reload ssh"
        target = self.session.target(name)
        verify.shell(["ssh", "-F", str(target.config), target.destination, more])

    def of(self, number: int) -> list[Row]:
        with tempfile.TemporaryDirectory() as place:
            return {1: self.far, 2: self.near, 7: self.first, 8: self.correct, 9: self.crowd}[number](Path(place))

    def far(self, folder: Path) -> list[Row]:
        return [self._verified(folder, 80, 1)]

    def near(self, folder: Path) -> list[Row]:
        return [self._verified(folder, 0, 2)]

    def _verified(self, folder: Path, delay_ms: int, number: int) -> Row:
        with verify.Far(self.name, folder / "far", delay_ms) as far:
            words = [*GPUPROV, "verify", "far0", "--profile", "t4-train", "--tier", "quick"]
            bare = ["ssh", "-F", str(far.config), "far0", "true"]
            found = pairs(lambda: spent(words, far.env, codes=(0, 1, 3))[0], lambda: spent(bare, os.environ)[0])
        return Row.of(f"{number} verify of one host, {delay_ms} ms / ssh true", found)

    def crowd(self, folder: Path) -> list[Row]:
        names = [f"far{number}" for number in range(CROWD)]
        with verify.Far(self.name, folder / "far", 0) as far:
            words = [*GPUPROV, "verify", *names, "--profile", "t4-train", "--tier", "quick", "--jobs", str(CROWD)]
            bare = f"for n in {' '.join(names)}; do ssh -F {far.config} $n true & done; wait"
            last: dict[str, float] = {}

            def ours() -> float:
                _, cpu_s, last["mb"] = spent(words, far.env, codes=(0, 1, 3))
                return 1000 * cpu_s / CROWD

            found = pairs(ours, lambda: 1000 * spent(["bash", "-c", bare], os.environ)[1] / CROWD)
            one_mb = spent([*GPUPROV, "verify", "far0", "--profile", "t4-train", "--tier", "quick"], far.env, codes=(0, 1, 3))[2]
        row = Row.of(f"9 verify of {CROWD} hosts, a host / its ssh", found, "CPU ms")
        return [row, Row(f"9 verify of {CROWD} hosts, all / one", last["mb"], one_mb, last["mb"] / one_mb, "MB")]

    def correct(self, folder: Path) -> list[Row]:
        return [self._apply(folder / f"at-{delay_ms}", delay_ms) for delay_ms in (0, 40)]

    def _far(self, folder: Path, delay_ms: int) -> converge.Far:
        return converge.Far(self.session, self.name, self.session.record(self.name).machines[0].address, folder, delay_ms)

    def _apply(self, folder: Path, delay_ms: int) -> Row:
        with self._far(folder, delay_ms) as far:
            words = [*GPUPROV, "apply", far.name, "--profile", "t4-train", "--without-gpu"]
            found = pairs(lambda: spent(words, far.env)[0], lambda: spent([*far.ssh, "true"], os.environ)[0])
        return Row.of(f"8 apply where all holds, {delay_ms} ms / ssh true", found)

    def first(self, folder: Path) -> list[Row]:
        """Once: it takes as long as what it installs, which is taken off."""
        record = self.session.record(self.name)
        profile = Profile.model_validate(record.profile)
        play = folder / "play.yml"
        play.write_text("[{hosts: localhost, gather_facts: false, tasks: []}]\n")
        started = self._started(play)
        with self._far(folder / "far", 0) as far:
            total, waiting = converge.first(far, profile, record.lock, folder / "first")
        floor = started()
        return [Row.of("7 first converge less apt and pip / one Ansible", [(total - waiting, floor)])]

    def _started(self, play: Path) -> Callable[[], float]:
        words = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,", "-c", "local", str(play)]
        return lambda: spent(words, {**os.environ, "LC_ALL": "C.UTF-8"})[0]
