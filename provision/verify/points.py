"""What was measured on a host, as points of the roofline of its GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from provision.catalog.records.gpus import GpuRecord
from provision.catalog.roofline import Point, gpu_by_nvml_name
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.perf import PerfFacts

__all__ = ["Measured", "measured", "points"]

_BYTES: Final = {"bf16": 2, "fp16": 2, "fp32": 4}  # of one number


@dataclass(frozen=True, slots=True)
class Measured:
    """What the GPUs of one host reached under load.

    Attributes:
        host: as the user called it.
        card: what all of them are; None where they are several kinds, or one of which the catalogue has no figures.
        points: at least one.
    """

    host: str
    card: GpuRecord | None
    points: tuple[Point, ...]


def measured(host: str, facts: Facts | None) -> Measured | None:
    """The points of a host; None where nothing was measured."""
    try:
        found = tuple(points(facts)) if facts is not None else ()
    except NotObservedError:
        return None
    if facts is None or not found:
        return None
    kinds = {device.name for device in facts.read(PerfFacts).devices}
    cards = {card.model: card for kind in kinds if (card := gpu_by_nvml_name(kind))}
    return Measured(host, next(iter(cards.values())) if len(cards) == 1 and all(map(gpu_by_nvml_name, kinds)) else None, found)


def points(facts: Facts) -> list[Point]:
    """A point for the product of each GPU and one for its memory; none of a part that was not measured.

    The product of two n x n matrices does 2n³ operations on 3n² numbers, each read or written once. A copy does no operation: its point is
    where a kernel with one operation a byte would be, on the slope that the memory was measured to have.

    Raises:
        NotObservedError: the facts were gathered without tier perf, or hold no measurement.
    """
    found = []
    for number, device in enumerate(facts.read(PerfFacts).devices):
        gemm, memory = device.gemm, device.memory
        width = _BYTES.get(gemm.precision)
        if gemm.tflops is not None and width is not None and gemm.size:
            intensity = 2 * gemm.size / (3 * width)
            label = f"GPU {number} {gemm.precision} product: {gemm.tflops:.4g} TFLOPS"
            found.append(Point(label, intensity, gemm.tflops, gemm.precision))
        if memory.gb_s is not None:
            found.append(Point(f"GPU {number} memory: {memory.gb_s:.5g} GB/s", 1.0, memory.gb_s / 1000))
    return found
