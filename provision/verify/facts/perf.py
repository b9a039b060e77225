"""What the GPUs did under load; gathered by tier perf alone."""

from typing import Annotated, Final, Literal

from pydantic import Field

from provision.verify.facts.base import Count, Fact, FactPart

Rate = Annotated[float, Field(gt=0, lt=1e6, allow_inf_nan=False)]
# Bits of nvmlClocksEventReasons (nvml.h). Idle, application clocks, sync boost and display hold nothing back under load.
_HELD_DOWN: Final = {0x4: "power cap", 0x8: "hardware slowdown", 0x20: "heat (software)", 0x40: "heat (hardware)", 0x80: "power brake"}
# A reason in fewer samples is a flicker: DCGM fails a suite for "0.0 seconds" of it (DCGM #242).
FLICKER: Final = 0.10
# A product in bf16 is off by 0.0016 on an H200 (tests/data/facts/h200-perf.json); one wrong tile among 64 x 64 values is far above this.
OFF: Final = 0.01
# Clocks of host and card differ by less; a figure that exceeds the card's own maximum by more is not a measurement.
ABSURD: Final = 1.05
# GB/s a lane and direction after encoding, by generation (PCI Express Base Specification).
LANE: Final = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
_BUSY: Final = 10  # per cent; it reveals processes that a container does not see
Reason = Literal["timeout", "died", "failed", "missing", "import", "no-memory", "not-run", "one-gpu", "lost"]


class PartFacts(FactPart):
    """One part of the measurement: its figures, or why there are none, as a word and a sentence."""

    reason: Reason | None = None
    unknown: str | None = None


class GemmFacts(PartFacts):
    """A tensor-core product: the rate of the fastest 20 ms and over the later half of five seconds; how far a part of it is off."""

    tflops: Rate | None = None
    sustained_tflops: Rate | None = None
    precision: str = ""
    size: Count = 0
    error: Annotated[float, Field(ge=0)] | None = None


class MemoryFacts(PartFacts):
    """A copy within the device's memory; bytes read and bytes written count."""

    gb_s: Rate | None = None
    right: bool | None = None


class CopiesFacts(PartFacts):
    """Copies between pinned memory of the host and the device."""

    to_device_gb_s: Rate | None = None
    to_host_gb_s: Rate | None = None
    right: bool | None = None

    @property
    def slower_gb_s(self) -> float | None:
        """The rate of the slower direction; None where one of them is missing."""
        if self.to_device_gb_s is None or self.to_host_gb_s is None:
            return None
        return min(self.to_device_gb_s, self.to_host_gb_s)


class AllReduceFacts(PartFacts):
    """A sum over all GPUs; `environment` holds the orders that NCCL had."""

    gpus: Count = 0
    bus_gb_s: Rate | None = None
    right: bool | None = None
    environment: dict[str, str] = Field(default_factory=dict)


class DataParallelFacts(PartFacts):
    """A batch that one process splits over all GPUs, whose results it gathers; `gpus` is how many had a part of it."""

    gpus: Count = 0
    right: bool | None = None


class LoadFacts(FactPart):
    """What NVML said during the product (the link: during all parts); None where it said nothing.

    Clocks are medians; `top_sm_mhz` is the highest SM clock of any sample. `reasons` has each set bit of the clocks event reasons, and
    the share of the samples in which it was set.
    """

    samples: Count
    sm_mhz: Count | None = None
    top_sm_mhz: Count | None = None
    memory_mhz: Count | None = None
    max_sm_mhz: Count | None = None
    power_w: Annotated[float, Field(ge=0, lt=1e5)] | None = None
    power_limit_w: Annotated[float, Field(ge=0, lt=1e5)] | None = None
    temperature_c: int | None = None
    reasons: dict[Annotated[str, Field(pattern=r"^\d{1,10}$")], float] | None = None
    link_generation: Count | None = None
    link_width: Count | None = None
    max_link_generation: Count | None = None
    max_link_width: Count | None = None

    def share(self, bits: int) -> float:
        """The largest share of samples in which one of some reasons was set."""
        return max((share for bit, share in (self.reasons or {}).items() if int(bit) & bits), default=0.0)

    @property
    def held_down_by(self) -> tuple[str, ...]:
        """What held the clocks down for more than a flicker."""
        return tuple(name for bit, name in _HELD_DOWN.items() if self.share(bit) > FLICKER)


