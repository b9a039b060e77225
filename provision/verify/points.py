"""What was measured on a host, as points of the roofline of its GPU."""

from __future__ import annotations

from typing import Final

from provision.catalog.roofline import Point
from provision.verify.facts import Facts
from provision.verify.schema_perf import Perf

__all__ = ["points"]

_BYTES: Final = {"bf16": 2, "fp16": 2, "fp32": 4}  # of one number


def points(facts: Facts) -> list[Point]:
    """A point for the product of each GPU and one for its memory; none of a part that was not measured.

    The product of two n x n matrices does 2n³ operations on 3n² numbers, each read or written once. A copy does no operation: its point is
    where a kernel with one operation a byte would be, on the slope that the memory was measured to have.

    Raises:
        NotObservedError: the facts were gathered without tier perf, or hold no measurement.
    """
    found = []
    for number, device in enumerate(facts.read(Perf).devices):
        gemm, memory = device.gemm, device.memory
        width = _BYTES.get(gemm.precision)
        if gemm.tflops is not None and width is not None and gemm.size:
            intensity = 2 * gemm.size / (3 * width)
            found.append(Point(f"GPU {number} {gemm.precision} product: {gemm.tflops:.4g} TFLOPS", intensity, gemm.tflops))
        if memory.gb_s is not None:
            found.append(Point(f"GPU {number} memory: {memory.gb_s:.5g} GB/s", 1.0, memory.gb_s / 1000))
    return found
