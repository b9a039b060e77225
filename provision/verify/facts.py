"""What was observed, typed: each fact is a value that holds its model, or unknown with the reason.

A fact that is missing, malformed or absurd is unknown as well, so that no check can take it for an observation.
"""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from provision.errors import FactsInvalidError
from provision.verify.schema import Fact, Found, NotObservedError, Tool

__all__ = ["MAX_BYTES", "SCHEMA", "Facts", "dump", "load", "parse"]

SCHEMA: Final = "gpuprov-facts/1"
# Real facts are tens of kilobytes. What is made of JSON text needs up to thirty times its size in memory.
MAX_BYTES: Final = 4 * 1024 * 1024
_MAX_FACT: Final = 512 * 1024
_MAX_REASON: Final = 500
_MAX_FACTS: Final = 1000
_MAX_ELAPSED_S: Final = 1_000_000

F = TypeVar("F", bound=Fact)


# Facts whose value is a bare list in the file, and the field that holds it here.
_LISTS: Final = {"users": "names", "file_systems": "mounted"}


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts of one observation, as the probe sent them; `read` makes one of them typed.

    Attributes:
        gathered_at: ISO 8601 UTC by the host's clock; empty when unknown.
        elapsed_s: seconds that the probe took on the host.
        raw: name → {"value": …} or {"unknown": reason}.
    """

    gathered_at: str
    elapsed_s: float
    raw: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The content of a facts file."""
        return {"schema": SCHEMA, "gathered_at": self.gathered_at, "elapsed_s": self.elapsed_s, "facts": self.raw}

    def read(self, kind: type[F], name: str = "") -> F:
        """One fact.

        Raises:
            NotObservedError: it is not there, unknown, or not of its shape.
        """
        name = name or kind.name
        answer = self.raw.get(name)
        if not isinstance(answer, dict) or ("value" not in answer and "unknown" not in answer):
            msg = f"the probe sent no fact {name!r}"
            raise NotObservedError(msg)
        if "value" not in answer:
            raise NotObservedError(str(answer["unknown"])[:_MAX_REASON])
        value = answer["value"]
        try:
            # JSON mode: in JSON an array is the only sequence there is.
            return kind.model_validate_json(json.dumps({_LISTS[name]: value} if name in _LISTS else value))
        except (ValidationError, ValueError, TypeError) as error:
            first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
            where = ".".join(map(str, first["loc"]))
            msg = f"the fact {name!r} is malformed at {where or 'its top'}: {first['msg']}"
            raise NotObservedError(msg) from error

    @property
    def clock_ahead_s(self) -> float | None:
        """Seconds by which the host's clock was ahead of the client's; None where nobody compared them."""
        match self.raw.get("clock_ahead"):
            case {"value": {"ahead_s": int() | float() as seconds}}:
                return float(seconds)
        return None

    def tool(self, name: str) -> Found | None:
        """Where a tool is, None if it is not there.

        Raises:
            NotObservedError: nobody looked.
        """
        return self.read(Tool, f"tool_{name}").found


def parse(data: Any, origin: str) -> Facts:
    """Facts from JSON data.

    Raises:
        FactsInvalidError: it is none, or of another version.
    """
    hint = "make one with `gpuprov probe HOST > facts.json`"
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        msg = f"{origin} holds no facts of version {SCHEMA}"
        raise FactsInvalidError(msg, hint=hint)
    gathered, elapsed, raw = data.get("gathered_at"), data.get("elapsed_s"), data.get("facts")
    if not isinstance(gathered, str) or not isinstance(elapsed, int | float) or not isinstance(raw, dict):
        msg = f"{origin} holds broken facts: gathered_at, elapsed_s or facts is not what it should be"
        raise FactsInvalidError(msg, hint=hint)
    if not abs(elapsed) < _MAX_ELAPSED_S:  # written so that it holds for NaN as well
        msg = f"{origin} holds broken facts: they took longer than anybody waits"
        raise FactsInvalidError(msg, hint=hint)
    if len(raw) > _MAX_FACTS:
        msg = f"{origin} holds {len(raw)} facts, and there are never more than {_MAX_FACTS}"
        raise FactsInvalidError(msg, hint=hint)
    return Facts(gathered[:40], float(elapsed), {name: _bounded(answer) for name, answer in raw.items()})


def _bounded(answer: Any) -> Any:
    """A fact as it is; unknown where it is larger than it can be, so that no check and no report has to carry it."""
    try:
        size = len(json.dumps(answer))
    except (ValueError, RecursionError):
        return {"unknown": "nested deeper than facts are"}
    return answer if size <= _MAX_FACT else {"unknown": f"{size >> 10} KiB were sent for it, more than a fact can be"}


def dump(facts: Facts) -> str:
    """The facts file of an observation."""
    return json.dumps(facts.as_dict(), indent=1, sort_keys=True) + "\n"


def load(path: Path) -> Facts:
    """Read a facts file; `-` is standard input.

    Raises:
        FactsInvalidError: it cannot be read, or holds no facts.
    """
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            msg = f"{path} is larger than facts can be"
            raise FactsInvalidError(msg, hint="make one with `gpuprov probe HOST > facts.json`")
        return parse(json.loads(raw), str(path))
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise FactsInvalidError(msg, hint="make one with `gpuprov probe HOST > facts.json`") from error
    except (ValueError, RecursionError) as error:
        msg = f"{path} is no JSON: {str(error)[:100]}"
        raise FactsInvalidError(msg, hint="make one with `gpuprov probe HOST > facts.json`") from error
