"""What the formats share: what one is, text that stays text, words between backticks, the hour of an observation, a chart."""

from __future__ import annotations

import datetime as dt
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from provision.verify.finding import OUTCOMES, Outcome, Report

if TYPE_CHECKING:
    from provision.catalog.roofline import Point

__all__ = [
    "CHART_HEIGHT",
    "CHART_WIDTH",
    "EXPLAINED",
    "GLYPHS",
    "LONGEST",
    "PLANE",
    "Chart",
    "Format",
    "Renderer",
    "Row",
    "counted",
    "inert",
    "observed_at",
    "spans",
]

LONGEST = 400
# What a reader is told more about: the rest needs nothing of her.
EXPLAINED: tuple[Outcome, ...] = ("fail", "unknown", "warn")
# Beside the word, so that an outcome is found at a glance by those who do not see its colour.
GLYPHS: dict[Outcome, str] = {"pass": "✓", "fail": "✗", "warn": "!", "waived": "◇", "unknown": "?", "not-applicable": "–"}  # noqa: RUF001


# The picture of a roofline, and the plane of its axes within it; the roofs are named to the right of it, where no point can be.
CHART_WIDTH: Final = 720
CHART_HEIGHT: Final = 400
PLANE: Final = {"left": 62, "top": 14, "right": 568, "bottom": 352}


class Renderer(Protocol):
    """Reports in, one document out; pure, and without the end of its last line."""

    def __call__(self, *reports: Report, strict: bool = False) -> str:
        """The document; `strict` makes a warning a failure, as it does to the exit code."""
        ...


@dataclass(frozen=True, slots=True)
class Format:
    """One way to write reports.

    Attributes:
        about: who reads it, for `--help`.
        suffix: how a file of it is called.
        module: where its `render` is.
    """

    about: str
    suffix: str
    module: str

    def render(self, *reports: Report, strict: bool = False) -> str:
        """Write it; see `Renderer`."""
        renderer: Renderer = importlib.import_module(self.module).render
        return renderer(*reports, strict=strict)


@dataclass(frozen=True, slots=True)
class Row:
    """One measured point: whose, what, what the card could reach there (None where nobody knows), and where it is drawn."""

    host: str
    point: Point
    attainable: float | None
    x: float
    y: float

    @property
    def share(self) -> float | None:
        """Which part of it was reached."""
        return self.point.tflops / self.attainable if self.attainable else None


@dataclass(frozen=True, slots=True)
class Chart:
    """One card's roofline with what was measured.

    Attributes:
        card: its name; empty where the catalogue has no figures of what was measured, and only the rows are there.
        about: the picture in words, for who cannot see it.
        lines: for each peak: the places of its line, its label, where the label stands, and whether something was measured under it.
        across, up: the ticks: where, and what they say.
        rows: what was measured.
    """

    card: str
    about: str
    lines: list[tuple[str, str, float, bool]]
    across: list[tuple[float, str]]
    up: list[tuple[float, str]]
    rows: list[Row]


def inert(text: str, longest: int = LONGEST) -> str:
    """Text from a host as it may be shown: one line, nothing that a terminal or a bidirectional layout would obey, bounded."""
    # Cut first: the rest would be looked at for nothing.
    shown = "".join(c if c.isprintable() else "�" for c in text[: longest + 1])
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def spans(text: str, longest: int = LONGEST) -> Iterator[tuple[bool, str]]:
    """A hint cut at its backticks, inert: whether it is a command, and the words. With an odd backtick nothing is a command."""
    parts = inert(text, longest).split("`")
    if len(parts) % 2 == 0:
        yield False, "`".join(parts)
        return
    for index, part in enumerate(parts):
        if part:
            yield bool(index % 2), part


def counted(summary: Mapping[Outcome, int]) -> str:
    """Such as `28 pass, 1 fail`: outcomes that occur, in their order."""
    return ", ".join(f"{summary[outcome]} {outcome}" for outcome in OUTCOMES if summary[outcome])


def observed_at(report: Report) -> dt.datetime | None:
    """When the facts were gathered, in UTC; None when the host's word for it is not a time."""
    try:
        observed = dt.datetime.fromisoformat(report.observed_at)
    except ValueError:
        return None
    try:
        return observed.replace(tzinfo=dt.UTC) if observed.tzinfo is None else observed.astimezone(dt.UTC)
    except OverflowError:  # the first or last day of all, in another zone
        return None
