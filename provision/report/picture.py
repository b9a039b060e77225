"""The roofline as a picture: SVG or PNG through matplotlib, or characters through plotext."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from provision.catalog.roofline import Point, Roof
from provision.errors import UsageError

_MARKS: Final = ("-", "--", "-.", ":")
_FILLS: Final = ("full", "none", "left", "right")
_FORMATS: Final = (".svg", ".png")


def _intensities(roofs: Sequence[Roof], points: Sequence[Point] = ()) -> list[float]:
    """Evenly on a logarithmic axis: from a hundredth of the lowest threshold to ten times the highest, and further to reach all points."""
    low = min([min(r.threshold for r in roofs) / 100, *(p.intensity / 2 for p in points)])
    high = max([max(r.threshold for r in roofs) * 10, *(p.intensity * 2 for p in points)])
    steps = 200
    return [low * (high / low) ** (n / steps) for n in range(steps + 1)]


def draw(roofs: Sequence[Roof], path: Path, points: Sequence[Point] = ()) -> None:
    """Write the picture; the suffix decides the format. UsageError for another suffix, or where matplotlib is not installed."""
    if path.suffix not in _FORMATS:
        msg = f"{path.name!a} is neither .svg nor .png"
        raise UsageError(msg, hint="end the name in .svg or .png")
    pyplot = _library("matplotlib.pyplot")
    figure, axes = pyplot.subplots(figsize=(12, 6.5), layout="constrained")
    across = _intensities(roofs, points)
    colours = {model: f"C{n}" for n, model in enumerate(dict.fromkeys(r.gpu for r in roofs))}
    styles = {precision: _MARKS[n % len(_MARKS)] for n, precision in enumerate(dict.fromkeys(r.precision for r in roofs))}
    for roof in roofs:
        reached = [roof.attainable_tflops(i) for i in across]
        label = f"{roof.gpu} {roof.precision}: {roof.peak_tflops:g} TFLOPS from {roof.threshold:g} FLOP/B"
        axes.plot(across, reached, styles[roof.precision], color=colours[roof.gpu], label=label)
        axes.plot([roof.threshold], [roof.peak_tflops], "o", color=colours[roof.gpu], markersize=5)
    for n, point in enumerate(points):
        fill = _FILLS[n % len(_FILLS)]
        axes.plot([point.intensity], [point.tflops], "*", color="black", markersize=11, fillstyle=fill, label=point.label)
    axes.set(xscale="log", yscale="log", xlabel="arithmetic intensity (FLOP/byte)", ylabel="attainable (TFLOPS, dense)", title="Roofline")
    axes.grid(visible=True, which="both", alpha=0.2)
    figure.legend(loc="outside right upper", fontsize="small")  # beside the axes: over them it hides the lower roofs
    # Without a date, and with ids that are not random, the same data gives the same bytes.
    with pyplot.rc_context({"svg.hashsalt": "gpuprov"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def in_terminal(roofs: Sequence[Roof], points: Sequence[Point] = ()) -> str:
    """The same in characters; UsageError where plotext is not installed."""
    plot = _library("plotext")
    plot.clear_figure()
    across = _intensities(roofs, points)
    for roof in roofs:
        plot.plot(across, [roof.attainable_tflops(i) for i in across], label=f"{roof.gpu} {roof.precision}")
    for point in points:
        plot.scatter([point.intensity], [point.tflops], marker="x", label=point.label)
    plot.xscale("log")
    plot.yscale("log")
    plot.xlabel("FLOP/byte")
    plot.ylabel("TFLOPS")
    plot.theme("clear")
    plot.plot_size(100, 28)
    return str(plot.build())


def _library(name: str) -> Any:
    """Import one of the two libraries on use: both belong to an extra, and matplotlib takes most of a second."""
    try:
        if name.startswith("matplotlib"):
            importlib.import_module("matplotlib").use("agg")
        return importlib.import_module(name)
    except ImportError as error:
        msg = f"{name.partition('.')[0]} is not installed"
        raise UsageError(msg, hint="install gpuprov with its extra, '.[plot]' in a clone; --json and --csv need no library") from error
