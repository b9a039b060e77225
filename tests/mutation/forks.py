"""The mutants of one room, run in its copy: `python -m tests.mutation.forks hold ROOM.json`, then `import_anew`.

mutmut makes the mutants; it would start pytest anew for each, which costs ten times what the tests cost. Here pytest collects once, and
each mutant is a fork of that session, which runs the tests that call its function until one fails: first those that killed its
neighbours, then those of the quickest file. Code that is called while modules are imported cannot change in such a fork: each of its
mutants imports it anew.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any, Final

import pytest
from mutmut.mutation import trampoline

from tests.mutation.mutants import RESULTS, Copy

CONTROL: Final = "nothing.x_nothing__mutmut_0"
KNOWN: Final = "known.json"
_RECORDING: Final = "stats"  # the name of the mutant with which mutmut's trampolines record their calls
_ARGUMENTS: Final = (
    *("--rootdir=.", "--tb=native", "--assert=plain", "--capture=sys", "-q", "-m", "not online"),
    *("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "tests.mutation.offline"),
)
_CPU: Final = (5, 15)  # a test may take so many seconds of CPU and so many times its own
_WALL: Final = (30, 10)  # all tests of a mutant
_OUR_FAULT: Final = 70
_MEMORY: Final = 6 << 30
_KILLERS: Final = 6  # tests that run first: they killed mutants of the same function


@dataclasses.dataclass
class Known:
    """What the control told: which tests call a function, what each takes, and what is called while modules are imported."""

    tests: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    at_import: list[str] = dataclasses.field(default_factory=list)
    modules: list[str] = dataclasses.field(default_factory=list)
    keys: list[str] = dataclasses.field(default_factory=list)

    def of(self, key: str) -> list[str]:
        """The tests of a mutant: all of them where its function is called while modules are imported."""
        function = key.rpartition("__mutmut_")[0]
        return list(self.seconds) if key == CONTROL or function in self.at_import else self.tests.get(function, [])

    def in_order(self, names: Iterable[str], first: Iterable[str]) -> list[str]:
        """Tests in the order in which they run. Those of a file stay together, because they share what their module sets up."""
        by_file: defaultdict[str, float] = defaultdict(float)
        names = set(names)
        for name in names:
            by_file[name.partition("::")[0]] += self.seconds[name]
        rest = sorted(names - set(first), key=lambda name: (by_file[name.partition("::")[0]], name.partition("::")[0], self.seconds[name]))
        return [*(name for name in first if name in names), *rest]


class Forks:
    """Runs each mutant in a fork, some at a time, and ends those that do not end by themselves."""

    def __init__(self, known: Known, workers: int, work: Callable[[list[str], Path], int]) -> None:
        self.known, self.workers, self.work = known, workers, work
        self.results: dict[str, dict[str, Any]] = results()
        self.killers: defaultdict[str, list[str]] = defaultdict(list)
        self.running: dict[int, tuple[str, Path, float, float]] = {}

    def run(self, keys: list[str]) -> None:
        """Run all mutants of these names, after one that changes nothing: a fork that fails by itself would count each as killed."""
        gc.freeze()
        self._begin(CONTROL)
        while self.running:
            self._wait()
        if self.results[CONTROL]["outcome"] != "survived":
            sys.exit(f"the tests fail in a fork without any mutant: {self.results[CONTROL]}")
        for key in keys:
            if not self.known.of(key):
                self.results[key] = {"outcome": "survived", "by": "no test calls it", "seconds": 0.0}
                continue
            while len(self.running) >= self.workers:
                self._wait()
            self._begin(key)
        while self.running:
            self._wait()
        self._save()

    def _save(self) -> None:
        Path(RESULTS).write_text(json.dumps(self.results, indent=1))

    def _begin(self, key: str) -> None:
        names = self.known.in_order(self.known.of(key), self.killers[key.rpartition("__mutmut_")[0]])
        folder = Path(tempfile.mkdtemp())
        pid = os.fork()
        if pid == 0:
            in_fork(lambda: self._child(key, names, folder))
        now = time.monotonic()
        most = _WALL[0] + _WALL[1] * sum(self.known.seconds[name] for name in names)
        self.running[pid] = key, folder, now, now + most

    def _child(self, key: str, names: list[str], folder: Path) -> int:
        os.setpgid(0, 0)
        confine(folder)
        if key != CONTROL:
            silence()
        trampoline.set_mutant_under_test(key)
        return self.work(names, folder)

    def _wait(self) -> None:
        """Take the result of the next one that ends, and end those whose time is up."""
        pid = 0
        while pid not in self.running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            for each in [each for each, (*_, deadline) in self.running.items() if each != pid and deadline < time.monotonic()]:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(each, signal.SIGXCPU)
            if pid == 0:
                time.sleep(0.005)
        now = time.monotonic()
        key, folder, begun, _ = self.running.pop(pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what its tests left running
        code = os.waitstatus_to_exitcode(status)
        by = (folder / "failed").read_text() if (folder / "failed").exists() else ""
        outcome = {0: "survived", 1: "killed", -signal.SIGXCPU: "timeout"}.get(code, f"broke: {code}")
        self.results[key] = {
            "outcome": outcome,
            "by": by[: 20_000 if key == CONTROL else 300],
            "seconds": round(now - begun, 2),
        }
        name = by.partition("\n")[0]
        if outcome in {"killed", "timeout"} and name:
            killers = self.killers[key.rpartition("__mutmut_")[0]]
            killers[:] = [name, *(each for each in killers if each != name)][:_KILLERS]
        print(f"{key} {outcome} {name} {self.results[key]['seconds']} s", flush=True)
        if len(self.results) % 50 == 0:
            self._save()
        shutil.rmtree(folder, ignore_errors=True)


def results() -> dict[str, dict[str, Any]]:
    """What is known already."""
    path = Path(RESULTS)
    return json.loads(path.read_text()) if path.exists() else {}


def in_fork(work: Callable[[], int]) -> None:
    """Do it and end this process, whatever comes: a fork must not return into what its parent goes on with."""
    code = _OUR_FAULT
    try:
        code = work()
    except KeyboardInterrupt:  # a test ended all tests
        code = 1
    finally:
        if code == _OUR_FAULT:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(code)


def confine(folder: Path) -> None:
    """Let everything temporary lie in one folder, and let nothing eat the machine."""
    os.environ.update(TMPDIR=str(folder), PYTEST_DEBUG_TEMPROOT=str(folder))
    tempfile.tempdir = None
    os.fsync = lambda fd: None  # noqa: ARG005 - a busy disk would be waited for, and no mutant outlives the machine
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def silence() -> None:
    """Drop what the tests of a mutant say."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


