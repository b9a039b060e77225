"""The rows whose other side is a host, each in turn with its floor: `verify`, a first converge and a no-op `apply`, near and far away."""

import functools
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from provision.profile.model import Profile
from provision.workflow.session import Session
from tests.bench import beside, converge, phases, verify
from tests.bench.beside import Peer
from tests.bench.cost import Cost, hosts_folder, spent
from tests.bench.row import Row, pairs

GPUPROV = [sys.executable, "-m", "provision"]
CROWD = 64
FEW = 8  # hosts for a peer, each of which asks 40 times: with 64 it would take minutes, and no less for each
VERIFIED = (0, 1, 3)  # what holds on a rehearsal host is not what is measured
QUICK = ["--profile", "t4-train", "--tier", "quick"]


class HostRows:
    """The rows, with one rehearsal host by the name of its launch."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.session = Session.open()
        self.hosts = hosts_folder()
        more = "echo MaxStartups 200 | sudo tee /etc/ssh/sshd_config.d/10-bench.conf && sudo systemctl reload ssh"
        target = self.session.target(name)
        verify.shell(["ssh", "-F", str(target.config), target.destination, more])

    def of(self, number: int) -> list[Row]:
        with tempfile.TemporaryDirectory() as place:
            return {1: self.far, 2: self.near, 7: self.first, 8: self.correct, 9: self.crowd}[number](Path(place))

    def peers(self, number: int) -> list[Peer]:
        """What a row's peers take for it."""
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            if number in {1, 2}:
                with verify.Far(self.name, folder / "far", 80 if number == 1 else 0) as far:
                    return beside.measured(number, verify.peers(far, folder), lambda cost: cost.wall_s)
            if number == 8:
                with self._far(folder / "far", 0) as far:
                    commands = converge.peers(converge.write_play(folder), far, folder)
                    applies: dict[str, Callable[[], object]] = {
                        f"{who}, 0 ms": functools.partial(converge.run, argv, far.env) for who, argv in commands.items()
                    }
                    return beside.measured(number, applies, lambda cost: cost.wall_s)
            if number == 9:
                with verify.Far(self.name, folder / "far", 0) as far:
                    runs = {f"{who}, {FEW} hosts": run for who, run in verify.peers(far, folder, FEW).items()}
                    return beside.measured(number, runs, lambda cost: 1000 * cost.cpu_s / FEW, runs=1)
        return []

    def far(self, folder: Path) -> list[Row]:
        return [self._verified(folder, 80, 1)]

    def near(self, folder: Path) -> list[Row]:
        return [self._verified(folder, 0, 2)]

    def _ours(self, words: Sequence[str], env: Mapping[str, str], codes: tuple[int, ...] = VERIFIED) -> Callable[[], Cost]:
        return lambda: spent([*GPUPROV, *words], env, codes=codes, hosts=self.hosts)

    def _watched(self, words: Sequence[str], env: Mapping[str, str]) -> dict[str, float]:
        """Seconds by phase of a command."""

        def run(watch: phases.Watched) -> tuple[float, float]:
            return phases.timed(lambda: spent([*watch.prefix, *words], watch.environment, codes=VERIFIED))

        return phases.watched(run, env)

    def _verified(self, folder: Path, delay_ms: int, number: int) -> Row:
        with verify.Far(self.name, folder / "far", delay_ms) as far:
            words = ["verify", "far0", *QUICK]
            bare = ["ssh", "-F", str(far.config), "far0", "true"]
            found = pairs(self._ours(words, far.env), lambda: spent(bare, os.environ))
            seen = self._watched(words, far.env)
        return Row.of(f"{number} verify of one host, {delay_ms} ms / ssh true", found, phases=seen)

    def crowd(self, folder: Path) -> list[Row]:
        names = [f"far{number}" for number in range(CROWD)]
        with verify.Far(self.name, folder / "far", 0) as far:
            words = ["verify", *names, *QUICK, "--jobs", str(CROWD)]
            bare = f"for n in {' '.join(names)}; do ssh -F {far.config} $n true & done; wait"
            found = pairs(self._ours(words, far.env), lambda: spent(["bash", "-c", bare], os.environ))
            one_mb = self._ours(["verify", "far0", *QUICK], far.env)().memory_mb
            watch = phases.Watched(folder, far.env)
            cost = spent([*watch.prefix, *words], watch.environment, codes=VERIFIED)
            seen = {phase: 1000 * cpu_s / CROWD for phase, cpu_s in phases.by_cpu(watch.events(), cost).items()}
        row = Row.of(f"9 verify of {CROWD} hosts, a host / its ssh", found, "CPU ms", lambda cost: 1000 * cost.cpu_s / CROWD, seen)
        all_mb = found[-1][0].memory_mb
        return [row, Row(f"9 verify of {CROWD} hosts, all / one", all_mb, one_mb, all_mb / one_mb, "MB")]

    def correct(self, folder: Path) -> list[Row]:
        return [self._apply(folder / f"at-{delay_ms}", delay_ms) for delay_ms in (0, 40)]

    def _far(self, folder: Path, delay_ms: int) -> converge.Far:
        return converge.Far(self.session, self.name, self.session.record(self.name).machines[0].address, folder, delay_ms)

    def _apply(self, folder: Path, delay_ms: int) -> Row:
        with self._far(folder, delay_ms) as far:
            words = ["apply", far.name, "--profile", "t4-train", "--without-gpu"]
            found = pairs(self._ours(words, far.env, (0,)), lambda: spent([*far.ssh, "true"], os.environ))
            seen = self._watched(words, far.env)
        return Row.of(f"8 apply where all holds, {delay_ms} ms / ssh true", found, phases=seen)

    def first(self, folder: Path) -> list[Row]:
        """Once: it takes as long as what it installs, which is taken off. What apt and pip use on the host is in the host's CPU."""
        record = self.session.record(self.name)
        profile = Profile.model_validate(record.profile)
        play = folder / "play.yml"
        play.write_text("[{hosts: localhost, gather_facts: false, tasks: []}]\n")
        argv = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,", "-c", "local", str(play)]
        started = [spent(argv, {**os.environ, "LC_ALL": "C.UTF-8"}) for _ in range(2)][-1]
        with self._far(folder / "far", 0) as far:
            done = converge.first(far, profile, record.lock, folder / "first")
        seen = {"tasks": done.tasks_s, "rest": done.own_s - done.tasks_s}
        ours = Cost(done.own_s, done.cost.cpu_s, hosts_cpu_s=done.cost.hosts_cpu_s)
        return [Row.of("7 first converge less apt and pip / one Ansible", [(ours, started)], phases=seen)]
