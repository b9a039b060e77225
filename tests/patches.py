"""Two patches of one attribute have to end in the reverse order; otherwise a stand-in comes back after both, and a later test meets it.

That happens where a fixture replaces an attribute, and a test replaces it once more by a `monkeypatch` that began before that fixture: the
fixture ends first. Such a test fails here at its own end.
"""

from __future__ import annotations

import pkgutil
from collections import defaultdict
from typing import Any

import pytest

_open: dict[tuple[int, str], list[tuple[Any, Any]]] = defaultdict(list)  # by attribute: who patched it, and the patched object


def watch() -> None:
    """From now on, each `MonkeyPatch` looks at this when it ends."""
    kind: Any = pytest.MonkeyPatch
    setattr_, undo = kind.setattr, kind.undo

    def noted(self: Any, target: Any, name: Any, *more: Any, **options: Any) -> None:
        setattr_(self, target, name, *more, **options)
        if isinstance(target, str):  # "package.module.attribute", and `name` is the value
            where, _, name = target.rpartition(".")
            target = pkgutil.resolve_name(where)
        _open[id(target), name].append((self, target))

    def ended(self: Any) -> None:
        undo(self)
        crossed = []
        for key, patches in list(_open.items()):
            mine = [patch for patch in patches if patch[0] is self]
            if mine and any(patch[0] is not self for patch in patches[patches.index(mine[0]) :]):
                crossed.append(f"{getattr(mine[0][1], '__name__', mine[0][1])}.{key[1]}")
            _open[key] = [patch for patch in patches if patch[0] is not self]
            if not _open[key]:
                del _open[key]
        assert not crossed, f"a patch of {', '.join(crossed)} ended before one that was made after it"

    kind.setattr, kind.undo = noted, ended
