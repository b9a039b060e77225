"""The rooflines of the cards that were measured, as places on a picture that the page itself draws: no library, and the page's colours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from provision.catalog.roofline import Point, Roof, attainable_tflops, roofs
from provision.report.base import PLANE, Chart, Row

if TYPE_CHECKING:
    from provision.verify.points import Measured

__all__ = ["charts"]

_APART: Final = 15  # between two labels, one above the other


@dataclass(frozen=True, slots=True)
class _Plane:
    """Logarithmic axes, in powers of ten."""

    low_x: int
    high_x: int
    low_y: int
    high_y: int

    def x(self, intensity: float) -> float:
        return round(
            PLANE["left"] + (PLANE["right"] - PLANE["left"]) * (math.log10(intensity) - self.low_x) / (self.high_x - self.low_x), 1
        )

    def y(self, tflops: float) -> float:
        return round(PLANE["bottom"] - (PLANE["bottom"] - PLANE["top"]) * (math.log10(tflops) - self.low_y) / (self.high_y - self.low_y), 1)


def charts(measured: Sequence[Measured]) -> list[Chart]:
    """A chart for each kind of card, in the order in which the hosts have them."""
    kinds = {one.card.model if one.card else "": one.card for one in measured}
    made = []
    for model, card in kinds.items():
        hosts = [one for one in measured if (one.card.model if one.card else "") == model]
        made.append(_chart(card.name if card else "", roofs(card) if card else [], hosts))
    return made


def _chart(name: str, above: list[Roof], hosts: list[Measured]) -> Chart:
    found = [(one.host, point) for one in hosts for point in one.points]
    if not above:
        return Chart("", "", [], [], [], [Row(host, point, None, 0, 0) for host, point in found])
    plane = _plane(above, [point for _, point in found])
    rows = [Row(host, p, attainable_tflops(above, p), plane.x(p.intensity), plane.y(p.tflops)) for host, p in found]
    return Chart(
        name,
        _about(name, above, rows),
        list(_lines(above, {point.precision for _, point in found}, plane)),
        [(plane.x(10.0**n), _power(n)) for n in range(plane.low_x, plane.high_x + 1)],
        [(plane.y(10.0**n), _power(n)) for n in range(plane.low_y, plane.high_y + 1)],
        rows,
    )


def _plane(above: Sequence[Roof], found: Sequence[Point]) -> _Plane:
    """Whole powers of ten around every threshold, every peak and every point."""
    across = [*(roof.threshold for roof in above), *(point.intensity for point in found), 1.0]
    up = [*(roof.peak_tflops for roof in above), *(point.tflops for point in found)]
    low_x, high_x = math.floor(math.log10(min(across))) - 1, math.ceil(math.log10(max(across)) + 0.3)
    # The slope begins where the axes meet, or below: the lowest point is above it or beside it.
    start = above[0].attainable_tflops(10.0**low_x)
    low_y = math.floor(math.log10(min([*up, start])))
    return _Plane(low_x, high_x, low_y, math.ceil(math.log10(max(up)) + 0.1))


def _lines(above: Sequence[Roof], measured: set[str], plane: _Plane) -> Iterator[tuple[str, str, float, bool]]:
    """A line for each peak, from the highest: precisions with the same one share it, and labels do not cover each other."""
    last = -math.inf
    for peak in sorted({roof.peak_tflops for roof in above}, reverse=True):
        same = [roof for roof in above if roof.peak_tflops == peak]
        one, low = same[0], 10.0**plane.low_x
        places = [(low, one.attainable_tflops(low)), (peak * 1000 / one.bandwidth_gb_s, peak), (10.0**plane.high_x, peak)]
        drawn = " ".join(f"{plane.x(intensity)},{plane.y(tflops)}" for intensity, tflops in places)
        last = max(plane.y(peak) + 4, last + _APART)
        yield drawn, f"{', '.join(roof.precision for roof in same)}: {peak:g}", last, any(r.precision in measured for r in same)


def _about(name: str, above: Sequence[Roof], rows: Sequence[Row]) -> str:
    """What the picture shows, in two sentences: the figures themselves are in the table below it."""
    peaks = ", ".join(f"{roof.precision} {roof.peak_tflops:g}" for roof in above)
    shares = [row.share for row in rows if row.share is not None]
    reached = f"; they reach {min(shares):.0%} to {max(shares):.0%} of what the card could do there" if shares else ""
    return (
        f"Attainable TFLOPS against operations a byte of {name}, both axes logarithmic: {above[0].bandwidth_gb_s:g} GB/s of memory limit "
        f"on the left, peaks in TFLOPS on the right ({peaks}). {len(rows)} points were measured{reached}."
    )


def _power(exponent: int) -> str:
    return f"{10.0**exponent:g}" if -4 < exponent < 5 else f"1e{exponent}"  # noqa: PLR2004 - beyond, zeros are hard to count
