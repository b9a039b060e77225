"""What a fact is, and all facts of one observation.

A fact that is missing, malformed or absurd is unknown as well, so that no check can take it for an observation.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

SCHEMA: Final = "gpuprov-facts/1"
_MAX_REASON: Final = 500
_MOST_AHEAD_S: Final = 1e12  # a clock that is further away says no time
_JSON: Final = TypeAdapter(Any, config=ConfigDict(ser_json_inf_nan="constants"))  # NaN stays NaN, which null would hide

Count = Annotated[int, Field(ge=0)]


class NotObservedError(Exception):
    """A check needs a fact that was not observed; `judge` turns it into an unknown finding."""


class FactPart(BaseModel):
    """The base of all facts and their parts. Unknown keys come from a newer probe, and are ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", defer_build=True)


class Fact(FactPart):
    """The base of all facts."""

    name: ClassVar[str]  # the key in the facts file
    bare: ClassVar[str] = ""  # where the file has a bare list, the field that holds it here


class Reading(FactPart):
    """One reading of NVML: a value, or the library's reason for none."""

    value: int | float | str | None = None
    unknown: str | None = None

    @property
    def unsupported(self) -> bool:
        """Whether NVML says that this GPU or driver has no such thing (nvmlErrorString), as opposed to not having read it."""
        return self.value is None and any(words in (self.unknown or "") for words in ("Not Supported", "Function Not Found"))

    @property
    def removed(self) -> bool:
        """Whether NVML says that this driver no longer has such a thing."""
        return self.value is None and "deprecated" in (self.unknown or "")

    def answer(self) -> int | float | str:
        """The value; without one NotObservedError, with NVML's reason."""
        if self.value is None:
            raise NotObservedError(self.unknown or "no value")
        return self.value

    def count(self) -> int:
        """The value as a count; NotObservedError where there is none, or it cannot be a count."""
        if isinstance(self.value, int) and self.value >= 0:
            return self.value
        msg = f"NVML read {self.answer()!r}, which can be no count"
        raise NotObservedError(msg)


NOT_READ: Final = Reading(unknown="not read")


class UnitFacts(Fact):
    """A systemd unit: a fact under several names, or a part of one.

    Of one that does not run: whether it still starts, what it and systemd complained of in this boot, or why that could not be read.
    """

    exists: bool
    enabled: bool
    active: bool
    command: str
    starting: bool = False
    lines: tuple[str, ...] = ()
    unread: str = ""

    @property
    def why(self) -> str:
        """Why it does not run, in brackets; empty where nothing was looked for."""
        return f" ({'; '.join(self.lines)})" if self.lines else f" (why was not seen: {self.unread})" if self.unread else ""


F = TypeVar("F", bound=Fact)


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts of one observation, as the probe sent them; `read` makes one of them typed."""

    gathered_at: str  # ISO 8601 UTC by the host's clock; empty when unknown
    elapsed_s: float  # on the host
    raw: dict[str, Any]  # name → {"value": …} or {"unknown": reason}
    _typed: dict[tuple[type[Fact], str], tuple[object, Fact]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """The content of a facts file."""
        return {"schema": SCHEMA, "gathered_at": self.gathered_at, "elapsed_s": self.elapsed_s, "facts": self.raw}

    def read(self, kind: type[F], name: str = "") -> F:
        """One fact; NotObservedError where it is missing, unknown, or not of its shape."""
        name = name or kind.name
        answer = self.raw.get(name)
        known = self._typed.get((kind, name))
        if known and known[0] is answer:  # several checks look at one fact
            return cast("F", known[1])
        if not isinstance(answer, dict) or ("value" not in answer and "unknown" not in answer):
            msg = f"the probe sent no fact {name!r}"
            raise NotObservedError(msg)
        if "value" not in answer:
            raise NotObservedError(str(answer["unknown"])[:_MAX_REASON])
        value = answer["value"]
        try:
            # JSON mode: in JSON an array is the only sequence there is.
            typed = kind.model_validate_json(_JSON.dump_json({kind.bare: value} if kind.bare else value))
        except (ValidationError, ValueError, TypeError) as error:
            where = ".".join(map(str, error.errors()[0]["loc"])) if isinstance(error, ValidationError) else ""
            msg = f"the fact {name!r} is malformed at {where or 'its top'}"
            raise NotObservedError(msg) from error
        self._typed[kind, name] = answer, typed
        return typed

    @property
    def clock_ahead_s(self) -> float | None:
        """Seconds by which the host's clock was ahead of the client's; None where they were not compared."""
        match self.raw.get("clock_ahead"):
            case {"value": {"ahead_s": int() | float() as seconds}} if type(seconds) is not bool and abs(seconds) < _MOST_AHEAD_S:
                return float(seconds)
        return None
