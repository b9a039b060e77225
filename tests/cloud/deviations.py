"""Where an account answered otherwise than the embedded cloud: the list that says what the embedded cloud has to learn."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tests.cloud.shapes import COMMON, RUNNING, cloud_of

_MOST: Final = 64 << 20
_FIRST_ERROR: Final = 400
_SLOWER: Final = 3.0  # how many times as long as the embedded cloud a machine may take to run, and
_SLOWER_S: Final = 5.0  # how many seconds more, before it is on the list

Call = Mapping[str, Any]


class Kind(StrEnum):
    """What is different."""

    ERROR = "error code"
    STATUS = "status"
    FIELD_MISSING = "field missing"
    FIELD_NEW = "field new"
    FIELD_TYPE = "field of another type"
    TAG_MISSING = "tag missing"
    WORD = "state with another word"
    SLOWER = "state change slower"
    CONSOLE = "console without keys"
    REQUEST_ID = "no request id"
    CALL_NEW = "call that the embedded cloud never got"
    CALL_MISSING = "call that only the embedded cloud got"


@dataclass(frozen=True, slots=True)
class Deviation:
    """One difference.

    Attributes:
        kind: of what.
        operation: whose answers differ.
        what: the field, code, tag or word.
        embedded, account: what each says.
    """

    kind: Kind
    operation: str
    what: str
    embedded: str
    account: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.operation}: {self.what} (embedded: {self.embedded}; account: {self.account})"

    def as_dict(self) -> dict[str, str]:
        """The deviation as data."""
        return {key: str(value) for key, value in asdict(self).items()}


def read(path: Path) -> list[dict[str, Any]]:
    """The calls of a transcript. A line that a killed process left half is left out, because it was never whole."""
    calls = []
    with path.open("rb") as file:
        for line in file.read(_MOST).splitlines():
            try:
                calls.append(json.loads(line))
            except ValueError:
                continue
    return calls


def deviations(cloud: str, embedded: Sequence[Call], account: Sequence[Call]) -> list[Deviation]:
    """Everything that differs at one cloud, in the order of the operations' names; `ls` and `sweep` ask the others too."""
    before, after = (
        {name: calls for name, calls in _by_operation(every).items() if cloud_of(name) == cloud} for every in (embedded, account)
    )
    found: list[Deviation] = []
    for operation in sorted({*before, *after}):
        one, other = before.get(operation, []), after.get(operation, [])
        if not one:
            found.append(Deviation(Kind.CALL_NEW, operation, "the call", "never", f"{len(other)} times"))
        elif not other:
            found.append(Deviation(Kind.CALL_MISSING, operation, "the call", f"{len(one)} times", "never"))
        else:
            found += [each for part in _PARTS for each in part(operation, one, other)]
    return [*found, *_slower(embedded, account)]


def _by_operation(calls: Iterable[Call]) -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = {}
    for call in calls:
        found.setdefault(str(call["operation"]), []).append(call)
    return found


def _good(calls: Iterable[Call]) -> list[Call]:
    return [call for call in calls if not call["code"] and 0 < int(call["status"]) < _FIRST_ERROR]


def _errors(operation: str, one: Sequence[Call], other: Sequence[Call]) -> Iterator[Deviation]:
    known = {(int(call["status"]), str(call["code"])) for call in one}
    for status, code in sorted({(int(call["status"]), str(call["code"])) for call in other} - known):
        said = ", ".join(f"{s} {c}".strip() for s, c in sorted(known))
        kind = Kind.ERROR if code not in {c for _, c in known} else Kind.STATUS
        yield Deviation(kind, operation, code or "accepted", said, f"{status} {code}".strip())


def _all(calls: Iterable[Call], key: str) -> set[str]:
    return {str(each) for call in _good(calls) for each in call[key]}


def _fields(operation: str, one: Sequence[Call], other: Sequence[Call]) -> Iterator[Deviation]:
    if not _good(one) or not _good(other):
        return
    was, now = (_types(_all(calls, "fields")) for calls in (one, other))
    for path in sorted({*was, *now}):
        before, after = was.get(path, set()), now.get(path, set())
        if not after:
            kind = Kind.TAG_MISSING if before == {"tag"} else Kind.FIELD_MISSING
            yield Deviation(kind, operation, path, " or ".join(sorted(before)), "not there")
        elif not before:
            yield Deviation(Kind.FIELD_NEW, operation, path, "not there", " or ".join(sorted(after)))
        elif not after <= before:
            yield Deviation(Kind.FIELD_TYPE, operation, path, " or ".join(sorted(before)), " or ".join(sorted(after)))


def _types(fields: Iterable[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for field in fields:
        path, _, kind = field.rpartition(" ")
        found.setdefault(path, set()).add(kind)
    return found


def _words(operation: str, one: Sequence[Call], other: Sequence[Call]) -> Iterator[Deviation]:
    was, now = _all(one, "words"), _all(other, "words")
    for word in sorted(now - was):
        path, _, state = word.partition("=")
        if state in COMMON:
            continue
        known = sorted(each.partition("=")[2] for each in was if each.partition("=")[0] == path)
        yield Deviation(Kind.WORD, operation, path, ", ".join(known) or "none", state)


def _consoles(operation: str, one: Sequence[Call], other: Sequence[Call]) -> Iterator[Deviation]:
    def kinds(calls: Sequence[Call]) -> set[str]:
        """Of the machine of the story: that of the questions is removed as soon as it has answered, with keys or without."""
        whole = (call for call in calls if call.get("step") != "questions")
        return {kind for call in whole for each in call["consoles"] for kind in each["host_keys"]}

    was, now = kinds(one), kinds(other)
    if was - now:
        lacking = ", ".join(sorted(was - now))
        yield Deviation(Kind.CONSOLE, operation, lacking, ", ".join(sorted(was)), ", ".join(sorted(now)) or "no host key")


def _request_ids(operation: str, one: Sequence[Call], other: Sequence[Call]) -> Iterator[Deviation]:
    lacking = sum(not call["request_id"] for call in other if call["status"])
    if lacking and all(call["request_id"] for call in one if call["status"]):
        yield Deviation(Kind.REQUEST_ID, operation, "the id of the request", "each answer has one", f"{lacking} have none")


_PARTS: Final[tuple[Callable[[str, Sequence[Call], Sequence[Call]], Iterator[Deviation]], ...]] = (
    _errors,
    _fields,
    _words,
    _consoles,
    _request_ids,
)


def seconds_to_run(calls: Iterable[Call]) -> float | None:
    """How long the first machine took from its first mention until it ran; None where none ran."""
    first: dict[str, datetime] = {}
    for call in calls:
        at = datetime.fromisoformat(str(call["at"]))
        for identity, state in call["machines"]:
            begun = first.setdefault(identity, at)
            if state in RUNNING:
                return (at - begun).total_seconds()
    return None


def _slower(embedded: Iterable[Call], account: Iterable[Call]) -> Iterator[Deviation]:
    was, now = seconds_to_run(embedded), seconds_to_run(account)
    if was is not None and now is not None and now > was * _SLOWER and now > was + _SLOWER_S:
        yield Deviation(Kind.SLOWER, "the machine", "from made to running", f"{was:.1f} s", f"{now:.1f} s")
