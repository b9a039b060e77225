"""What the checks of health say to which facts: a case for each outcome that each can have."""

from typing import Any

from .. import good  # noqa: TID252 - the tests have no root package
from .table import H100, NOT_SUPPORTED, Case, gpu, table, two


def xid(code: int, pci: str = "0000:00:1e", count: int = 1) -> dict[str, Any]:
    """One complaint in the kernel log."""
    return {"xids__events": [{"pci": pci, "code": code, "count": count, "last": f"NVRM: Xid (PCI:{pci}): {code}, pid=7, what it said"}]}


def lost(reading: str) -> dict[str, Any]:
    """A GPU that does not answer this reading."""
    return {reading: {"unknown": "GPU is lost"}}


AMPERE = gpu(
    capability="8.0",
    retired_pending=NOT_SUPPORTED,
    remapped_correctable=1,
    remapped_uncorrectable=2,
    remapped_pending=0,
    remapped_failure=0,
)
CASES: list[Case] = [
    ("gpu-health", {}, {}, "pass", "ECC on, no uncorrected error"),
    ("gpu-health", gpu(**H100), {"gpu__model": "h100"}, "pass", "0 + 0 rows remapped"),
    ("throttling", gpu(**H100), {"gpu__model": "h100"}, "pass", "idle"),
    ("gpu-health", AMPERE, {}, "pass", "2 + 1 rows remapped"),
    ("gpu-health", {"gpu": good.NO_GPU}, {}, "unknown", "no NVIDIA GPU"),
    ("gpu-health", {"nvml__devices": []}, {}, "unknown", "no device"),
    ("gpu-health", gpu(uncorrected={"unknown": "not read"}), {}, "unknown", "not read"),
    ("gpu-health", gpu(uncorrected="many"), {}, "unknown", "no count"),
    ("gpu-health", gpu(uncorrected=-1), {}, "unknown", "no count"),
    ("gpu-health", gpu(capability="seven"), {}, "unknown", "malformed"),
    ("gpu-health", gpu(uncorrected=3), {}, "fail", "GPU 0: 3 uncorrected"),
    ("gpu-health", gpu(uncorrected_ever=3), {}, "warn", "in its life"),
    ("gpu-health", gpu(ecc=0, ecc_pending=0), {}, "warn", "ECC is off"),
    ("gpu-health", gpu(ecc=0), {}, "warn", "will be on after a reboot"),
    ("gpu-health", gpu(ecc=NOT_SUPPORTED), {}, "pass", "no ECC"),
    ("gpu-health", gpu(ecc={"unknown": "Unknown Error"}), {}, "unknown", "Unknown Error"),
    ("gpu-health", gpu(retired_pending=1), {}, "fail", "waits for a reboot"),
    ("gpu-health", gpu(retired_double=63), {}, "fail", "0 + 63 pages"),
    ("gpu-health", gpu(retired_single=9, retired_double=1), {}, "warn", "9 + 1 pages"),
    ("gpu-health", gpu(retired_single=5, retired_double=4), {}, "pass", "5 + 4 pages"),
    ("gpu-health", {**AMPERE, **gpu(remapped_failure=1)}, {}, "fail", "could not be remapped"),
    ("gpu-health", {**AMPERE, **gpu(remapped_pending=1)}, {}, "fail", "waits for a reset"),
    ("gpu-health", {**AMPERE, **gpu(remapped_uncorrectable=512)}, {}, "fail", "512 rows"),
    ("gpu-health", {**AMPERE, **gpu(remapped_failure={"unknown": "Timeout"})}, {}, "unknown", "Timeout"),
    ("gpu-health", gpu(recovery_action=1), {}, "fail", "a reset of the GPU"),
    ("gpu-health", gpu(recovery_action=2), {}, "fail", "a reboot"),
    ("gpu-health", gpu(recovery_action=NOT_SUPPORTED), {}, "pass", "not told"),
    ("gpu-health", gpu(recovery_action={"unknown": "GPU is lost"}), {}, "unknown", "GPU is lost"),
    ("gpu-health", gpu(inforom=0), {}, "fail", "infoROM is corrupt"),
    ("gpu-health", gpu(sram_threshold=1), {}, "fail", "SRAM"),
    ("gpu-health", gpu(unrepairable=1), {}, "fail", "cannot be repaired"),
    ("gpu-health", two(good.GOOD, lost("uncorrected"), {"uncorrected": 2}), {}, "fail", "GPU 1: 2 uncorrected"),
    ("gpu-health", two(good.GOOD, lost("uncorrected"), {}), {}, "unknown", "GPU 0: GPU is lost"),
    ("throttling", two(good.GOOD, lost("event_reasons"), {"event_reasons": 0x40}), {}, "fail", "GPU 1: hardware thermal"),
    ("xid", {}, {}, "pass", "journalctl -k: none"),
    ("xid", xid(79), {}, "fail", "XID 79 on GPU 0 (0000:00:1e)"),
    ("xid", xid(79, pci=""), {}, "fail", "XID 79 on a GPU"),
    ("xid", xid(48, count=4), {}, "fail", "4 times"),
    ("xid", xid(999), {}, "fail", "XID 999"),
    ("xid", xid(31), {}, "warn", "XID 31"),
    ("xid", xid(92), {}, "warn", "XID 92"),
    ("xid", xid(63), {}, "pass", "XID 63"),
    ("xid", {"xids__complete": False}, {}, "unknown", "beginning is lost"),
    ("xid", {"xids__complete": False, **xid(119)}, {}, "fail", "XID 119"),
    ("xid", {"xids": {"unknown": "the kernel log cannot be read (dmesg: Operation not permitted)"}}, {}, "unknown", "cannot be read"),
    ("xid", {**xid(74), "nvml": {"unknown": "GPU is lost"}}, {}, "fail", "XID 74 on 0000:00:1e"),
    ("xid", {"gpu": good.NO_GPU}, {}, "unknown", "no NVIDIA GPU"),
    ("throttling", {}, {}, "pass", "idle"),
    ("throttling", gpu(event_reasons=0x4), {}, "pass", "power cap"),
    ("throttling", gpu(event_reasons=0), {}, "pass", "nothing"),
    ("throttling", gpu(event_reasons=0x8), {}, "fail", "hardware slowdown"),
    ("throttling", gpu(event_reasons=0x48), {}, "fail", "hardware thermal slowdown"),
    ("throttling", gpu(event_reasons=0x80), {}, "fail", "power brake"),
    ("throttling", gpu(event_reasons=0x20), {}, "warn", "software thermal slowdown"),
    ("throttling", gpu(hw_thermal=12), {}, "warn", "too hot before"),
    ("throttling", gpu(hw_thermal=NOT_SUPPORTED, hw_power_brake=NOT_SUPPORTED), {}, "pass", "idle"),
    ("throttling", gpu(event_reasons=NOT_SUPPORTED), {}, "not-applicable", "does not tell"),
    ("throttling", gpu(event_reasons={"unknown": "not read"}), {}, "unknown", "not read"),
]

test_table = table(CASES)
