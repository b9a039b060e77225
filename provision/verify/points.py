"""What was measured on a host, as points of the roofline of its GPU."""

from typing import Final

from provision.catalog.records.gpus import GpuRecord
from provision.catalog.roofline import Point, gpu_by_nvml_name
from provision.structs import Struct
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.perf import PerfFacts

_BYTES: Final = {"bf16": 2, "fp16": 2, "fp32": 4}  # of one number


class Measurement(Struct):
    """What the GPUs of one host reached under load."""

    host: str  # its name in the report
    card: GpuRecord | None  # that all of them are; None where they differ, or where the catalogue has no figures of it
    points: tuple[Point, ...]  # at least one


def measurement_of(host: str, facts: Facts | None) -> Measurement | None:
    """The points of a host; None where nothing was measured."""
    try:
        roofline = tuple(points(facts)) if facts is not None else ()
    except NotObservedError:
        return None
    if facts is None or not roofline:
        return None
    cards = [gpu_by_nvml_name(device.name) for device in facts.read(PerfFacts).devices if device.name]
    same = all(card == cards[0] for card in cards)
    return Measurement(host, cards[0] if cards and same else None, roofline)


def points(facts: Facts) -> list[Point]:
    """A point for the product of each GPU and one for its memory; none for a part that was not measured.

    The product of two n x n matrices does 2n³ operations on 3n² numbers, each read or written once. A copy does no operation: its point is
    where a kernel with one operation a byte would be, on the slope that the memory was measured to have. NotObservedError where nothing
    was measured.
    """
    result = []
    for number, device in facts.read(PerfFacts).numbered.items():
        gemm, memory = device.gemm, device.memory
        width = _BYTES.get(gemm.precision)
        if gemm.tflops is not None and width is not None and gemm.size:
            intensity = 2 * gemm.size / (3 * width)
            label = f"GPU {number} {gemm.precision} product: {gemm.tflops:.4g} TFLOPS"
            result.append(Point(label, intensity, gemm.tflops, gemm.precision))
        if memory.gb_s is not None:
            result.append(Point(f"GPU {number} memory: {memory.gb_s:.5g} GB/s", 1.0, memory.gb_s / 1000))
    return result
