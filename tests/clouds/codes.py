"""What becomes of each code that a cloud names, call by call: tables that a person reads, and that the tests compare with the product.

    python -m tests.clouds.codes    writes the tables anew; whoever does it reads what has changed

A table is compared code by code, so that a library that names fewer codes passes, and one that names a new one does not.
"""

from __future__ import annotations

import collections
import importlib
import textwrap
from pathlib import Path
from typing import Final, NamedTuple

from provision.errors import CloudError

CLOUDS: Final = ("aws", "digitalocean", "gcp")
KEYED: Final = "correct `"  # begins a hint that names a key of the profile
_HEAD: Final = "# What each code means, call by call. `python -m tests.clouds.codes` writes it; `*` stands beside codes that name a key."
Table = dict[tuple[str, str], str]
"""(call, code) → our code, with a `*` where the hint names a key of the profile."""


class Answer(NamedTuple):
    """A code as it comes: in which call, with which HTTP status."""

    call: str
    code: str
    http: int


def meaning(error: CloudError, said: str) -> str:
    """What a table holds of an error, once it has the cloud's own sentence and a way out."""
    assert said in error.message, error.message
    assert error.hint, error.message
    assert "\n" not in error.message
    return error.code + ("*" if KEYED in error.hint else "")


def path(cloud: str) -> Path:
    return Path(__file__).parent / cloud / "codes.txt"


def write(cloud: str, table: Table) -> None:
    """One block for all calls that answer alike: the calls, then each of our codes with the cloud's."""
    of: dict[str, dict[str, list[str]]] = {}
    for (call, code), ours in sorted(table.items()):
        of.setdefault(call, {}).setdefault(ours, []).append(code)
    alike: dict[str, list[str]] = {}
    for call, rows in of.items():
        block = "\n".join(_row(f"{ours} {len(codes)}:", codes) for ours, codes in sorted(rows.items()))
        alike.setdefault(block, []).append(call)
    blocks = [f"{_row('calls', calls)}\n{block}" for block, calls in alike.items()]
    path(cloud).write_text("\n\n".join([f"{_HEAD}\n{_row('all', _count(table))}", *blocks]) + "\n")


def _row(title: str, words: list[str]) -> str:
    return textwrap.fill(" ".join([title, *words]), 140, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _count(table: Table) -> list[str]:
    ours = collections.Counter(each.removesuffix("*") for each in table.values())
    return [f"{len({call for call, _ in table})} calls, {len(table)} codes:", *(f"{kind} {n}" for kind, n in sorted(ours.items()))]


def read(cloud: str) -> tuple[Table, str]:
    """The table of a file, and the counts that stand at its top."""
    table: Table = {}
    calls: list[str] = []
    counted = ""
    for row in path(cloud).read_text().replace("\n    ", " ").splitlines():
        first, *words = row.split() or [""]
        if first == "all":
            counted = " ".join(words)
        elif first == "calls":
            calls = words
        elif first and first != "#":
            table |= {(call, code): first for call in calls for code in words[1:]}
    return table, counted


def compare(cloud: str, found: Table) -> None:
    """Every code of the product's calls stands in the file with the same meaning, and the file counts its own right."""
    known, counted = read(cloud)
    new = sorted(f"{call} {code}: {ours}" for (call, code), ours in found.items() if (call, code) not in known)
    assert new == [], "nobody has read what these codes become"
    changed = [f"{pair}: {known[pair]} → {ours}" for pair, ours in found.items() if known[pair] != ours]
    assert changed == [], changed[:20]
    assert counted == " ".join(_count(known))
    assert {call for call, _ in known} == {call for call, _ in found}, "a call that nobody makes any more, or another one"


def main() -> None:
    for cloud in CLOUDS:
        write(cloud, importlib.import_module(f"tests.clouds.{cloud}.test_codes").table())


if __name__ == "__main__":
    main()
