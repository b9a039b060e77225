"""The roofline of a GPU: how many operations a byte of memory traffic a kernel must do before arithmetic, not memory, limits it.

Williams, Waterman, Patterson, "Roofline: An Insightful Visual Performance Model for Multicore Architectures", CACM 52 (4), 2009:
attainable = min(peak, bandwidth x intensity), so the threshold is peak / bandwidth.
"""

import re
from collections.abc import Sequence

from provision.catalog import read
from provision.catalog.records.gpus import GpuRecord
from provision.structs import Struct

# Words in NVML's names that mean another variant of a card, with other peaks.
_FORMS = frozenset({"NVL", "MIG", "GRID", "SFF", "LAPTOP"})
# A vGPU, which is a share of the card: NVIDIA L4-12Q.
_SHARE = re.compile(r"-\d+[ABCQ]$")

PRECISIONS = ("fp64", "fp64_tensor", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "int4")


class Roof(Struct):
    """One precision of one GPU.

    Attributes:
        peak_tflops: dense, in TFLOPS or TOPS.
        bandwidth_gb_s: of the device memory.
        threshold: operations per byte from which arithmetic is the limit.
    """

    gpu: str
    precision: str
    peak_tflops: float
    bandwidth_gb_s: float
    threshold: float

    def attainable_tflops(self, intensity: float) -> float:
        """TFLOPS that a kernel with so many operations per byte can reach."""
        return min(self.peak_tflops, self.bandwidth_gb_s * intensity / 1000)


class Point(Struct):
    """One measurement on a GPU.

    Attributes:
        label: what was measured, for a person.
        intensity: operations per byte.
        tflops: as measured.
        precision: the one whose roof applies; empty where arithmetic plays no part.
    """

    label: str
    intensity: float
    tflops: float
    precision: str = ""


def models(word: str) -> list[GpuRecord]:
    """The GPUs that a word means, in any case: the model of that name, or all models that begin with it (`A100`).

    Raises:
        KeyError: none.
    """
    gpus, low = read.gpus().gpus, word.lower()
    matches = [g for g in gpus if g.model == low] or [g for g in gpus if g.model.startswith(f"{low}-")]
    if not matches:
        raise KeyError(word)
    return matches


def roofs(gpu: GpuRecord) -> list[Roof]:
    """A GPU's roofs, one for each precision whose peak is known; none where its bandwidth is unknown."""
    if gpu.bandwidth_gb_s is None:
        return []
    bandwidth = gpu.bandwidth_gb_s
    return [Roof(gpu.model, p, gpu.peaks[p], bandwidth, round(1000 * gpu.peaks[p] / bandwidth, 1)) for p in PRECISIONS if p in gpu.peaks]


def has_nvml_name(card: GpuRecord, name: str) -> bool:
    """Whether NVML's name of a GPU means this card, in the variant whose figures the catalog has."""
    words = {word.upper() for word in card.nvml_words}
    foreign = _FORMS | ({"PCIE"} if "SXM" in card.name else set())
    parts = set(name.replace("-", " ").upper().split())
    return words <= parts and not parts & (foreign - words) and not _SHARE.search(name)


def gpu_by_nvml_name(name: str) -> GpuRecord | None:
    """The card that NVML's name means; None where the catalog does not have it, or not in this variant."""
    return max((card for card in read.gpus().gpus if has_nvml_name(card, name)), key=lambda card: len(card.nvml_words), default=None)


def attainable_tflops(above: Sequence[Roof], point: Point) -> float | None:
    """What the card could reach at a point's intensity, under the roof of its precision, or the highest; None without such a roof."""
    reach = [roof.attainable_tflops(point.intensity) for roof in above if point.precision in {"", roof.precision}]
    return max(reach, default=None)
