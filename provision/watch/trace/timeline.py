"""A GPU's window as a strip: what it did most in each of some hundred parts."""

from __future__ import annotations

from typing import Final, NamedTuple

from provision.watch.trace.model import Kind, Op, Trace
from provision.watch.trace.shares import between_host_and_device, is_communication

PARTS: Final = 400
_STATES: Final = ("kernel", "communication", "copy", "other")


class Piece(NamedTuple):
    """Neighbouring parts with the same state: where it begins, how wide it is, and what the GPU did."""

    at: int
    width: int
    state: str


def strip(trace: Trace, device: int | None) -> list[Piece]:
    """The strip of a device, without its idle parts."""
    length = max(1, trace.ended - trace.began)
    edges = {state: [0.0] * (PARTS + 1) for state in _STATES}
    whole = {state: [0] * (PARTS + 2) for state in _STATES}
    for op in trace.ops:
        if op.device != device:
            continue
        start = (max(op.start, trace.began) - trace.began) * PARTS / length
        end = (min(op.end, trace.ended) - trace.began) * PARTS / length
        if end <= start:
            continue
        first, last, state = int(start), int(end), _state(op)
        if first == last:
            edges[state][first] += end - start
        else:
            edges[state][first] += first + 1 - start
            edges[state][last] += end - last
            whole[state][first + 1] += 1  # the parts between them are covered whole: counted by their borders
            whole[state][last] -= 1
    pieces: list[Piece] = []
    covering = dict.fromkeys(_STATES, 0)
    for part in range(PARTS):
        for state in _STATES:
            covering[state] += whole[state][part]
        shares = {state: min(1.0, edges[state][part] + covering[state]) for state in _STATES}
        state = max(_STATES, key=lambda each: shares[each])
        if sum(shares.values()) < 0.5:  # noqa: PLR2004 - idle for more than half of the part
            continue
        if pieces and pieces[-1].state == state and pieces[-1].at + pieces[-1].width == part:
            pieces[-1] = Piece(pieces[-1].at, pieces[-1].width + 1, state)
        else:
            pieces.append(Piece(part, 1, state))
    return pieces


def _state(op: Op) -> str:
    if op.kind in {Kind.KERNEL, Kind.GRAPH}:
        return "communication" if is_communication(op) else "kernel"
    return "copy" if between_host_and_device(op) else "other"
