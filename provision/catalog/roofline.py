"""The roofline of a GPU: how many operations a byte of memory traffic a kernel must do before arithmetic, not memory, limits it.

Williams, Waterman, Patterson, "Roofline: An Insightful Visual Performance Model for Multicore Architectures", CACM 52 (4), 2009:
attainable = min(peak, bandwidth x intensity), so the threshold is peak / bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass

from provision.catalog import read
from provision.catalog.records import Gpu

__all__ = ["PRECISIONS", "Point", "Roof", "models", "roofs"]

PRECISIONS = ("fp64", "fp64_tensor", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "int4")


@dataclass(frozen=True, slots=True)
class Roof:
    """One precision of one GPU.

    Attributes:
        peak_tflops: dense, in TFLOPS or TOPS.
        bandwidth_gb_s: of the device memory.
        threshold: operations a byte from which arithmetic limits.
    """

    gpu: str
    precision: str
    peak_tflops: float
    bandwidth_gb_s: float
    threshold: float

    def attainable_tflops(self, intensity: float) -> float:
        """TFLOPS that a kernel with so many operations a byte can reach."""
        return min(self.peak_tflops, self.bandwidth_gb_s * intensity / 1000)


@dataclass(frozen=True, slots=True)
class Point:
    """What something reached on a GPU.

    Attributes:
        label: what and how much, for a person.
        intensity: its operations a byte.
        tflops: what it reached.
    """

    label: str
    intensity: float
    tflops: float


def models(word: str) -> list[Gpu]:
    """The GPUs that a word means: the model itself, or all whose name begins with it (`a100`).

    Raises:
        KeyError: none.
    """
    exact = [g for g in read.gpus().gpus if g.model == word]
    found = exact or [g for g in read.gpus().gpus if g.model.startswith(f"{word}-")]
    if not found:
        raise KeyError(word)
    return found


def roofs(gpu: Gpu) -> list[Roof]:
    """A GPU's roofs, one a precision whose peak is known; none where its bandwidth is not."""
    if gpu.bandwidth_gb_s is None:
        return []
    bandwidth = gpu.bandwidth_gb_s
    return [Roof(gpu.model, p, gpu.peaks[p], bandwidth, round(1000 * gpu.peaks[p] / bandwidth, 1)) for p in PRECISIONS if p in gpu.peaks]
