"""The known name that a word was meant to be: a slip of the keyboard away, not merely alike."""

from collections.abc import Collection, Iterable
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


def nearest(word: str, words: Collection[str]) -> str | None:
    """The word that was meant: one slip away, or a slip for every four letters, or a key that begins with it; None where there is none."""
    most = max(1, len(word) // _LETTERS_A_SLIP)
    ranked = [(slips(word.lower(), each.lower()), each) for each in words if abs(len(each) - len(word)) <= most]
    fewest, near = min(ranked, default=(most + 1, ""))
    if fewest <= most:
        return near
    return next((each for each in words if each.startswith(f"{word}_")), None)


def meant(word: str, words: Collection[str]) -> list[str]:
    """The names that somebody who typed a word may mean: the same in other letters, those that go on where it ends, or the nearest."""
    low = word.lower().rstrip("-.")
    same = [each for each in words if each.lower() == low]
    longer = [each for each in words if each.lower().startswith((f"{low}-", f"{low}."))]
    return (same or longer or [near for near in (nearest(word, words),) if near]) if low else []


def suggested(word: str, words: Collection[str]) -> str:
    """The names that may be meant, as a question; empty where there is none."""
    near = meant(word, words)
    return f"did you mean {' or '.join(near)}?" if near else ""


def instead_of(word: str, words: Iterable[str]) -> str:
    """What to write instead of a word: the one that was meant, or else any of them."""
    known = list(words)
    if len(known) == 1:
        return f"write {known[0]}"
    near = nearest(word, known)
    return f"did you mean {near!r}?" if near else f"write one of: {', '.join(known)}"
