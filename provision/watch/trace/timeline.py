"""A GPU's window as a strip: which share of each of some hundred parts it spent on what."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from provision.watch.trace.model import Kind, Op, Trace
from provision.watch.trace.shares import between_host_and_device, is_communication

PARTS: Final = 400
STEPS: Final = 20
_ROUNDING: Final = 1e-6
_STATES: Final = ("kernel", "communication", "copy", "other")


class Piece(NamedTuple):
    """A box of neighbouring parts: where it begins, how wide it is, what the GPU did, and from where it stands how high, of `STEPS`."""

    at: int
    width: int
    state: str
    low: int
    height: int


def strip(trace: Trace, device: int | None) -> list[Piece]:
    """The strip of a device; what it did stands one on the other, and what is left above is idle. Nothing is too short to be seen."""
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
        low = 0
        for state in _STATES:
            share = min(1.0, edges[state][part] + covering[state])
            height = min(math.ceil(share * STEPS - _ROUNDING), STEPS - low)
            if height > 0:
                _add(pieces, Piece(part, 1, state, low, height))
                low += height
    return pieces


def _add(pieces: list[Piece], piece: Piece) -> None:
    """Add a box, or widen the one of the part before that is alike."""
    for number in range(len(pieces) - 1, max(-1, len(pieces) - 2 * len(_STATES)), -1):
        last = pieces[number]
        if last.at + last.width == piece.at and last[2:] == piece[2:]:
            pieces[number] = last._replace(width=last.width + 1)
            return
    pieces.append(piece)


def _state(op: Op) -> str:
    if op.kind in {Kind.KERNEL, Kind.GRAPH}:
        return "communication" if is_communication(op) else "kernel"
    return "copy" if between_host_and_device(op) else "other"
