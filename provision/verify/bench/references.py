"""What a figure is compared with: the acceptance figures of `verify --tier perf` where they are the same figure, else bench.yaml."""

from typing import Final

from provision.catalog import read
from provision.catalog.records.base import version
from provision.catalog.records.gpus import GpuRecord, Healthy
from provision.structs import Struct
from provision.verify.bench.figures import Measured
from provision.verify.facts.perf import LANE

# Figures that say nothing of a card's health: effects, points of a roofline, tables, and rates that the host decides.
REPORTED: Final = (
    "alignment.",
    "intensity.",
    "minibatch.",
    "launch.launch.",
    "memory.triad",
    "copies.pageable.",
    "soak.first",
    "amp.resnet50.",
)
_AMPERE: Final = (8, 0)
_SHEET_ONLY: Final = ("gemm.fp8.", "gemm.int8.", "gemm.fp64.")  # nobody published how fast healthy cards are: only a datasheet has them
_SIZE: Final = "8192"  # the products that are compared; the others are shown beside them


class Reference(Struct):
    """What a figure is compared with. Below `warn` of it is a warning, below `fail` a failure; None where it is not.

    Attributes:
        least: whether more is worse, as for the time of a launch.
        most: more than this cannot be true.
    """

    value: float
    source: str
    warn: float | None
    fail: float | None
    least: bool = False
    most: float | None = None


def is_reported(card: GpuRecord | None, figure: Measured) -> bool:
    """Whether a figure is shown and not judged, on any card or on this one."""
    shown = figure.key.startswith(REPORTED) or (figure.recipe == "gemm" and f".{_SIZE}." not in figure.key)
    shared = figure.recipe == "copies" and not figure.alone
    hosted = figure.recipe in {"peers", "nccl"} and card is not None and card.model in read.gpus().acceptance.all_reduce_reported
    # From Ampere on PyTorch's convolutions use TF32 without being asked: against FP32 without it nobody published a figure.
    against = figure.key == "amp.speed_up.fp32" and card is not None and version(card.compute_capability) >= _AMPERE
    return shown or shared or hosted or against or figure.key.endswith(".both")


def is_lacking(card: GpuRecord, figure: Measured) -> bool:
    """Whether a figure is of a product that the card has no cores for, so that there is nothing to measure.

    The catalogue decides, not the host. INT8 outside of tensor cores is a dot product, which multiplies no matrices.
    """
    if figure.recipe != "gemm":
        return False
    precision = figure.name.partition(".")[0]
    cores = next((each for each in read.gpus().tensor_cores if each.compute_capability == card.compute_capability), None)
    if cores is None or precision in {*cores.takes, *cores.unknown}:
        return False
    return precision == "int8" or precision not in cores.cores


def reference_of(card: GpuRecord | None, figure: Measured) -> Reference | None:
    """What a card's figure is compared with; None where nobody published one, or the card is not known."""
    gates = read.bench().gates
    if figure.key == "launch.launch":
        return Reference(gates.launch_most_us / 2, gates.source, 2.0, None, least=True)
    if figure.key == "soak.last":
        return None
    link = _link(figure)
    if card is None:
        return link
    name = figure.key.replace(f".{_SIZE}", "")
    name = "peers.p2p" if name.startswith("peers.p2p.") else name.replace("nccl.all_reduce.", "peers.all_reduce.")
    return _own(card, name) or _accepted(card, name) or _floor(card, name) or _sheet(card, name) or link


def _own(card: GpuRecord, name: str) -> Reference | None:
    """What bench.yaml has."""
    bench, verify = read.bench(), read.gpus().acceptance
    known = bench.cards.get(card.model, {}).get(name)
    if known is None:
        return None
    most = _most(card, name)
    if known.floor:
        return Reference(known.value, known.source, 1.0, 1.0)
    if name.startswith("amp.resnet50."):
        return Reference(known.value, known.source, None, None)  # another batch and another release: a comparison, no gate
    if name.endswith(".settled"):
        return Reference(known.value, known.source, bench.gates.settled_warn, bench.gates.settled_fail, most=most)
    return Reference(known.value, known.source, verify.warn_share, verify.fail_share, most=most)