class AmpFacts(PartFacts):
    """A step of training in mixed precision: how much faster than in FP32, and how far its result is off."""

    speed_up: Rate | None = None
    precision: str = ""
    error: Annotated[float, Field(ge=0)] | None = None


class TritonFacts(PartFacts):
    """A kernel that Triton compiled on the host."""

    right: bool | None = None
    version: str = ""


Distance = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class TensorRtFacts(PartFacts):
    """A small network in an engine of each precision: how far FP32 is from the exact result, and the others from FP32.

    `version` is that of the Python part, `library` what the library that it loaded answers, 110300 for 11.3.0.
    """

    fp32: Distance | None = None
    fp16: Distance | None = None
    int8: Distance | None = None
    version: str = ""
    library: Count = 0


class TransformerEngineFacts(PartFacts):
    """One layer in FP8, and the same layer in BF16: how far each is from the exact product."""

    fp8: Distance | None = None
    bf16: Distance | None = None
    version: str = ""


class FlashAttentionFacts(PartFacts):
    """Attention and its gradient: how far each is from PyTorch's own attention in double precision."""

    forward: Distance | None = None
    backward: Distance | None = None
    version: str = ""


class RestFacts(FactPart):
    """A GPU after the measurement: the lowest SM clock, and who used it then; None where the driver does not say."""

    sm_mhz: Count | None = None
    users: tuple[str, ...] | None = None


class OthersFacts(FactPart):
    """Who else was on the GPU; `seen` is whether the driver lists processes at all, `busy_before` per cent of the time before."""

    before: tuple[str, ...]
    during: tuple[str, ...]
    seen: bool
    busy_before: Annotated[int, Field(ge=0, le=100)] | None = None

    @property
    def users(self) -> str:
        """Other users of the GPU; empty when there were none."""
        if self.during:
            return ", ".join(self.during)
        if not self.before and (self.busy_before or 0) >= _BUSY:
            return f"somebody unseen ({self.busy_before} % busy before)"
        return ""


class PerfDeviceFacts(FactPart):
    """One GPU under load: NVML's name of it, None where that was not told, and its index there, which older probes do not send."""

    name: Annotated[str, Field(min_length=1)] | None
    index: Count | None = None
    gemm: GemmFacts
    memory: MemoryFacts
    copies: CopiesFacts
    load: LoadFacts
    others: OthersFacts
    rest: RestFacts | None = None
    amp: AmpFacts = AmpFacts(reason="not-run", unknown="an older probe")
    triton: TritonFacts = TritonFacts(reason="not-run", unknown="an older probe")
    tensorrt: TensorRtFacts = TensorRtFacts(reason="not-run", unknown="an older probe")
    transformer_engine: TransformerEngineFacts = TransformerEngineFacts(reason="not-run", unknown="an older probe")
    flash_attention: FlashAttentionFacts = FlashAttentionFacts(reason="not-run", unknown="an older probe")


class PerfFacts(Fact):
    """What every GPU did under load, and all of them together."""

    name = "perf"
    devices: Annotated[tuple[PerfDeviceFacts, ...], Field(min_length=1)]
    all_reduce: AllReduceFacts
    data_parallel: DataParallelFacts = DataParallelFacts(reason="not-run", unknown="an older probe")

    @property
    def numbered(self) -> dict[int, PerfDeviceFacts]:
        """The GPUs by NVML's index."""
        return {number if device.index is None else device.index: device for number, device in enumerate(self.devices)}


class FleetFacts(Fact):
    """The medians of a fleet's own figures for this GPU, which the client adds; None where no host of it was measured."""

    name = "fleet"
    gpu: str
    hosts: Count
    tensor_tflops: Rate | None = None
    settled_tflops: Rate | None = None
    memory_gb_s: Rate | None = None
    copies_gb_s: Rate | None = None
    all_reduce_gb_s: dict[int, Rate] = Field(default_factory=dict)
