"""The rooflines of the measured cards, as coordinates that the page itself draws: no library, and the page's own colours."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from provision.catalog.records.gpus import GpuRecord
from provision.catalog.roofline import Point, Roof, attainable_tflops, roofs
from provision.structs import Struct
from provision.verify.points import Measurement

# The picture of a roofline, and the plane of its axes within it; the roofs are labelled to the right of it, where no point can be.
CHART_WIDTH: Final = 720
CHART_HEIGHT: Final = 400
PLANE: Final = {"left": 62, "top": 14, "right": 568, "bottom": 352}
_LABEL_HEIGHT: Final = 15


class ChartRow(Struct):
    """One measured point: the host, the point, what the card could reach there (None where unknown), and its coordinates."""

    host: str
    point: Point
    attainable: float | None
    x: float
    y: float

    @property
    def share(self) -> float | None:
        """How much of the attainable performance was reached; None where that is unknown."""
        return self.point.tflops / self.attainable if self.attainable else None


class Chart(Struct):
    """One card's roofline with what was measured."""

    card: str  # its name; empty where the catalogue has no figures of the card, and there are only rows
    about: str  # the picture in words, for readers who cannot see it
    # For each peak: the coordinates of its line, its label, the label's height, and whether something was measured under it.
    lines: list[tuple[str, str, float, bool]]
    across: list[tuple[float, str]]  # the ticks: coordinate and label
    up: list[tuple[float, str]]
    rows: list[ChartRow]


class _Plane(Struct):
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


def charts(hosts: Sequence[Measurement]) -> list[Chart]:
    """A chart for each kind of card, in the order of the hosts."""
    cards = {host.card.model if host.card else "": host.card for host in hosts}
    return [_chart(card, [host for host in hosts if (host.card.model if host.card else "") == model]) for model, card in cards.items()]


def _chart(card: GpuRecord | None, hosts: list[Measurement]) -> Chart:
    above = roofs(card) if card else []
    points = [(host.host, point) for host in hosts for point in host.points]
    if card is None or not above:
        return Chart("", "", [], [], [], [ChartRow(host, point, None, 0, 0) for host, point in points])
    plane = _plane(above, [point for _, point in points])
    rows = [ChartRow(host, p, attainable_tflops(above, p), plane.x(p.intensity), plane.y(p.tflops)) for host, p in points]
    return Chart(
        card.name,
        _about(card.name, above, rows),
        list(_lines(above, {point.precision for _, point in points}, plane)),
        [(plane.x(10.0**n), _power(n)) for n in range(plane.low_x, plane.high_x + 1)],
        [(plane.y(10.0**n), _power(n)) for n in range(plane.low_y, plane.high_y + 1)],
        rows,
    )


def _plane(above: Sequence[Roof], points: Sequence[Point]) -> _Plane:
    """Whole powers of ten around every threshold, every peak and every point."""
    across = [*(roof.threshold for roof in above), *(point.intensity for point in points), 1.0]
    up = [*(roof.peak_tflops for roof in above), *(point.tflops for point in points)]
    low_x, high_x = math.floor(math.log10(min(across))) - 1, math.ceil(math.log10(max(across)) + 0.3)
    # The slope begins where the axes meet, or below them, so that no point lies under the plane.
    start = above[0].attainable_tflops(10.0**low_x)
    low_y = math.floor(math.log10(min([*up, start])))
    return _Plane(low_x, high_x, low_y, math.ceil(math.log10(max(up)) + 0.1))


def _lines(above: Sequence[Roof], measured: set[str], plane: _Plane) -> Iterator[tuple[str, str, float, bool]]:
    """A line for each peak, from the highest: precisions of the same peak share a line, and labels do not overlap."""
    last = -math.inf
    for peak in sorted({roof.peak_tflops for roof in above}, reverse=True):
        same = [roof for roof in above if roof.peak_tflops == peak]
        one, low = same[0], 10.0**plane.low_x
        places = [(low, one.attainable_tflops(low)), (peak * 1000 / one.bandwidth_gb_s, peak), (10.0**plane.high_x, peak)]
        drawn = " ".join(f"{plane.x(intensity)},{plane.y(tflops)}" for intensity, tflops in places)
        last = max(plane.y(peak) + 4, last + _LABEL_HEIGHT)
        yield drawn, f"{', '.join(roof.precision for roof in same)}: {peak:g}", last, any(r.precision in measured for r in same)


def _about(name: str, above: Sequence[Roof], rows: Sequence[ChartRow]) -> str:
    """What the picture shows, in two sentences; the figures themselves are in the table below it."""
    peaks = ", ".join(f"{roof.precision} {roof.peak_tflops:g}" for roof in above)
    shares = [row.share for row in rows if row.share is not None]
    reached = f"; they reach {min(shares):.0%} to {max(shares):.0%} of what the card could do there" if shares else ""
    return (
        f"Attainable TFLOPS against operations a byte of {name}, both axes logarithmic: {above[0].bandwidth_gb_s:g} GB/s of memory limit "
        f"on the left, peaks in TFLOPS on the right ({peaks}). Measured points: {len(rows)}{reached}."
    )


def _power(exponent: int) -> str:
    return f"{10.0**exponent:g}" if -4 < exponent < 5 else f"1e{exponent}"  # noqa: PLR2004 - beyond, zeros are hard to count
