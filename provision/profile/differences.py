"""The differences between two documents of plain data, such as two locks, value by value."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

from provision.errors import counted
from provision.structs import Struct

_SHORT: Final = 24  # characters of a value that is always shown whole
_AROUND: Final = 40  # characters that are shown beside what differs
_SAME: Final = 2  # words that two values have in common at least, so that one is a change of the other
_MOST: Final = 4  # differences, and words of one, that are read at once
_WORD: Final = re.compile(r"\d+ of \d+\s|[/,;]\s*|[^\s/,;]+\s*")


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
    return str(value.get("version", counted(len(value), "value"))) if isinstance(value, dict) else str(value)


def parted(old: str, new: str) -> str | None:
    """Two long values that are alike as one text with what differs; None for others."""
    was, now = _WORD.findall(old), _WORD.findall(new)
    matcher = SequenceMatcher(None, [word.strip() for word in was], [word.strip() for word in now], autojunk=False)
    same = sum(block.size for block in matcher.get_matching_blocks())
    blocks = matcher.get_opcodes()
    few = 0 < sum(kind != "equal" for kind, *_ in blocks) <= _MOST
    if max(len(old), len(new)) <= _SHORT or 2 * same < min(len(was), len(now)) or same < _SAME or not few:
        return None
    text = ""
    for kind, i, i2, j, j2 in blocks:
        gone, come = "".join(was[i:i2]), "".join(now[j:j2])
        if kind == "replace":
            if max(i2 - i, j2 - j) > _MOST:
                return None
            text += f"{gone.rstrip(' /,;')} → {come}"
        elif kind != "equal":
            text = f"{text.rstrip()} ({'-' if gone else '+'} {(gone or come).strip(' ,;')}) "
        elif len(come) <= 2 * _AROUND:
            text += come
        else:
            head = come[:_AROUND].rpartition(" ")[0] if i else ""
            tail = come[-_AROUND:].partition(" ")[2] if i2 < len(was) or j2 < len(now) else ""
            text += f"{head} … {tail}"
    return text.strip().replace(") ,", "),")
