"""The cases of the checks' tests, which have at least one for each way in which a check can end, as findings.

Most tables change facts of a good host. Those of measurements, of a lock and of clocks under load have other columns, and a reader each.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from provision.verify.checks import CHECKS
from provision.verify.finding import Finding
from provision.verify.judge import Selection, judge
from tests.verify import checks as tables
from tests.verify import good

Case = tuple[str, Callable[[], Finding]]
_NAMES: Final = {check.id for check in CHECKS}


def _rows(module: ModuleType) -> Iterator[tuple[Any, ...]]:
    """The rows of a module's tables that begin with the name of a check."""
    for each in vars(module).values():
        if isinstance(each, list | tuple):
            yield from (row for row in each if isinstance(row, tuple) and len(row) > 4 and row[0] in _NAMES)  # noqa: PLR2004 - a case


def _of_a_host(module: ModuleType) -> Iterator[Case]:
    def judged(check: str, facts: dict[str, Any], profile: dict[str, Any]) -> Finding:
        return good.finding(check, good.facts(**facts), good.profile(**profile))

    yield from ((row[0], partial(judged, *row[:3])) for row in _rows(module))


def _under_load(module: ModuleType) -> Iterator[Case]:
    def judged(check: str, changed: dict[str, Any], profile: dict[str, Any]) -> Finding:
        return good.finding(check, good.under_load(gpus=1, **changed), good.profile(gpu__count=1, **profile))

    yield from ((row[0], partial(judged, *row[:3])) for row in _rows(module))


def _measured(module: ModuleType) -> Iterator[Case]:
    def judged(check: str, changed: dict[str, Any], model: str) -> Finding:
        found: Finding = module.finding(check, good.under_load(**changed), model)
        return found

    yield from ((row[0], partial(judged, *row[:3])) for row in _rows(module))


def _of_a_lock(module: ModuleType) -> Iterator[Case]:
    def judged(check: str, packages: Any, asked: dict[str, Any], locked: bool) -> Finding:  # noqa: FBT001 - the columns of the table
        facts = good.facts(extras__environments={"pytorch": packages} if packages else {"jax": module.THERE})
        profile = good.profile(**asked).with_wheels(module.LOCKED if locked else ())
        (finding,) = judge(facts, profile, selection=Selection(only=frozenset({check}))).findings
        return finding

    yield from ((row[0], partial(judged, *row[:4])) for row in _rows(module))


def _of_settings(module: ModuleType) -> Iterator[Case]:
    def held(load: dict[str, Any], mode: str, at_rest: int | None) -> Finding:
        changed = {name if name.startswith("rest") else f"load__{name}": value for name, value in load.items()}
        return good.finding("clocks-held", module.h200(mode, at_rest, **changed), module.H200)

    yield from _of_a_host(module)
    (rows,) = (mark.args[1] for mark in module.test_clocks_are_held_where_they_show_under_load_and_at_rest.pytestmark)
    yield from (("clocks-held", partial(held, *row[:3])) for row in rows)


_READERS: Final[Mapping[str, Callable[[ModuleType], Iterator[Case]]]] = {
    "test_libraries": _under_load,
    "test_perf": _measured,
    "test_programs": _under_load,
    "test_python": _of_a_lock,
    "test_settings": _of_settings,
}


@cache
def cases() -> tuple[Case, ...]:
    """(check, what judges its case) of every case."""
    found: list[Case] = []
    for path in sorted(Path(next(iter(tables.__path__))).glob("test_*.py")):
        module = importlib.import_module(f"{tables.__name__}.{path.stem}")
        found += _READERS.get(path.stem, _of_a_host)(module)
    return tuple(found)
