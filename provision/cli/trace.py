"""`gpuprov trace`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from provision.cli import options, tables
from provision.errors import EXIT_OK, EXIT_UNKNOWN, UsageError
from provision.report.base import inert
from provision.watch.trace import compare as comparison
from provision.watch.trace import evidence, page
from provision.watch.trace.document import ComparisonDocument, DeviceVerdict, TraceDocument, json_schema
from provision.watch.trace.model import Cut, Trace
from provision.watch.trace.read import read

_SHOWN = ("busy", "communication", "exposed_copies", "launch", "sync", "cpu", "host_wait", "start_up", "queue", "unexplained")
_FILE = click.Path(dir_okay=False, path_type=Path)
_LONGEST = 60


@click.command("trace")
@click.option(
    "--read", "read_from", type=_FILE, metavar="FILE", help="Explain this trace: .sqlite of nsys, or JSON of torch.profiler (.gz too)."
)
@click.option("--compare", "compared", nargs=2, type=_FILE, metavar="BEFORE AFTER", help="Say what got better between two traces.")
@click.option("--range", "range_name", default="", metavar="NAME", help="Look at the first range of this name alone.")
@click.option("--step", default="", metavar="NAME", help="The range that is one step.  [default: the one that repeats and covers most]")
@click.option("--html", type=_FILE, metavar="FILE", help="Also write it as a page with a timeline.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of --json, and end.")
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    *,
    read_from: Path | None,
    compared: tuple[Path, Path] | None,
    range_name: str,
    step: str,
    html: Path | None,
    schema: bool,
    as_json: bool,
) -> None:
    """Say why a program is slow: from a trace of its GPUs, in words, with the evidence and what to do.

    The exit code is 3 where the trace does not say it.
    """
    if schema:
        options.print_json(json_schema())
        return
    if (read_from is None) == (compared is None):
        msg = "give either --read FILE or --compare BEFORE AFTER"
        raise UsageError(msg, hint="`nsys profile` or `torch.profiler` on the machine writes a trace; `gpuprov pull` fetches it")
    files = [read_from] if read_from else list(compared or ())
    parts = [_explained(file, Cut(range_name), step) for file in files]
    both = comparison.compare(parts[0][0], parts[1][0]) if compared else None
    if html:
        options.write(html, page.render(parts, both.said if both else ()))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(both or parts[0][0]), indent=2).decode())
    else:
        click.echo("\n".join(_compared(both) if both else _told(parts[0][0])))
    ctx.exit(EXIT_UNKNOWN if any(document.label == "unknown" for document, _ in parts) else EXIT_OK)


def _explained(file: Path, cut: Cut, step: str) -> tuple[TraceDocument, Trace]:
    trace = read(file, cut)
    return evidence.document(trace, str(file), step), trace


def _told(document: TraceDocument) -> list[str]:
    """A trace in words, for a terminal."""
    sure = "no label" if document.label == "unknown" else f"{document.confidence} confidence"
    runner_up = f"; next comes {document.runner_up}" if document.runner_up else ""
    step = f"; a step ({inert(document.step.name, _LONGEST)}) takes {document.step.ms:.3f} ms" if document.step else ""
    lines = [
        f"{inert(document.file)}: {document.label} ({sure}{runner_up})",
        document.meaning,
        f"{inert(document.maker)}, {document.window_s:.3f} s looked at{step}",
        *(f"! {inert(line)}" for line in [*document.doubts, *document.notes]),
        *([f"! not in this trace: {', '.join(document.missing)}"] if document.missing else []),
    ]
    shared = [each for each in document.devices if each.shares]
    if shared:
        titles = ("GPU", "LABEL", *(name.upper().replace("_", " ") for name in _SHOWN))
        cells = [(str(each.device), each.label, *(f"{getattr(each.shares, name):.1%}" for name in _SHOWN)) for each in shared]
        lines += ["", tables.table(titles, cells)]
    for each in shared[:1]:
        lines += _evidence(each)
    lines += ["", "What to do, the least effort first:", *(f"  {number}. {item.text}" for number, item in enumerate(document.advice, 1))]
    return lines


def _evidence(each: DeviceVerdict) -> list[str]:
    lines = []
    if each.gaps:
        titles = ("AT MS", "MS", "CAUSE", "MEANWHILE", "ENDED BY", "THREAD", "RANGE", "THEN")
        cells = [
            (
                f"{gap.at_ms:.3f}",
                f"{gap.ms:.3f}",
                gap.cause.replace("_", " "),
                *(inert(text, _LONGEST) for text in (gap.during, gap.call)),
                str(gap.thread or ""),
                *(inert(text, _LONGEST) for text in (gap.range, gap.then)),
            )
            for gap in each.gaps
        ]
        lines += ["", f"The largest gaps of GPU {each.device}:", tables.table(titles, cells)]
    if each.kernels:
        cells = [(f"{k.share:.1%}", str(k.count), f"{k.mean_us:.1f}", inert(k.name, 2 * _LONGEST)) for k in each.kernels]
        lines += ["", "The costliest kernels:", tables.table(("SHARE", "RUNS", "MEAN US", "NAME"), cells)]
    if each.copies:
        cells = [
            (c.kind, c.memory, str(c.count), f"{c.bytes / 1e6:.1f}", f"{c.ms:.2f}", f"{c.gb_s:.1f}", str(c.link_gb_s or "unknown"))
            for c in each.copies
        ]
        lines += ["", "Copies:", tables.table(("KIND", "MEMORY", "COPIES", "MB", "MS", "GB/S", "LINK GB/S"), cells)]
    return lines


def _compared(both: ComparisonDocument) -> list[str]:
    cells = [
        (change.share.replace("_", " "), f"{change.before:.1%}", f"{change.after:.1%}", f"{100 * (change.after - change.before):+.1f}")
        for change in both.changes
    ]
    steps = (both.step_before_ms, both.step_after_ms)
    if steps[0] is not None and steps[1] is not None:
        cells.append(("ms a step", f"{steps[0]:.3f}", f"{steps[1]:.3f}", f"x {both.speed_up:.2f}"))
    return [
        *(
            f"{word}: {inert(each.file)}: {each.label} ({each.confidence})"
            for word, each in (("before", both.before), ("after", both.after))
        ),
        *(inert(line) for line in both.said),
        "",
        tables.table(("SHARE", "BEFORE", "AFTER", "POINTS"), cells),
    ]
