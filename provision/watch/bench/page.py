"""A report as a page: figures with their references, the measured roofline, alignment, the table of mini-batches, the soak.

One file that loads nothing and runs nothing.
"""

import base64
import hashlib
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Template

from provision.catalog import read
from provision.report.base import GLYPHS, TEMPLATES, inert
from provision.report.template import environment
from provision.structs import Struct
from provision.watch.bench.report import BenchReport, FigureEntry, HostEntry, tally

PAGES: Final = Path(__file__).parent / "templates"
WIDTH: Final = 640
HEIGHT: Final = 320
_SOAK: Final = ("TFLOPS", "MHz", "W", "C")  # of the columns after the time in a soak's row


class LayerPoint(Struct):
    """A layer on the roofline: what limits it, and the share of what the roof allows there."""

    name: str
    intensity: float
    tflops: float
    bound: str
    share: float
    x: float
    y: float


class Roofline(Struct):
    """The measured roof: its corner, its line, the ticks of both axes, and the layers under it."""

    tflops: float
    gb_s: float
    ridge: float
    line: str
    across: list[tuple[float, str]]
    up: list[tuple[float, str]]
    points: list[LayerPoint]


class MiniBatch(Struct):
    """One network: seconds on the GPU and by threads here, and of 2016 the best and the slowest framework on each device."""

    name: str
    here: list[str]
    published: list[str]
    faster: str


class Section(Struct):
    """What the page shows of one host."""

    host: HostEntry
    tally: str
    judged: list[FigureEntry]
    roofline: Roofline | None
    alignment: list[FigureEntry]
    amp: list[FigureEntry]
    columns: list[str]
    networks: list[MiniBatch]
    soaks: list[tuple[int, str, float, float, str]]


def render(result: BenchReport) -> str:
    """The page of a report."""
    published = read.bench().published
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8") + (PAGES / "bench.css").read_text(encoding="utf-8")
    references = {figure.reference.source: figure.reference for host in result.hosts for figure in host.figures if figure.reference}
    return _template().render(
        sections=[_section(host) for host in result.hosts],
        devices=published.devices,
        published=read.sources()[published.source],
        references=sorted(references.values(), key=lambda each: each.source),
        glyphs={**GLYPHS, "reported": "–"},  # noqa: RUF001 - as of what does not apply
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{_digest(style)}'; base-uri 'none'; form-action 'none'",
    )


def _section(host: HostEntry) -> Section:
    def of(start: str) -> list[FigureEntry]:
        return [figure for figure in host.figures if figure.figure.startswith(start) and figure.value is not None]

    cells = of("minibatch.")
    devices = sorted({figure.figure.rpartition(".")[2] for figure in cells}, key=lambda name: (name != "gpu", len(name), name))
    columns = [device.replace("cpu", "CPU ") if device != "gpu" else "GPU" for device in devices]
    judged = [figure for figure in host.figures if figure.outcome not in {"reported", "not-applicable"}]
    soaks = [soak for figure in of("soak.last") for soak in _soak(figure)]
    return Section(
        host, tally(host), judged, _roofline(of("intensity.")), of("alignment."), of("amp."), columns, _networks(cells, devices), soaks
    )


def _roofline(figures: Sequence[FigureEntry]) -> Roofline | None:
    """The layers under the roof that the same recipe measured; None without one."""
    values = {figure.figure: figure.value or 0.0 for figure in figures}
    tflops, gb_s = values.get("intensity.roof.arithmetic", 0.0), values.get("intensity.roof.memory", 0.0)
    layers = [figure for figure in figures if isinstance(figure.detail.get("intensity"), int | float) and (figure.value or 0) > 0]
    layers = [figure for figure in layers if float(figure.detail["intensity"] or 0) > 0]
    if tflops <= 0 or gb_s <= 0 or not layers:
        return None
    ridge = 1000 * tflops / gb_s
    low, high = 0.1, 10.0 ** math.ceil(math.log10(max(ridge, *(float(figure.detail["intensity"] or 1) for figure in layers))))
    floor = min(low * gb_s / 1000, *(figure.value or 1 for figure in layers)) / 2

    def x(intensity: float) -> float:
        return round(WIDTH * math.log10(max(intensity, low) / low) / math.log10(high / low), 1)

    def y(rate: float) -> float:
        return round(HEIGHT - HEIGHT * math.log10(max(rate, floor) / floor) / math.log10(2 * tflops / floor), 1)

    points = []
    for figure in layers:
        intensity, rate = float(figure.detail["intensity"] or 0), figure.value or 0.0
        share = rate / min(tflops, gb_s * intensity / 1000)
        bound = "memory-bound" if intensity < ridge else "math-bound"
        points.append(LayerPoint(figure.figure.removeprefix("intensity."), intensity, rate, bound, share, x(intensity), y(rate)))
    line = f"{x(low)},{y(low * gb_s / 1000)} {x(ridge)},{y(tflops)} {x(high)},{y(tflops)}"
    across = [(x(value), f"{value:g}") for value in _decades(low, high)]
    up = [(y(value), f"{value:g}") for value in _decades(floor, tflops)]
    return Roofline(tflops, gb_s, ridge, line, across, up, points)


def _decades(low: float, high: float) -> list[float]:
    """The powers of ten from one figure to another."""
    return [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]


def _networks(cells: Sequence[FigureEntry], devices: Sequence[str]) -> list[MiniBatch]:
    """A row for each network of 2016 that was measured."""
    values = {figure.figure.removeprefix("minibatch."): figure.value or 0.0 for figure in cells}
    made = []
    for name, rows in read.bench().published.networks.items():
        here = [values.get(f"{name}.{device}") for device in devices]
        if not any(here):
            continue
        known = [[value for value in row if value is not None] for row in rows]
        published = [f"{min(row):.3g} – {max(row):.3g}" for row in known]  # noqa: RUF001 - from … to
        best = min(min(row) for row in known[2:])
        gpu = values.get(f"{name}.gpu")
        made.append(MiniBatch(name, [f"{value:.3g}" if value else "–" for value in here], published, f"{best / gpu:.0f}" if gpu else "–"))  # noqa: RUF001
    return made


def _soak(figure: FigureEntry) -> list[tuple[int, str, float, float, str]]:
    """GPU, unit, lowest, highest and points of each column over time."""
    plots = []
    last = max((row[0] for row in figure.series), default=0.0) or 1.0
    for column, unit in enumerate(_SOAK, 1):
        known = [(row[0], float(row[column] or 0)) for row in figure.series if row[column] is not None]
        if not known:
            continue
        most = max(value for _, value in known) * 1.05 or 1.0
        points = " ".join(f"{WIDTH * at / last:.1f},{80 - 80 * value / most:.1f}" for at, value in known)
        plots.append((figure.gpu, unit, min(value for _, value in known), max(value for _, value in known), points))
    return plots


def _digest(style: str) -> str:
    return base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


@cache
def _template() -> Template:
    jinja = environment(PAGES)
    jinja.filters.update(inert=inert)
    jinja.globals |= {"WIDTH": WIDTH, "HEIGHT": HEIGHT}
    return jinja.get_template("bench.html")
