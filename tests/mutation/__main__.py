"""Mutation testing: change one expression at a time, and see whether a test notices. `make mutate`, or `python -m tests.mutation ROOM…`.
With `--again` only those run that survived the last time: for whoever writes the tests, because numbers change with the code.

mutmut makes the mutants, and each runs only the tests that reach its function. Words are not judged: a mutant that only changes a
sentence is left out, because no test should hold a message word for word. Every other survivor has its line in survivors.yml: it is
`equivalent`, so that no test can notice it, or a `hole`, which a test should close.
"""

import ast
import contextlib
import dataclasses
import difflib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import psutil
import yaml

from tests.mutation.mutants import RESULTS, Copy
from tests.mutation.rooms import ROOMS, Room

ROOT: Final = Path(__file__).parents[2]
WORK: Final = ROOT / "build" / "mutation"
SURVIVORS: Final = Path(__file__).with_name("survivors.yml")
LEAST: Final = 0.90  # of the mutants that are not equivalent
_NEEDED: Final = ("provision", "tests", "playbooks", "profiles", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile")
_UNMUTATED: Final = "__mutmut_orig"


class RoomError(Exception):
    """A room did not run to its end."""


@dataclass(frozen=True)
class Survivor:
    """A mutant that no test noticed: the function, and the line before and after."""

    function: str
    change: str


@dataclass(frozen=True)
class Score:
    """What came of one room."""

    killed: int
    timeouts: int
    survivors: tuple[Survivor, ...]


def main(names: list[str], *, again: bool = False) -> int:
    """Mutate the rooms of these names, all without; returns the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    known: dict[str, list[dict[str, str]]] = yaml.safe_load(SURVIVORS.read_text()) or {}
    failed = False
    print("room         mutants  killed timeout  score equivalent  holes  unnamed  seconds", flush=True)
    for name in names or ROOMS:
        begun = time.monotonic()
        try:
            score = mutate(name, ROOMS[name], again=again)
        except RoomError as error:
            print(f"{name:12} {error}", flush=True)
            failed = True
            continue
        kinds = {Survivor(each["function"], each["change"]): each["kind"] for each in known.get(name, [])}
        equivalent = sum(kinds.get(survivor) == "equivalent" for survivor in score.survivors)
        holes = sum(kinds.get(survivor) == "hole" for survivor in score.survivors)
        new = [survivor for survivor in score.survivors if survivor not in kinds]
        total = score.killed + len(score.survivors) - equivalent
        share = score.killed / max(total, 1)
        counts = f"{total:7} {score.killed:7} {score.timeouts:7} {share:6.1%} {equivalent:10} {holes:6} {len(new):8}"
        ended = time.monotonic()
        print(f"{name:12} {counts} {ended - begun:8.0f}", flush=True)
        for survivor in new:
            print(f"  unnamed: {survivor.function}: {survivor.change}")
        for survivor in set(kinds) - set(score.survivors):
            print(f"  no longer survives: {survivor.function}: {survivor.change}")
        failed = failed or bool(new) or share < LEAST
    return int(failed)


def mutate(name: str, room: Room, *, again: bool = False) -> Score:
    """Mutate one room in a copy of the repository; `again` keeps what was killed the last time."""
    folder = WORK / name
    last = folder / RESULTS
    kept = json.loads(last.read_text()) if again and last.exists() else {}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for needed in _NEEDED:
        source = ROOT / needed
        copy: Any = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, folder / needed)
    (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text() + '\n[tool.mutmut]\nsource_paths = ["."]\n')
    code = sorted(str(path.relative_to(folder)) for pattern in room.code for path in folder.glob(pattern))
    inside = Copy(code, room.imported_from, list(room.tests), os.cpu_count() or 1)
    last.write_text(json.dumps({key: result for key, result in kept.items() if result["outcome"] in {"killed", "timeout"}}))
    (folder / "room.json").write_text(json.dumps(dataclasses.asdict(inside)))
    with (folder / "log").open("w") as log:
        for half in ("hold", "import_anew"):
            _run([sys.executable, "-m", "tests.mutation.forks", half, "room.json"], folder, log)
    results = json.loads(last.read_text())
    broken = {key: result for key, result in results.items() if result["outcome"] not in {"killed", "survived", "timeout"}}
    if broken:
        msg = f"{len(broken)} forks broke: {folder / 'log'}"
        raise RoomError(msg)
    timeouts = sum(result["outcome"] == "timeout" for result in results.values())
    survived = {key for key, result in results.items() if result["outcome"] == "survived"}
    outcomes = [outcome for path in code for outcome in _outcomes(folder / path, inside.module(path), survived)]
    return Score(sum(outcome is None for outcome in outcomes), timeouts, tuple(outcome for outcome in outcomes if outcome))


def _run(command: list[str], folder: Path, log: IO[str]) -> None:
    """Run it with a folder for everything temporary, and end all that it leaves."""
    with tempfile.TemporaryDirectory(prefix="gpuprov-mutants-", ignore_cleanup_errors=True) as temporary:
        settings = os.environ | {"TMPDIR": temporary, "PYTHONPATH": str(folder), "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
        settings.pop("PYTHONDONTWRITEBYTECODE", None)  # a file with a thousand mutants takes long to compile
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, env=settings, start_new_session=True)
        try:
            code = process.wait()
        finally:
            _end(process.pid)
    if code:
        msg = f"did not run to its end: {folder / 'log'}"
        raise RoomError(msg)


def _end(session: int) -> None:
    """End all processes of a session, and wait until they are gone: each mutant has a process group of its own."""
    for _ in range(200):
        alive = 0
        for process in psutil.process_iter():
            with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
                if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                    process.kill()
                    alive += 1
        if not alive:
            return
        time.sleep(0.02)


def _outcomes(path: Path, module: str, survived: set[str]) -> Iterator[Survivor | None]:
    """For each mutant of a file that changes more than words: None if it was killed, else what it is."""
    tree = ast.parse(path.read_text())
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for mutant in (name for name in functions if "__mutmut_" in name and not name.endswith(_UNMUTATED)):
        stem = mutant.rpartition("__mutmut_")[0]
        before, after = (_lines(functions[each]) for each in (stem + _UNMUTATED, mutant))
        if f"{module}.{mutant}" not in survived:
            yield None
        elif not _same_but_for_words(functions[stem + _UNMUTATED], functions[mutant]):
            change = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
            words = " -> ".join(line[2:].strip() for line in change)
            yield Survivor(f"{path.stem}.{stem.removeprefix('x_').replace('ǁ', '.').removeprefix('x.')}", words)


def _lines(function: ast.AST) -> list[str]:
    return ast.unparse(function).splitlines()[1:]


def _same_but_for_words(one: ast.AST, other: ast.AST) -> bool:
    """Whether two functions differ in a sentence alone: a text with a space in it, replaced by None or another text."""
    pairs = zip(ast.walk(one), ast.walk(other), strict=False)
    for left, right in pairs:
        if type(left) is not type(right) or _plain(left) != _plain(right):
            named = isinstance(left, ast.FunctionDef | ast.AsyncFunctionDef)
            if not named:
                return _is_sentence(left)
    return True


def _plain(node: ast.AST) -> list[Any]:
    return [value for _, value in ast.iter_fields(node) if not isinstance(value, ast.AST | list)]


def _is_sentence(node: ast.AST) -> bool:
    texts = [part for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return isinstance(node, ast.JoinedStr | ast.Constant) and any(" " in str(text.value) for text in texts)


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.exit(main([word for word in words if word != "--again"], again="--again" in words))
