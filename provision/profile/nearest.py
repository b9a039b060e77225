"""The known name that a word was meant to be: a slip of the keyboard away, not merely alike."""

from collections.abc import Iterable
from typing import Final

_LETTERS_A_SLIP: Final = 4


def slips(one: str, other: str) -> int:
    """How many slips lie between two words: a letter too many, too few or wrong, or two neighbours that changed places."""
    before, row = list[int](), list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        before, last, row = row, before, [at]
        for there, wanted in enumerate(other, 1):
            fewest = min(before[there] + 1, row[there - 1] + 1, before[there - 1] + (letter != wanted))
            if at > 1 and there > 1 and (letter, one[at - 2]) == (other[there - 2], wanted):
                fewest = min(fewest, last[there - 2] + 1)
            row.append(fewest)
    return row[-1]


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The word that was meant, which is one slip away, or a slip for every four letters; None where there is none."""
    most = max(1, len(word) // _LETTERS_A_SLIP)
    ranked = [(slips(word.lower(), each.lower()), each) for each in words if abs(len(each) - len(word)) <= most]
    fewest, near = min(ranked, default=(most + 1, ""))
    return near if fewest <= most else None


def instead_of(word: str, words: Iterable[str]) -> str:
    """What to write instead of a word: the one that was meant, or else any of them."""
    known = list(words)
    if len(known) == 1:
        return f"write {known[0]}"
    near = nearest(word, known)
    return f"did you mean {near!r}?" if near else f"write one of: {', '.join(known)}"
