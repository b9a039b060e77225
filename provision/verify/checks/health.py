"""Whether a GPU is well: memory errors and what the driver did about them, its errors in the kernel log, what holds its clocks down.

Limits and their sources: docs/sources/verification.md §2.5-2.7.
"""

import contextlib
from typing import Final

from provision.errors import counted
from provision.profile.model import Profile
from provision.verify.checks.base import (
    OF_THE_IMAGE,
    Check,
    Signs,
    Verdict,
    apply,
    ask,
    dotted,
    each_gpu,
    fails,
    lacks,
    not_applicable,
    passes,
    unknown,
    warns,
)
from provision.verify.codes import HARDWARE, ORDINARY, RESET_ALL, THERMAL, advice, gravity, switch_gravity
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.gpu import DeviceFacts, devices, require_gpu
from provision.verify.facts.health import GspFacts, XidsFacts

# Retired pages of Turing and older: DCGM fails from 63 on, Meta warns from 10. Rows remapped for uncorrectable errors: DCGM fails from 512.
_PAGES_FAIL: Final = 63
_PAGES_WARN: Final = 10
_ROWS_FAIL: Final = 512
# NVML_GPU_RECOVERY_ACTION_* of nvidia-ml-py 13.615.71.
_RECOVERY: Final = {
    1: "a reset of the GPU",
    2: "a reboot",
    3: "that peers are drained",
    4: "that work is drained, and a reset",
    5: "that the IMEX domain recovers",
    6: "a reset of the bus",
    7: "a reboot of the system",
}
# Readings of newer drivers: the value of a GPU that is well, and what any other value means.
_NEWER: Final = {
    "recovery_action": (0, "the driver asks for a recovery"),
    "inforom": (1, "its infoROM is corrupt"),
    "sram_threshold": (0, "too many errors in its SRAM"),
    "unrepairable": (0, "memory that cannot be repaired"),
}

# A call to the GSP timed out, and an error of the GSP itself.
_GSP_LOST: Final = frozenset({119, 120})
_GSP_STATES: Final = {"0": "off", "1": "on"}


def _health(facts: Facts, profile: Profile) -> Verdict:
    off = [str(index) for index, device in devices(facts).items() if 0 in {device.ecc.value, device.ecc_pending.value}]
    on = f"`sudo nvidia-smi -i {','.join(off)} -e 1` and a reboot switch ECC on; cards for workstations come with it off"
    return each_gpu(
        facts,
        profile,
        "no uncorrected memory error, nothing retired that waits or failed, and no recovery asked for",
        _device,
        fail="drain the host and reset the GPU or reboot; if it comes back, have the GPU replaced",
        warn=on if off else "look again after a day: a count that grows means that the GPU is failing",
    )


def _device(device: DeviceFacts) -> Signs:
    if device.lost:
        return Signs(bad=[device.lost])
    signs = _memory(device)
    signs.add(_newer(device))
    return signs


def _memory(device: DeviceFacts) -> Signs:
    """The state of a GPU's memory."""
    if device.ecc.unsupported:
        return Signs(sound=["its memory has no ECC"])
    ecc, pending = device.ecc.count(), device.ecc_pending.count()
    signs = Signs()
    if ecc != pending:
        signs.doubtful.append(f"ECC is {'on' if ecc else 'off'} and will be {'on' if pending else 'off'} after a reboot")
    if not ecc:
        signs.doubtful.extend([] if ecc != pending else ["ECC is off"])
        signs.sound.append("ECC off")
        return signs
    now, ever = device.uncorrected.count(), device.uncorrected_ever.count()
    if now:
        signs.bad.append(f"{_errors(now)} since the driver was loaded")
    elif ever:
        signs.doubtful.append(f"{_errors(ever)} in its life, none since the driver was loaded")
    capability = device.capability.answer()
    if not isinstance(capability, str):
        msg = f"NVML read {capability!r}, which can be no compute capability"
        raise NotObservedError(msg)
    signs.sound.append("ECC on, no uncorrected error")
    signs.add(_rows(device) if dotted(capability) >= (8, 0) else _pages(device))
    return signs


def _errors(count: int) -> str:
    return counted(count, "uncorrected ECC error")


