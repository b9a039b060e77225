"""Two traces of one program: what got better, in shares and in time per step."""

from __future__ import annotations

from typing import Final

from provision.watch.trace.document import SCHEMA, ComparisonDocument, ShareChange, ShareSet, TraceDocument

_SHOWN: Final = tuple(name for name in ShareSet.__struct_fields__ if name not in {"unexplained", "overhead"})
# Less than two points of a hundred is noise between two runs.
_NOTEWORTHY: Final = 0.02
_SAME_SPEED: Final = 0.03


def compare(before: TraceDocument, after: TraceDocument) -> ComparisonDocument:
    """The two, with what changed between the busiest GPUs of each."""
    one, two = before.devices[0].shares, after.devices[0].shares
    changes = [ShareChange(name, getattr(one, name), getattr(two, name)) for name in _SHOWN] if one and two else []
    steps = (before.step, after.step)
    first, second = (steps[0].ms, steps[1].ms) if steps[0] and steps[1] and steps[0].name == steps[1].name else (None, None)
    speed_up = first / second if first and second else None
    return ComparisonDocument(
        schema=SCHEMA,
        before=before,
        after=after,
        changes=changes,
        step_before_ms=first,
        step_after_ms=second,
        speed_up=speed_up,
        said=_said(before, after, speed_up, one, two),
    )


def _said(before: TraceDocument, after: TraceDocument, speed_up: float | None, one: ShareSet | None, two: ShareSet | None) -> list[str]:
    lines = [f"{before.label} became {after.label}" if before.label != after.label else f"both are {before.label}"]
    if speed_up is None:
        lines.append("no named range repeats in both, so that the time of a step is not known; --step NAME names one")
    elif abs(speed_up - 1) < _SAME_SPEED:
        lines.append("a step takes the same time")
    else:
        lines.append(f"a step is {speed_up:.2f} times as fast" if speed_up > 1 else f"a step takes {1 / speed_up:.2f} times as long")
    if one is None or two is None:
        lines.append("one of the traces has no shares")
        return lines
    moved = sorted(((getattr(two, name) - getattr(one, name), name) for name in _SHOWN), key=lambda pair: -abs(pair[0]))
    lines += [f"{name.replace('_', ' ')} {delta * 100:+.0f} points" for delta, name in moved[:3] if abs(delta) >= _NOTEWORTHY]
    return lines
