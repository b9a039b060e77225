"""A recording as a page: what every GPU did, as plots and figures. One file that loads nothing and runs nothing."""

import base64
import hashlib
import statistics
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Template

from provision.report.base import TEMPLATES, inert
from provision.report.template import environment
from provision.structs import Struct
from provision.watch.recording import Recording
from provision.watch.rows import active, notice_line
from provision.watch.run import replay
from provision.watch.sample import GpuSample, Sample
from provision.watch.state import Watched, activity
from provision.watch.stream import Lost

PAGES: Final = Path(__file__).parent / "templates"
WIDTH: Final = 600
HEIGHT: Final = 80
_MOST_POINTS: Final = 600
Reading = Callable[[GpuSample], float | None]


class Plot(Struct):
    """One figure over the time of the recording.

    Attributes:
        paths: the points of each unbroken part of the line; it is broken where the figure was not told.
        most: the value at the upper edge.
    """

    title: str
    unit: str
    paths: list[str]
    most: float
    least: float
    median: float
    highest: float


class GpuStory(Struct):
    """One GPU of one host."""

    host: str
    index: int
    model: str
    counted: str
    plots: list[Plot]


class _Figure(Struct):
    title: str
    unit: str
    read: Reading
    most: float | None = None


_FIGURES: Final = (
    _Figure("Activity", "%", lambda gpu: None if activity(gpu) is None else 100 * (activity(gpu) or 0), 100),
    _Figure("Tensor cores", "%", lambda gpu: None if gpu.tensor_active is None else 100 * gpu.tensor_active, 100),
    _Figure("Memory in use", "GiB", lambda gpu: None if gpu.memory_used_bytes is None else gpu.memory_used_bytes / (1 << 30)),
    _Figure("Power", "W", lambda gpu: gpu.power_w),
    _Figure("Graphics clock", "MHz", lambda gpu: gpu.sm_mhz),
    _Figure("Temperature", "C", lambda gpu: gpu.temperature_c),
)


def render(recording: Recording) -> str:
    """The page of a recording."""
    watched = Watched(recording.hosts, recording.interval_s)
    series: dict[tuple[str, int], list[tuple[float, GpuSample | None]]] = {}
    losses: list[tuple[float, str, str]] = []

    def take(name: str, item: Sample | Lost, now: float) -> None:
        watched.take(name, item, now)
        if isinstance(item, Lost):
            losses.append((now, name, inert(item.error.message).removeprefix(f"{name} ")))
            for (host, _), told in series.items():
                if host == name:
                    told.append((now, None))
            return
        for index, gpu in enumerate(item.gpus):
            series.setdefault((name, index), []).append((now, gpu))

    last = replay(recording, take)
    first = recording.moments[0].at if recording.moments else 0.0
    stories = [_story(name, index, samples, first, last) for (name, index), samples in sorted(series.items())]
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8") + (PAGES / "recording.css").read_text(encoding="utf-8")
    return _template().render(
        hosts=[host.target.name for host in recording.hosts],
        seconds=last - first,
        interval_s=recording.interval_s,
        began=first,
        stories=stories,
        notices=[(notice.at - first, notice.host, notice_line(notice)) for notice in watched.notices],
        losses=[(at - first, name, message) for at, name, message in losses],
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{_digest(style)}'; base-uri 'none'; form-action 'none'",
    )


def _story(name: str, index: int, samples: Sequence[tuple[float, GpuSample | None]], first: float, last: float) -> GpuStory:
    gpu = next(gpu for _, gpu in reversed(samples) if gpu is not None)
    plots = [plot for figure in _FIGURES if (plot := _plot(figure, samples, first, last)) is not None]
    return GpuStory(name, index, inert(gpu.name, 60), active(gpu).partition(" ")[0], plots)


def _plot(figure: _Figure, samples: Sequence[tuple[float, GpuSample | None]], first: float, last: float) -> Plot | None:
    """One figure; None where it was never told."""
    step = max(1, -(-len(samples) // _MOST_POINTS))
    runs: list[list[tuple[float, float]]] = [[]]
    for at, gpu in samples:
        value = figure.read(gpu) if gpu is not None else None
        if value is None:
            runs.append([])
        else:
            runs[-1].append((at, value))
    known = [value for run in runs for _, value in run]
    if not known:
        return None
    most = figure.most or max(known) * 1.05 or 1.0

    def point(part: list[tuple[float, float]]) -> str:
        x, mean = WIDTH * (part[0][0] - first) / max(last - first, 1e-9), statistics.fmean(value for _, value in part)
        return f"{x:.1f},{HEIGHT - HEIGHT * min(1.0, mean / most):.1f}"

    paths = [[point(run[start : start + step]) for start in range(0, len(run), step)] for run in runs if run]
    lines = [" ".join(path if len(path) > 1 else path * 2) for path in paths]
    return Plot(figure.title, figure.unit, lines, most, min(known), statistics.median(known), max(known))


def _digest(style: str) -> str:
    return base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


@cache
def _template() -> Template:
    jinja = environment(PAGES)
    jinja.filters.update(inert=inert)
    jinja.globals |= {"WIDTH": WIDTH, "HEIGHT": HEIGHT}
    return jinja.get_template("recording.html")
