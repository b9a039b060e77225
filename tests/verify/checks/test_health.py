"""What the checks of health say to which facts: a case for each outcome that each can have."""

from typing import Any

from .. import good  # noqa: TID252 - the tests have no root package
from .table import H100, NOT_SUPPORTED, Case, Text, gpu, image_has, table, texts, two


def nonfatal(code: int) -> dict[str, Any]:
    (event,) = xid(code)["xids__events"]
    return {"xids__events": [{**event, "nonfatal": True}]}


def xid(code: int, pci: str = "0000:00:1e", count: int = 1) -> dict[str, Any]:
    """One complaint in the kernel log."""
    return {"xids__events": [{"pci": pci, "code": code, "count": count, "last": f"NVRM: Xid (PCI:{pci}): {code}, pid=7, what it said"}]}


def switch(code: int, word: str = "Fatal") -> dict[str, Any]:
    """One complaint of an NVSwitch."""
    last = f"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): {code}, {word}, Link 30 what it said"
    return {"xids__switches": [{"pci": "0000:c1:00.0", "code": code, "nonfatal": word != "Fatal", "count": 1, "last": last}]}


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
WELL = "no uncorrected memory error, nothing retired that waits or failed, and no recovery asked for"
# What the driver may ask for (nvml.h), and a number that is newer than this.
RECOVERIES = {
    1: "a reset of the GPU",
    2: "a reboot",
    3: "that peers are drained",
    4: "that work is drained, and a reset",
    5: "that the IMEX domain recovers",
    6: "a reset of the bus",
    7: "a reboot of the system",
    8: "8",
}
# Bits of the clocks event reasons (nvml.h): how each ends, and its word; bits that nobody knows say nothing.
REASONS = {
    0x1: ("pass", "idle"),
    0x2: ("pass", "clock setting"),
    0x4: ("pass", "power cap"),
    0x8: ("fail", "hardware slowdown"),
    0x10: ("pass", "sync boost"),
    0x20: ("warn", "software thermal slowdown"),
    0x40: ("fail", "hardware thermal slowdown"),
    0x80: ("fail", "power brake"),
    0x100: ("pass", "display clocks"),
}
# NVIDIA's catalogue by its immediate action: docs/sources/verification.md §2.6. Every other code fails.
IGNORED = (63, 106, 107)
SOFT = (
    *(8, 11, 13, 14, 25, 31, 32, 37, 38, 39, 40, 41, 43, 44, 45, 60, 66, 67, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85, 86),
    *(88, 89, 92, 93, 94, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 108, 121, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135),
    *(137, 139, 141, 152, 153, 154, 157, 160, 161, 162, 163),
)
OWN = image_has(driver="580", driver_flavour="proprietary")
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
    ("gpu-health", gpu(uncorrected_ever=3), {}, "warn", "3 uncorrected ECC errors in its life"),
    ("gpu-health", gpu(uncorrected_ever=1), {}, "warn", "1 uncorrected ECC error in its life"),
    ("gpu-health", gpu(ecc=0, ecc_pending=0), {}, "warn", "ECC is off"),
    ("gpu-health", gpu(ecc=0), {}, "warn", "will be on after a reboot"),
    ("gpu-health", gpu(inforom=0), {}, "fail", "=GPU 0: its infoROM is corrupt"),
    ("gpu-health", gpu(ecc=0), {}, "warn", "=GPU 0: ECC is off and will be on after a reboot"),
    ("gpu-health", gpu(ecc=0, ecc_pending=0), {}, "warn", "=GPU 0: ECC is off"),
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
    ("gpu-health", two(good.GOOD, {}, {**lost("uncorrected"), "error": 15}), {}, "fail", "=GPU 1: it has fallen off the bus"),
    (
        "throttling",
        two(good.GOOD, lost("event_reasons"), {"event_reasons": 0x20}),
        {},
        "unknown",
        "GPU 0: GPU is lost; the others: GPU 1: software thermal",
    ),
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
    # Lowered by `nvidia-smi -pl`, or past it by the host's management (stackhpc/ansible-slurm-appliance, pull request 975).
    ("throttling", gpu(power_limit_mw=200_000, power_default_mw=350_000), {}, "warn", "=GPU 0: its power limit is 200 of 350 W"),
    ("throttling", gpu(power_limit_mw=336_000, power_default_mw=320_000), {}, "pass", "idle"),
    ("throttling", gpu(power_limit_mw=NOT_SUPPORTED, power_default_mw=350_000), {}, "pass", "idle"),
    (
        "throttling",
        two(good.GOOD, {}, {"power_limit_mw": 60_000, "power_default_mw": 70_000, "event_reasons": 0x8}),
        {},
        "fail",
        "60 of 70 W",
    ),
    ("throttling", gpu(event_reasons=0x8), {}, "fail", "hardware slowdown"),
    ("throttling", gpu(event_reasons=0x48), {}, "fail", "hardware thermal slowdown"),
    ("throttling", gpu(event_reasons=0x80), {}, "fail", "power brake"),
    ("throttling", gpu(event_reasons=0x20), {}, "warn", "software thermal slowdown"),
    ("throttling", gpu(hw_thermal=12), {}, "warn", "too hot before"),
    ("throttling", gpu(hw_thermal=NOT_SUPPORTED, hw_power_brake=NOT_SUPPORTED), {}, "pass", "idle"),
    ("throttling", gpu(event_reasons=NOT_SUPPORTED), {}, "not-applicable", "does not report"),
    ("throttling", gpu(event_reasons={"unknown": "not read"}), {}, "unknown", "not read"),
    ("gpu-health", gpu(ecc_pending=0), {}, "warn", "=GPU 0: ECC is on and will be off after a reboot"),
    ("gpu-health", gpu(retired_double=62), {}, "warn", "0 + 62 pages"),
    ("gpu-health", gpu(retired_single=62, retired_double=1), {}, "fail", "62 + 1 pages"),
    ("gpu-health", {**AMPERE, **gpu(remapped_uncorrectable=511)}, {}, "pass", "511 + 1 rows remapped"),
    ("gpu-health", {**AMPERE, **gpu(remapped_failure=NOT_SUPPORTED)}, {}, "pass", "no row remapping"),
    ("gpu-health", gpu(retired_pending=NOT_SUPPORTED), {}, "pass", "no page retirement"),
    ("gpu-health", gpu(capability=7), {}, "unknown", "which can be no compute capability"),
    *[
        ("gpu-health", gpu(recovery_action=number), {}, "fail", f"=GPU 0: the driver asks for a recovery: {words}")
        for number, words in RECOVERIES.items()
    ],
    ("throttling", two(good.GOOD, {"event_reasons": NOT_SUPPORTED}, {"event_reasons": 0x40}), {}, "fail", "GPU 1: hardware thermal"),
    ("throttling", two(good.GOOD, {"event_reasons": NOT_SUPPORTED}, {}), {}, "unknown", "GPU 0: Not Supported"),
    *[("throttling", gpu(event_reasons=bit), {}, outcome, f"=GPU 0: {words}") for bit, (outcome, words) in REASONS.items()],
    ("throttling", gpu(hw_power_brake=1), {}, "warn", "was without power before"),
    ("throttling", gpu(hw_thermal={"unknown": "GPU is lost"}), {}, "unknown", "GPU is lost"),
    ("gsp", {}, {}, "pass", "=open kernel modules, firmware on"),
    *[("gsp", xid(code), {}, "fail", f"XID {code}: the GSP did not answer") for code in (119, 120)],
    ("gsp", xid(118), {}, "pass", "firmware on"),
    ("gsp", {"gsp__modules": "proprietary", **gpu(gsp=0)}, {}, "pass", "=proprietary kernel modules, firmware off"),
    ("gsp", {"gsp__on_disk": "0"}, {}, "fail", "NVreg_EnableGpuFirmware=0 is set for the next load"),
    ("gsp", {"gsp__on_disk": "0", "gsp__modules": "proprietary", **gpu(gsp=0)}, {}, "pass", "firmware off"),
    ("gsp", {}, {"stack__driver_flavour": "proprietary"}, "fail", "the profile asks for the proprietary ones"),
    ("gsp", {}, {"stack__driver_flavour": "open"}, "pass", "open kernel modules"),
    # Of an image that has its driver, only what it claims counts.
    ("gsp", {}, OWN, "fail", "the profile asks for the proprietary ones"),
    ("gsp", {"gsp__modules": "proprietary"}, OWN, "pass", "proprietary kernel modules"),
    ("gsp", {"gsp__modules": "proprietary"}, image_has(driver="580"), "pass", "proprietary kernel modules"),
    ("gsp", {"gsp__modules": None}, {}, "unknown", "no kernel modules"),
    # Modules of the wrong kind may be why NVML has no GPU.
    ("gsp", {"nvml__devices": []}, {"stack__driver_flavour": "proprietary"}, "fail", "open kernel modules, firmware not told; the profile"),
    ("gsp", {"nvml__devices": []}, {"stack__driver_flavour": "open"}, "unknown", "NVML lists no device"),
    ("gsp", {"nvml": {"unknown": "x"}}, {"stack__driver_flavour": "open"}, "unknown", "=not observed: x"),
    ("gsp", gpu(gsp=NOT_SUPPORTED), {}, "pass", "firmware not told"),
    ("gsp", gpu(gsp={"unknown": "GPU is lost"}), {}, "unknown", "GPU is lost"),
    ("gsp", gpu(gsp=2), {}, "unknown", "no state of the GSP's firmware"),
    ("gsp", {"xids__complete": False}, {}, "unknown", "the beginning of journalctl -k is lost"),
    ("xid", xid(48, count=2), {}, "fail", "XID 48 on GPU 0 (0000:00:1e), 2 times: NVRM"),
    ("xid", {**xid(79), **two(good.GOOD, lost("pci"), {})}, {}, "fail", "XID 79 on GPU 1 (0000:00:1e)"),
    ("xid", xid(31), {}, "warn", "=journalctl -k: XID 31 on GPU 0 (0000:00:1e)"),
    ("xid", xid(79, pci="0000:00:1f"), {}, "fail", "XID 79 on 0000:00:1f: NVRM: Xid (PCI:0000:00:1f): 79"),
    ("xid", {**xid(31), "xids__complete": False}, {}, "warn", "XID 31"),
    ("xid", switch(20034), {}, "fail", "SXID 20034 on an NVSwitch (0000:c1:00.0): nvidia-nvswitch3: SXid"),
    ("xid", switch(20034, "Non-fatal"), {}, "warn", "SXID 20034"),
    ("xid", switch(99999), {}, "fail", "SXID 99999"),
    # A corrected error is none whatever its line says, and one that always stops the fabric is one.
    *[("xid", switch(code, word), {}, "pass", f"SXID {code}") for code in (11012, 20001, 24003) for word in ("Fatal", "Non-fatal")],
    *[("xid", switch(code, word), {}, "fail", f"SXID {code}") for code in (10003, 23001, 23017) for word in ("Fatal", "Non-fatal")],
    *[("xid", nonfatal(code), {}, "warn", f"XID {code} (nonfatal) on GPU 0") for code in range(144, 151)],
    # The word counts where NVLink 5 says it, and nowhere else.
    *[("xid", nonfatal(code), {}, "fail", f"XID {code} (nonfatal) on GPU 0") for code in (79, 143, 151)],
    *[("xid", xid(code), {}, "pass", f"=journalctl -k: XID {code} on GPU 0 (0000:00:1e)") for code in IGNORED],
    *[("xid", xid(code), {}, "warn", f"=journalctl -k: XID {code} on GPU 0 (0000:00:1e)") for code in SOFT],
    *[("xid", xid(code), {}, "fail", f"XID {code} on GPU 0") for code in range(1, 170) if code not in {*IGNORED, *SOFT}],
]
GSP = "no timeout of the GPU's system processor (GSP), and its firmware as the driver's option says"
TEXTS: list[Text] = [
    ("gsp", xid(119), {}, GSP, "may run without it under the proprietary modules"),
    ("gsp", {**xid(119), "gsp__modules": "proprietary"}, {}, GSP, "; the driver runs without it (NVreg"),
    ("gsp", {}, {"stack__driver_flavour": "proprietary"}, GSP, "--role nvidia_driver"),
    ("gsp", {}, OWN, GSP, "name an image"),
    ("gsp", {"gsp__on_disk": "0", "gsp__modules": "proprietary"}, {}, GSP, "reboot, or unload the driver"),
    ("gpu-health", gpu(uncorrected=1), {}, WELL, "drain the host and reset the GPU or reboot"),
    ("gpu-health", gpu(ecc=0, ecc_pending=0), {}, WELL, "`sudo nvidia-smi -i 0 -e 1` and a reboot switch ECC on"),
    ("gpu-health", two(good.GOOD, {}, {"ecc_pending": 0}), {}, WELL, "`sudo nvidia-smi -i 1 -e 1`"),
    ("gpu-health", gpu(uncorrected_ever=1), {}, WELL, "look again after a day"),
    (
        "xid",
        xid(79),
        {},
        "no XID in the kernel log since the boot",
        "drain the host; XID 79 (the GPU has fallen off the bus): `sudo reboot`",
    ),
    (
        "xid",
        {"xids__events": xid(31)["xids__events"] + xid(48)["xids__events"]},
        {},
        "no XID in the kernel log since the boot",
        "drain the host; XID 48 (an",
    ),
    ("xid", switch(20034), {}, "no XID in the kernel log since the boot", "drain the host; reboot: all GPUs and NVSwitches"),
    ("xid", {**switch(20034), **xid(31)}, {}, "no XID in the kernel log since the boot", "drain the host; reboot: all GPUs and NVSwitches"),
    ("xid", switch(22013 + 1, "Non-fatal"), {}, "no XID in the kernel log since the boot", "look again after a day"),
    (
        "xid",
        xid(31),
        {},
        "no XID in the kernel log since the boot",
        "XID 31 (a page fault: a kernel touched memory that is not its own): run the program again",
    ),
    ("xid", {"xids__complete": False}, {}, "no XID in the kernel log since the boot", "/var/log/kern.log"),
    ("xid", {"xids": {"unknown": "x"}}, {}, "the driver has not complained since the boot", "adm or systemd-journal"),
    (
        "gsp",
        xid(119),
        {},
        "no timeout of the GPU's system processor (GSP), and its firmware as the driver's option says",
        "stack.driver_flavour",
    ),
    (
        "gsp",
        {"gsp__on_disk": "0"},
        {},
        "no timeout of the GPU's system processor (GSP), and its firmware as the driver's option says",
        "cannot do",
    ),
    ("throttling", gpu(event_reasons=0x8), {}, "neither the hardware nor heat holds the clocks down", "nvidia-smi -q -d"),
    ("throttling", gpu(event_reasons=0x20), {}, "neither the hardware nor heat holds the clocks down", "see temperature and air flow"),
    (
        "throttling",
        gpu(power_limit_mw=200_000, power_default_mw=350_000),
        {},
        "neither the hardware nor heat holds the clocks down",
        "`sudo nvidia-smi -i 0 -pl 350` sets its own limit",
    ),
]

test_table = table(CASES)
test_texts = texts(TEXTS)
