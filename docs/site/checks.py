"""The reference of checks: what each observes, how it can fail, and what fixes it.

Nothing of it is written by hand. The title, the role and the tier are the check's. What it observes is what the probe's functions, or the
types of facts, say of the facts that its judge reads. How it can end is what it says of the cases in `tests/verify/checks/`.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from unittest import mock

from docs.site.cases import cases
from docs.site.cells import code, prose, table, title
from provision.verify import checks, probe
from provision.verify.checks import CHECKS, Check
from provision.verify.facts import Facts
from provision.verify.facts.base import Fact
from provision.verify.finding import Finding

ENDS: Final = ("fail", "warn", "unknown")
_FOLDER: Final = Path(next(iter(checks.__path__)))
_MOST: Final = 12  # rows of one check; some, such as xid, have a case for each of a hundred codes
_TIERS: Final = {"quick": "quick, and with it always", "standard": "standard and perf", "perf": "perf alone"}


def subjects() -> dict[str, tuple[ModuleType, list[Check]]]:
    """Subject → its module and its checks, in the order of reports."""
    found: dict[str, tuple[ModuleType, list[Check]]] = {}
    for info in pkgutil.iter_modules(checks.__path__):
        module = importlib.import_module(f"{checks.__name__}.{info.name}")
        if hasattr(module, "CHECKS"):
            found[info.name] = module, list(module.CHECKS)
    order = {check.id: number for number, check in enumerate(CHECKS)}
    return dict(sorted(found.items(), key=lambda item: order[item[1][1][0].id]))


@contextlib.contextmanager
def _noting(read: dict[str, str]) -> Iterator[None]:
    """Note the facts that checks read: name → what its type says."""
    true = Facts.read

    def noted(self: Facts, kind: type[Fact], name: str = "") -> Any:
        # What the judge of all checks reads by itself is not what one check is about.
        if any(Path(name).parent == _FOLDER for name in _files_on_the_stack()):
            read[name or kind.name] = inspect.getdoc(kind) or ""
        return true(self, kind, name)

    with mock.patch.object(Facts, "read", noted):
        yield


def _files_on_the_stack() -> Iterator[str]:
    """The file of each function that is being called; `inspect.stack` would also look up the module of each, at every fact."""
    frame = inspect.currentframe()
    while frame := frame and frame.f_back:
        yield frame.f_code.co_filename


@cache
def endings(check: str) -> tuple[tuple[Finding, ...], dict[str, str]]:
    """The findings of all cases of a check, each ending once by its outcome and hint, and the facts that it read, with what they are."""
    read: dict[str, str] = {}
    found: dict[tuple[str, str], Finding] = {}
    with _noting(read):
        for judged in (judged for name, judged in cases() if name == check):
            finding = judged()
            found.setdefault((finding.outcome, finding.hint), finding)
    return tuple(found.values()), read


@cache
def observed_by() -> dict[str, str]:
    """Fact → what the probe's function says that it gathers."""
    said: dict[str, str] = {}
    for path in sorted(Path(next(iter(probe.__path__))).glob("*.py")):
        tree = ast.parse(path.read_text())
        docs = {node.name: ast.get_docstring(node) or "" for node in tree.body if isinstance(node, ast.FunctionDef)}
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FACTS" and isinstance(node.value, ast.Dict):
                for key, value in zip(node.value.keys, node.value.values, strict=True):
                    name, function = ast.literal_eval(key) if isinstance(key, ast.Constant) else "", ast.unparse(value)
                    said[name] = docs.get(function, "")
    return said


def _observes(read: dict[str, str]) -> Iterator[str]:
    for name, kind in read.items():
        said = (observed_by().get(name) or kind).split("\n\n")[0]
        yield f"    - {code(name)}: {prose(said)}"


def _one(check: Check) -> Iterator[str]:
    findings, read = endings(check.id)
    yield from (f"### {code(check.id)} {{#{check.id}}}", "", f"It proves: {prose(check.title)}.", "")
    role = f"the role {code(check.role)}: `gpuprov apply HOST --role {check.role}`" if check.role else "no role; what the hint says"
    yield from (f"- **Fixed by:** {role}", f"- **Runs in tier:** {_TIERS[check.tier]}")
    yield f"- **Without a GPU:** {'waived by `--without-gpu`' if check.needs_gpu else 'judged all the same'}"
    yield from ("- **It observes**, as the probe's facts:", "", *_observes(read), "")
    rows = [each for end in ENDS for each in findings if each.outcome == end]
    shown = [(each.outcome, prose(each.observed), prose(each.hint)) for each in rows[:_MOST]]
    yield from table(("ends as", "what a report says was observed", "what fixes it"), shown)
    if len(rows) > _MOST:
        yield from (f"These are {_MOST} of {len(rows)} ways in which its tests let it end.", "")


def reference() -> str:
    """Every check, by subject."""
    lines: list[str] = []
    for name, (module, found) in subjects().items():
        lines += [f"## {title(name)} {{#subject-{name}}}", "", prose((module.__doc__ or name).split("\n")[0]), ""]
        for check in found:
            lines += _one(check)
    return "\n".join(lines)