def _accepted(card: GpuRecord, name: str) -> Reference | None:
    """The acceptance figures of gpus.yaml: of this card, or by the share that healthy cards reach of their datasheet."""
    gates = read.gpus().acceptance
    healthy, sheet = gates.healthy.get(card.model, Healthy()), gates.datasheet
    tensor = "bf16" if version(card.compute_capability) >= _AMPERE else "fp16"
    most = _most(card, name)

    def of(value: float | None, peak: float | None, share: float) -> Reference | None:
        if value is not None:
            return Reference(value, gates.source, gates.warn_share, gates.fail_share, most=peak)
        return None if peak is None else Reference(share * peak, sheet.source, gates.warn_share, gates.fail_share, most=peak)

    if name == f"gemm.{tensor}.burst":
        return of(healthy.tensor_tflops, most, sheet.tensor_capped if _is_capped(card) else sheet.tensor)
    if name == f"gemm.{tensor}.settled" and healthy.settled_tflops is not None:
        own = read.bench().gates
        return Reference(healthy.settled_tflops, gates.source, own.settled_warn, own.settled_fail, most=most)
    if name == "memory.copy":
        return of(healthy.memory_gb_s, card.bandwidth_gb_s, sheet.memory)
    if name.startswith("copies.pinned.") and healthy.copies_floor_gb_s is not None:
        return Reference(healthy.copies_floor_gb_s, gates.source, 1.0, 1.0)
    if name.startswith("peers.all_reduce."):
        gate = of(healthy.all_reduce_gb_s.get(int(name.rpartition(".")[2])), card.nvlink_gb_s, sheet.all_reduce)
        # NVSwitch adds up inside the fabric, which may be faster than the links.
        return None if gate is None else Reference(gate.value, gate.source, gate.warn, gate.fail)
    return None


def _floor(card: GpuRecord, name: str) -> Reference | None:
    """Of a settled rate that nobody published: it must not fall below what a burst may be; not of a card with a small power limit."""
    if not name.endswith(".settled") or _is_capped(card):
        return None
    burst, share = name.replace(".settled", ".burst"), read.gpus().acceptance.fail_share
    known = _own(card, burst) or _accepted(card, burst)
    return None if known is None else Reference(known.value, known.source, share, share, most=known.most)


def _sheet(card: GpuRecord, name: str) -> Reference | None:
    """The datasheet's peak: nobody published what healthy cards reach of it, so it does not judge a product, but none can exceed it."""
    if not name.startswith(_SHEET_ONLY):
        return None
    precision = name.split(".")[1]
    precision = f"{precision}_tensor" if f"{precision}_tensor" in card.peaks else precision
    source = next((source for source, figures in card.sources.items() if f"peaks.{precision}" in figures), None)
    peak = card.peaks.get(precision)
    return Reference(peak, source, None, None, most=peak) if source and peak else None


def _is_capped(card: GpuRecord) -> bool:
    """Whether the card's power limit is lower than what its clocks take."""
    return card.power_w is not None and card.power_w <= read.gpus().acceptance.datasheet.capped_w


def _most(card: GpuRecord, name: str) -> float | None:
    """What a product cannot exceed: the peak of its precision."""
    return card.peaks.get(name.split(".")[1]) if name.startswith("gemm.") else None


def _link(figure: Measured) -> Reference | None:
    """For copies, a share of what the negotiated link can carry. A hypervisor may show a link that does not exist; the rate does."""
    if not figure.key.startswith("copies.pinned.") or figure.load is None or figure.value is None:
        return None
    gates = read.gpus().acceptance
    carries = LANE.get(figure.load.link_generation or 0, 0.0) * (figure.load.link_width or 0)
    return Reference(gates.link_share * carries, gates.source, 1.0, 1.0) if figure.value <= carries * 1.05 else None
