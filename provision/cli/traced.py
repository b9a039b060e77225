"""What `gpuprov trace` prints for people."""

from provision.cli import tables
from provision.report.base import inert
from provision.watch.trace.document import ComparisonDocument, DeviceVerdict, ShareSet, TraceDocument
from provision.watch.trace.ncu import KernelMeasure

# All but the last add up to the whole.
_SHOWN = tuple(name for name in ShareSet.__struct_fields__ if name not in {"idle", "underfilled", "overhead"})
_LONGEST = 60


def told(document: TraceDocument) -> list[str]:
    """A trace in words, for a terminal."""
    sure = "no label" if document.label == "unknown" else f"{document.confidence} confidence"
    runner_up = f"; next comes {document.runner_up}" if document.runner_up else ""
    cut = f" after {document.warm_up_s:.3f} s that count as warm-up" if document.warm_up_s else ""
    step = f"; a step ({inert(document.step.name, _LONGEST)}) takes {document.step.ms:.3f} ms" if document.step else ""
    lines = [
        f"{inert(document.file)}: {document.label} ({sure}{runner_up})",
        document.meaning,
        f"{inert(document.maker)}, {document.window_s:.3f} s looked at{cut}{step}",
        *(f"! {inert(line)}" for line in [*(doubt.text for doubt in document.doubts), *document.notes]),
        *([f"! not in this trace: {', '.join(document.missing)}"] if document.missing else []),
    ]
    shared = [each for each in document.devices if each.shares]
    if shared:
        titles = ("GPU", "LABEL", *(name.upper().replace("_", " ") for name in _SHOWN))
        cells = [(str(each.device), each.label, *(f"{getattr(each.shares, name):.1%}" for name in _SHOWN)) for each in shared]
        lines += ["", tables.table(titles, cells)]
    for each in shared[:1]:
        lines += _evidence(each)
    lines += ["", "What to do, the easiest first:"]
    for number, item in enumerate(document.advice, 1):
        lines += [f"  {number}. {item.text}", f"     ({'; '.join(inert(row, _LONGEST) for row in item.rows)})"]
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
        cells = [
            (f"{k.share:.1%}", str(k.count), f"{k.mean_us:.1f}", _sides(k.grid), _sides(k.block), inert(k.name, 2 * _LONGEST))
            for k in each.kernels
        ]
        sms = f" ({each.sms} multiprocessors)" if each.sms else ""
        lines += ["", f"The costliest kernels{sms}:", tables.table(("SHARE", "RUNS", "MEAN US", "GRID", "BLOCK", "NAME"), cells)]
    if each.copies:
        cells = [
            (c.kind, c.memory, str(c.count), f"{c.bytes / 1e6:.1f}", f"{c.ms:.2f}", f"{c.gb_s:.1f}", str(c.link_gb_s or "unknown"))
            for c in each.copies
        ]
        lines += ["", "Copies:", tables.table(("KIND", "MEMORY", "COPIES", "MB", "MS", "GB/S", "LINK GB/S"), cells)]
    return lines


def _sides(lengths: list[int] | None) -> str:
    return "x".join(map(str, lengths)) if lengths else "unknown"


def compared(both: ComparisonDocument) -> list[str]:
    """Two traces beside each other."""
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


def measured(kernel: KernelMeasure) -> list[str]:
    """A kernel that ncu measured."""
    figures = (
        ("time", kernel.seconds, 1e6, "us"),
        ("operations", kernel.operations_s, 1e-12, "T/s"),
        ("their peak at these clocks", kernel.peak_operations_s, 1e-12, "T/s"),
        ("memory", kernel.bytes_s, 1e-9, "GB/s"),
        ("its peak", kernel.peak_bytes_s, 1e-9, "GB/s"),
        ("operations a byte", kernel.intensity, 1, ""),
        ("computing is the roof from", kernel.ridge, 1, "operations a byte"),
        ("tensor cores active", kernel.tensor_percent, 1, "%"),
        ("of the maximum number of warps", kernel.warps_percent, 1, "%"),
    )
    return [
        f"{inert(kernel.kernel, 2 * _LONGEST)} on {inert(kernel.gpu, _LONGEST) or 'an unknown GPU'}: {kernel.said}",
        *(f"  {name}: {'unknown' if value is None else f'{value * scale:.1f} {unit}'.rstrip()}" for name, value, scale, unit in figures),
    ]
