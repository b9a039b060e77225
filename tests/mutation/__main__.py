"""Mutation testing: change one expression at a time, and see whether a test notices. `make mutate`, or `python -m tests.mutation ROOM…`.

mutmut makes the mutants and runs for each only the tests that reach its function. Words are not judged: a mutant that only changes a
sentence is left out, because no test should hold a message word for word. Every other survivor has its line in survivors.yml: it is
`equivalent`, so that no test can notice it, or a `hole`, which a test should close.
"""

import ast
import difflib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.mutation.rooms import ROOMS, Room

ROOT: Final = Path(__file__).parents[2]
WORK: Final = ROOT / "build" / "mutation"
SURVIVORS: Final = Path(__file__).with_name("survivors.yml")
LEAST: Final = 0.90  # of the mutants that are not equivalent
_NEEDED: Final = ("provision", "tests", "playbooks", "profiles", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile")
_SURVIVED: Final = {0, 5, 33}  # of mutmut/stats.py: survived, and no test reaches it
_NO_RESULT: Final = {None, -1, 255}  # not run, or the runner itself failed
_UNMUTATED: Final = "__mutmut_orig"
_FORKS: Final = Path(__file__).with_name("forks.py")


@dataclass(frozen=True)
class Survivor:
    """A mutant that no test noticed: the function, and the line before and after."""

    function: str
    change: str


@dataclass(frozen=True)
class Score:
    """What came of one room."""

    killed: int
    survivors: tuple[Survivor, ...]


def main(names: list[str]) -> int:
    """Mutate the rooms of these names, all without; returns the exit code."""
    known: dict[str, list[dict[str, str]]] = yaml.safe_load(SURVIVORS.read_text()) or {}
    rows, unnamed = [], []
    for name in names or ROOMS:
        score = mutate(name, ROOMS[name])
        kinds = {Survivor(each["function"], each["change"]): each["kind"] for each in known.get(name, [])}
        equivalent = sum(kinds.get(survivor) == "equivalent" for survivor in score.survivors)
        holes = sum(kinds.get(survivor) == "hole" for survivor in score.survivors)
        new = [survivor for survivor in score.survivors if survivor not in kinds]
        unnamed += [(name, survivor) for survivor in new]
        total = score.killed + len(score.survivors) - equivalent
        rows.append((name, total, score.killed, score.killed / max(total, 1), equivalent, holes, len(new)))
    print(f"{'room':12} {'mutants':>7} {'killed':>7} {'score':>6} {'equivalent':>10} {'holes':>6} {'unnamed':>8}")
    for row in rows:
        print(f"{row[0]:12} {row[1]:7} {row[2]:7} {row[3]:6.1%} {row[4]:10} {row[5]:6} {row[6]:8}")
    for name, survivor in unnamed:
        print(f"unnamed in {name}: {survivor.function}: {survivor.change}")
    return 1 if unnamed or any(row[3] < LEAST for row in rows) else 0


def mutate(name: str, room: Room) -> Score:
    """Mutate one room in a copy of the repository."""
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for needed in _NEEDED:
        source = ROOT / needed
        copy: Any = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, folder / needed)
    (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text() + _settings(room))
    prefix = f"{room.imported_from.replace('/', '.')}." if room.imported_from else ""
    command = [sys.executable, str(_FORKS), str(os.cpu_count() or 1), prefix]
    with (folder / "mutmut.log").open("w") as log:
        done = subprocess.run(command, cwd=folder, check=False, stdout=log, stderr=subprocess.STDOUT)
    metas = list((folder / "mutants").rglob("*.meta"))
    if done.returncode or not metas:
        sys.exit(f"mutmut failed in room {name}: {folder / 'mutmut.log'}")
    if any(code in _NO_RESULT for meta in metas for code in json.loads(meta.read_text())["exit_code_by_key"].values()):
        sys.exit(f"room {name} did not run to its end: {folder / 'mutmut.log'}")
    outcomes = [outcome for meta in metas for outcome in _outcomes(meta)]
    survivors = tuple(survivor for survivor in outcomes if survivor)
    return Score(sum(survivor is None for survivor in outcomes), survivors)


def _settings(room: Room) -> str:
    others = [needed for needed in _NEEDED if needed not in {room.source, "tests"}]
    values = {
        "source_paths": [room.source],
        "only_mutate": list(room.code),
        "also_copy": others,
        "pytest_add_cli_args": ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "tests.mutation.offline", "-m", "not online"],
        "pytest_add_cli_args_test_selection": list(room.tests),
        "process_isolation": "forkserver",
        "forkserver_warmup": "none" if room.at_import else "collect",
    }
    return "\n[tool.mutmut]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


def _outcomes(meta: Path) -> Iterator[Survivor | None]:
    """For each mutant of a file that changes more than words: None if it was killed, else what it is."""
    tree = ast.parse(meta.with_suffix("").read_text())
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for key, code in json.loads(meta.read_text())["exit_code_by_key"].items():
        mutant = key.rpartition(".")[2]
        stem = mutant.rpartition("__mutmut_")[0]
        before, after = (_lines(functions[each]) for each in (stem + _UNMUTATED, mutant))
        if code not in _SURVIVED:
            yield None
        elif not _same_but_for_words(functions[stem + _UNMUTATED], functions[mutant]):
            change = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
            words = " -> ".join(line[2:].strip() for line in change)
            yield Survivor(f"{meta.stem.removesuffix('.py')}.{stem.removeprefix('x_').replace('ǁ', '.').removeprefix('x.')}", words)


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
    sys.exit(main(sys.argv[1:]))
