"""GPUs, their tensor cores, and the figures that an acceptance run must reach."""

from typing import Literal

import msgspec

from provision.catalog.records.base import CatalogRecord, Covers


class ClocksRecord(CatalogRecord, frozen=True):
    """A pair as `nvidia-smi -ac` takes it."""

    memory_mhz: int
    graphics_mhz: int


class TensorCores(CatalogRecord, frozen=True):
    """The precisions of a compute capability: what its tensor cores take (precision → source), and what its CUDA cores compute.

    Attributes:
        cores: precision → its rate over that of FP32, or `yes` where the rate is not known; a precision that is absent is not computed.
        sources: source → the precisions whose figure, or absence, was read there.
    """

    compute_capability: str
    architecture: str
    takes: dict[str, str]
    cores: dict[str, str]
    sources: Covers
    unknown: list[str]


class GpuRecord(CatalogRecord, frozen=True):
    """A GPU model. Peaks are dense, in TFLOPS or TOPS; an unknown figure is None, not zero.

    Attributes:
        nvlink_gb_s: of all links of one GPU, in one direction.
        mig: slice → how many of it fit alone; empty for a card without Multi-Instance GPU. `mig_driver` is the oldest driver for it.
        nvswitch_from: how many sit on a board with NVSwitches; None where there is no such board.
    """

    model: str
    name: str
    compute_capability: str
    machine: Literal["x86_64", "arm64"]
    memory_gb: int
    nvml_words: list[str]
    sources: Covers
    cuda_cores: int | None = None
    bandwidth_gb_s: float | None = None
    peaks: dict[str, float] = msgspec.field(default_factory=dict)
    nvlink_gb_s: float | None = None
    power_w: int | None = None
    nvenc: bool | None = None
    nvswitch_from: int | None = None
    mig: dict[str, int] = msgspec.field(default_factory=dict)
    mig_driver: str | None = None
    clocks: ClocksRecord | None = None


class Healthy(CatalogRecord, frozen=True):
    """What others measured on healthy cards: matrix products, copies in memory, all-reduce by number of GPUs; the floor of host copies.

    `settled_tflops` is what a product falls to within seconds on a card whose power cap is lower than its clocks.
    """

    tensor_tflops: float | None = None
    settled_tflops: float | None = None
    memory_gb_s: float | None = None
    copies_floor_gb_s: float | None = None
    all_reduce_gb_s: dict[int, float] = msgspec.field(default_factory=dict)


class DatasheetShares(CatalogRecord, frozen=True):
    """What a healthy card reaches of its datasheet, for cards of which nobody published a measurement.

    `tensor_capped` is for cards whose power limit is at most `capped_w`; `all_reduce` is of NVLink's rate in one direction.
    """

    source: str
    tensor: float
    tensor_capped: float
    capped_w: int
    memory: float
    all_reduce: float


class Acceptance(CatalogRecord, frozen=True):
    """The gates of the acceptance tier, as shares of the healthy figure, the host's best GPU and the link; GPUs without a gate for sums."""

    source: str
    warn_share: float
    fail_share: float
    sibling_share: float
    link_share: float
    all_reduce_reported: list[str]
    datasheet: DatasheetShares
    healthy: dict[str, Healthy]


class Gpus(CatalogRecord, frozen=True):
    """gpus.yaml."""

    tensor_cores: list[TensorCores]
    gpus: list[GpuRecord]
    acceptance: Acceptance