def _rows(device: DeviceFacts) -> Signs:
    """Row remapping, of Ampere and later. Asked only of memory with ECC: an RTX 4090 answers too, and remaps nothing (gpud)."""
    if device.remapped_failure.unsupported:
        return Signs(sound=["no row remapping"])
    rows = device.remapped_uncorrectable.count()
    bad = []
    if device.remapped_failure.count():
        bad.append("a row could not be remapped")
    if device.remapped_pending.count():
        bad.append("a remapped row waits for a reset")
    if rows >= _ROWS_FAIL:
        bad.append(f"{rows} rows remapped for uncorrectable errors")
    return Signs(bad, sound=[f"{rows} + {device.remapped_correctable.count()} rows remapped"])


def _pages(device: DeviceFacts) -> Signs:
    """Page retirement, of Turing and older, by cause: repeated single-bit errors, or one double-bit error."""
    if device.retired_pending.unsupported:
        return Signs(sound=["no page retirement"])
    single, double = device.retired_single.count(), device.retired_double.count()
    words = f"{single} + {double} pages retired for single + double bit errors"
    signs = Signs(sound=[words])
    if device.retired_pending.count():
        signs.bad.append("a page waits for a reboot to be retired")
    if single + double >= _PAGES_FAIL:
        signs.bad.append(words)
    elif single + double >= _PAGES_WARN:
        signs.doubtful.append(words)
    return signs


def _newer(device: DeviceFacts) -> Signs:
    """The readings of newer drivers; one is left out, and named, only if NVML says that this GPU or driver does not have it."""
    signs, absent = Signs(), []
    for name, (well, words) in _NEWER.items():
        reading = getattr(device, name)
        if reading.unsupported:
            absent.append(words)
        elif (answer := reading.count()) != well:
            signs.bad.append(f"{words}: {_RECOVERY.get(answer, answer)}" if name == "recovery_action" else words)
    if absent:
        signs.sound.append(f"not told by this GPU or driver: whether {' or '.join(absent)}")
    return signs


def _xid(facts: Facts, _profile: Profile) -> Verdict:
    expected = "no XID in the kernel log since the boot"
    require_gpu(facts)
    log = facts.read(XidsFacts)
    indices = _indices(facts)
    told = [(event.code, event.nonfatal) for event in log.events]
    words: dict[str, list[str]] = {"hard": [], "soft": [], "ignored": []}
    for event in log.events:
        gpu = next((f"GPU {index} ({event.pci})" for pci, index in indices.items() if event.pci and event.pci in pci), event.pci or "a GPU")
        times = f", {event.count} times" if event.count > 1 else ""
        grave = gravity(event.code, nonfatal=event.nonfatal)
        words[grave].append(
            f"XID {event.code}{' (nonfatal)' if event.nonfatal else ''} on {gpu}{times}" + (f": {event.last}" if grave == "hard" else "")
        )
    for event in log.switches:
        times = f", {event.count} times" if event.count > 1 else ""
        grave = switch_gravity(event.code, nonfatal=event.nonfatal)
        words[grave].append(f"SXID {event.code} on an NVSwitch ({event.pci}){times}: {event.last}")
    observed = f"{log.source}: " + ("; ".join(words["hard"] + words["soft"] + words["ignored"]) or "none")
    if words["hard"]:
        return fails(expected, observed, f"drain the host; {advice(told) if _is_hard(told) else RESET_ALL}")
    if words["soft"]:
        return warns(expected, observed, advice(told) if told else "look again after a day: where it comes often, report it to the cloud")
    if not log.complete:
        hint = "look into /var/log/kern.log, or again after the next boot"
        return unknown(expected, f"{observed}, and the log's beginning is lost", hint)
    return passes(expected, observed)


def _is_hard(told: list[tuple[int, bool]]) -> bool:
    return any(gravity(code, nonfatal=nonfatal) == "hard" for code, nonfatal in told)


def _indices(facts: Facts) -> dict[str, int]:
    """Bus address → index of the GPU, as far as NVML says; a GPU that fell off the bus is no longer there."""
    try:
        return {str(device.pci.answer()): index for index, device in devices(facts).items() if device.pci.value is not None}
    except NotObservedError:
        return {}