class Watched:
    """A plugin of pytest in a fork: it says what failed first, and limits the time of each test."""

    def __init__(self, known: Known, folder: Path) -> None:
        self.known, self.failed = known, False
        self.note = os.open(folder / "failed", os.O_WRONLY | os.O_CREAT)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """The test has its own time and no more."""
        self._write(nodeid)
        most = int(time.process_time() + _CPU[0] + _CPU[1] * self.known.seconds.get(nodeid, 10.0)) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember the first failure."""
        if report.failed and not self.failed:
            self.failed = True
            self._write(f"{report.nodeid}\n{report.when}\n{report.longreprtext}")

    def _write(self, text: str) -> None:
        os.ftruncate(self.note, 0)
        os.pwrite(self.note, text.encode(errors="replace"), 0)


class Held:
    """A plugin of pytest that holds its session once the tests are collected."""

    def __init__(self, room: Copy, keys: list[str]) -> None:
        self.room, self.keys = room, keys
        self.known = Known()
        self.called: set[str] = set()
        self.items: dict[str, pytest.Item] = {}

    def record(self, name: str, **_: Any) -> None:
        """A function with mutants is called."""
        self.called.add(name)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the mutants in forks of a session whose tests ran once, because that has read what takes long to read.

        What such a session remembers may also hide a mutant: those that survive run again in forks of this one, which ran no test.
        """
        self.known.at_import = sorted(self.called)
        self.items = {item.nodeid: item for item in session.items}
        pid = os.fork()
        if pid == 0:
            in_fork(lambda: self._warm(session))
        _, status = os.waitpid(pid, 0)
        if status:
            sys.exit("the tests fail without any mutant")
        self.known = Known(**json.loads(Path(KNOWN).read_text()))
        forks = Forks(self.known, self.room.workers, lambda names, folder: self._work(session, names, folder))
        forks.run(
            [key for key, result in forks.results.items() if result["outcome"] == "survived" and key != CONTROL and self.known.of(key)]
        )
        self.known.modules = [name for name in sys.modules if name.partition(".")[0] not in {"__main__", "tests"}]
        self.known.keys = [key for key in self.keys if key.rpartition("__mutmut_")[0] in self.called]
        Path(KNOWN).write_text(json.dumps(dataclasses.asdict(self.known)))
        return True

    def _warm(self, session: pytest.Session) -> int:
        """Learn which functions each test calls, and its time; then run the mutants."""
        folder = Path(tempfile.mkdtemp())
        tests: defaultdict[str, list[str]] = defaultdict(list)
        at_import = set(self.called)
        session.config.pluginmanager.register(watched := Watched(self.known, folder))
        chosen = list(self.items.values())
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            self.called.clear()
            begun = time.process_time(), time.monotonic()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            # What takes long on the clock alone waits, and a busy machine makes it wait longer.
            ended = time.process_time(), time.monotonic()
            self.known.seconds[item.nodeid] = max(ended[0] - begun[0], (ended[1] - begun[1]) / 2)
            for name in self.called:
                tests[name].append(item.nodeid)
        if watched.failed:
            print((folder / "failed").read_text())
            return 1
        session.config.pluginmanager.unregister(watched)
        resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self._forget()
        session.config._tmp_path_factory._basetemp = None  # type: ignore[attr-defined] # each fork makes its own
        self.known.tests = dict(tests)
        Path(KNOWN).write_text(json.dumps(dataclasses.asdict(self.known)))
        keys = [key for key in self.keys if key.rpartition("__mutmut_")[0] not in at_import]
        Forks(self.known, self.room.workers, lambda names, folder: self._work(session, names, folder)).run(keys)
        return 0

    def _forget(self) -> None:
        """Let the code that is changed keep no answer: its mutants would never be called."""
        modules = {self.room.module(path) for path in self.room.code}
        for each in gc.get_objects():
            if isinstance(each, functools._lru_cache_wrapper) and each.__module__ in modules:
                each.cache_clear()

    def _work(self, session: pytest.Session, names: list[str], folder: Path) -> int:
        session.config.pluginmanager.register(watched := Watched(self.known, folder))
        chosen = [self.items[name] for name in names]
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if watched.failed:
                return 1
        return 0


