"""The differences between two documents of plain data, such as two locks, value by value."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from provision.errors import counted
from provision.structs import Struct


class Difference(Struct):
    """One value that differs.

    Attributes:
        key: the path to the value from the top; entries of a list have their number.
        text: before and after in words; for a list the entries that were added and removed.
        only_hashes: whether a package has the same version and other hashes.
    """

    key: tuple[str, ...]
    text: str
    only_hashes: bool = False

    def __str__(self) -> str:
        """One line without characters that a terminal would obey: a lock may come from a stranger."""
        return "".join(c if c.isprintable() else "�" for c in f"{'.'.join(self.key)}: {self.text}")


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    """Every difference between two documents, in their order."""
    return list(_values((), dict(old), dict(new)))


def _values(key: tuple[str, ...], old: Any, new: Any) -> Iterator[Difference]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            yield from _values((*key, name), old.get(name), new.get(name))
    elif isinstance(old, list) and isinstance(new, list):
        removed, added = [entry for entry in old if entry not in new], [entry for entry in new if entry not in old]
        if all(isinstance(entry, str) for entry in [*removed, *added]):
            yield from _texts(key, removed, added)
        elif len(old) == len(new):
            for number, (before, after) in enumerate(zip(old, new, strict=True)):
                yield from _values((*key, str(number)), before, after)
        else:
            yield Difference(key, f"{counted(len(old), 'entry', 'entries')} → {len(new)}")
    else:
        yield Difference(key, f"{_word(old)} → {_word(new)}")


def _texts(key: tuple[str, ...], removed: Sequence[str], added: Sequence[str]) -> Iterator[Difference]:
    """One difference for the two pins of a package. It leaves hashes out, and says so where only they differ."""
    old, new = ({text.partition("==")[0]: text for text in texts} for texts in (removed, added))
    for name in [*old, *(name for name in new if name not in old)]:
        before, after = old.get(name), new.get(name)
        if before and after and "==" in before:
            was, now = (text.partition(" --hash")[0].partition("==")[2] for text in (before, after))
            yield Difference(key, f"{name} {was} → {now}{' (other hashes)' if was == now else ''}", only_hashes=was == now)
        else:
            for sign, text in (("-", before), ("+", after)):
                if text:
                    yield Difference(key, f"{sign} {text.partition(' --hash')[0]}")


def _word(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    return str(value.get("version", f"{counted(len(value), 'value')}")) if isinstance(value, dict) else str(value)