def _gsp(facts: Facts, profile: Profile) -> Verdict:
    """The GPU's system processor (GSP) runs most of the driver, always with the open modules. A GPU whose GSP hangs is lost."""
    expected = "no timeout of the GPU's system processor (GSP), and its firmware as the driver's option says"
    require_gpu(facts)
    seen, log, gpus = facts.read(GspFacts), facts.read(XidsFacts), dict[int, DeviceFacts]()
    with contextlib.suppress(NotObservedError):  # without one, the modules may be why
        gpus = devices(facts)
    has = profile.image_has
    asked = (has.driver_flavour if has else None) or profile.stack.driver_flavour
    lost = sorted({event.code for event in log.events if event.code in _GSP_LOST})
    states = ["not told" if gpu.gsp.value is None else _GSP_STATES.get(str(gpu.gsp.value), "?") for gpu in gpus.values()]
    observed = f"{seen.modules or 'no'} kernel modules, firmware {', '.join(dict.fromkeys(states)) or 'not told'}"
    if lost:
        cure = "runs without it" if seen.modules == "proprietary" else "may run without it under the proprietary modules"
        hint = f"reboot; the driver {cure} (NVreg_EnableGpuFirmware=0): stack.driver_flavour of the profile"
        return fails(expected, f"{observed}; XID {', '.join(map(str, lost))}: the GSP did not answer", hint)
    if asked != "auto" and seen.modules is not None and seen.modules != asked:
        hint = apply("nvidia_driver", "installs them") if profile.image_has is None else OF_THE_IMAGE
        return fails(expected, f"{observed}; the profile asks for the {asked} ones", hint)
    if seen.on_disk == "0" and 1 in [gpu.gsp.value for gpu in gpus.values()]:
        hint = "the open modules cannot do without it" if seen.modules == "open" else "reboot, or unload the driver and load it again"
        return fails(expected, f"{observed}; NVreg_EnableGpuFirmware=0 is set for the next load", hint)
    heard = ask(facts, profile, _gsp_state)
    if seen.modules is None:
        return unknown(expected, observed, "see /proc/driver/nvidia/version on the host")
    if not log.complete:
        return unknown(expected, f"{observed}, and the beginning of {log.source} is lost", "look again after the next boot")
    return heard.beside(passes(expected, observed))


def _gsp_state(gpu: DeviceFacts) -> None:
    if not gpu.gsp.unsupported and str(gpu.gsp.count()) not in _GSP_STATES:
        msg = f"NVML read {gpu.gsp.value!r}, which can be no state of the GSP's firmware"
        raise NotObservedError(msg)


def _throttling(facts: Facts, profile: Profile) -> Verdict:
    if lacks(facts, lambda device: device.event_reasons):
        return not_applicable("this GPU does not report what limits its clocks")
    return each_gpu(
        facts,
        profile,
        "neither the hardware nor heat holds the clocks down",
        _brakes,
        fail="see temperature, fans and power supply: `nvidia-smi -q -d TEMPERATURE,POWER`",
        warn=f"{_more_power(facts)}see temperature and air flow, and `gpuprov verify --tier perf` for what it costs",
    )


def _less_power(device: DeviceFacts) -> tuple[int, int] | None:
    """The power limit in force and the card's own, in W, where somebody has lowered it: `nvidia-smi -pl`, or the host's management."""
    limit, default = device.power_limit_mw.value, device.power_default_mw.value
    return (limit // 1000, default // 1000) if isinstance(limit, int) and isinstance(default, int) and limit < default else None


def _more_power(facts: Facts) -> str:
    lowered = [f"-i {index} -pl {watts[1]}" for index, device in devices(facts).items() if (watts := _less_power(device))]
    return f"`sudo nvidia-smi {lowered[0]}` sets its own limit, unless the host's management lowers it; " if lowered else ""


def _brakes(device: DeviceFacts) -> Signs:
    """What holds the clocks of a GPU down, and what its hardware has done since the driver was loaded; older drivers do not count that."""
    bits = device.event_reasons.count()
    before = {"too hot": device.hw_thermal, "without power": device.hw_power_brake}
    signs = Signs(*([name for bit, name in names.items() if bits & bit] for names in (HARDWARE, THERMAL, ORDINARY)))
    if watts := _less_power(device):
        signs.doubtful.append(f"its power limit is {watts[0]} of {watts[1]} W")
    for cause, reading in before.items():
        if not reading.unsupported and reading.count():
            signs.doubtful.append(f"was {cause} before: its hardware has slowed it down since the driver was loaded")
    return signs


CHECKS = (
    Check("gpu-health", "the GPU's memory is sound, and it asks for no recovery", _health, needs_gpu=True),
    Check(
        "xid",
        "the driver has not complained since the boot",
        _xid,
        needs_gpu=True,
        unknown_hint="look as root, or as a member of adm or systemd-journal: `journalctl -k -b | grep Xid`",
    ),
    Check("gsp", "the GPU's system processor answers", _gsp, needs_gpu=True),
    Check("throttling", "neither hardware nor heat holds the clocks down", _throttling, needs_gpu=True),
)