def hold(room: Copy) -> None:
    """Collect the tests, and run all mutants whose functions are not called meanwhile."""
    killed = results()
    held = Held(room, [key for key in room.make() if key not in killed])
    trampoline.record_trampoline_hit = held.record
    os.environ.pop("MUTANT_UNDER_TEST", None)  # a process that a test starts has nothing to record with
    trampoline._mutant_under_test = _RECORDING  # in this process alone
    code = pytest.main([*_ARGUMENTS, *room.tests], plugins=[held])
    if not Path(KNOWN).exists():
        sys.exit(f"the tests cannot be collected: pytest ends with {code}")


def import_anew(room: Copy) -> None:
    """Run the mutants of code that is called while it is imported: each fork imports it, and collects the tests."""
    known = Known(**json.loads(Path(KNOWN).read_text()))
    if not known.keys:
        return
    import_all_but([room.module(path) for path in room.code], known.modules)

    class Sorted:
        """A plugin that chooses the tests and their order."""

        def __init__(self, names: list[str]) -> None:
            self.ranks = {name: rank for rank, name in enumerate(names)}

        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            """In the order of the names."""
            items[:] = sorted((item for item in items if item.nodeid in self.ranks), key=lambda item: self.ranks[item.nodeid])

    def work(names: list[str], folder: Path) -> int:
        watched = Watched(known, folder)
        code = pytest.main([*_ARGUMENTS, "-x", *room.tests], plugins=[watched, Sorted(names)])
        return 1 if code else 0

    Forks(known, room.workers, work).run(known.keys)


def import_all_but(code: list[str], names: list[str]) -> None:
    """Import what no mutant changes. Whatever imports the code fails here, and is imported by each mutant."""

    class Blocked(MetaPathFinder):
        def find_spec(self, name: str, *_: Any) -> None:
            if name in code:
                raise ImportError(name)

    sys.meta_path.insert(0, blocked := Blocked())
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    sys.meta_path.remove(blocked)


def main(half: str, path: str) -> None:
    """Run one half of the room whose settings are in this file."""
    {"hold": hold, "import_anew": import_anew}[half](Copy(**json.loads(Path(path).read_text())))


if __name__ == "__main__":
    main(*sys.argv[1:])
