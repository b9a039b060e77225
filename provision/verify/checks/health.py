"""Whether a GPU is well: memory errors and what the driver did about them, its complaints in the kernel log, what holds its clocks down.

Limits and their sources: docs/sources/verification.md §2.5-2.7.
"""

from __future__ import annotations

from typing import Final

from provision.profile.model import Profile
from provision.verify.checks.base import (
    Check,
    Verdict,
    devices,
    dotted,
    failed,
    not_asked,
    number,
    passed,
    require_gpu,
    unknown,
    unsupported,
    value,
    warned,
)
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.gpu import DeviceFacts
from provision.verify.facts.health import XidsFacts

__all__ = ["CHECKS"]

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

# NVIDIA's catalogue of XIDs, docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, by its immediate action, as gpud generated a
# table of it on 2025-10-29. What is in none of these sets, a code that is not in the catalogue included, wants a reset, a repair or
# support, and fails. The catalogue ignores 63 (a row or page was replaced: what is left of it, `gpu-health` judges) and the test messages.
_IGNORED: Final = frozenset({63, 106, 107})
# RESTART_APP: a program did wrong or was hit; the GPU goes on.
_APPLICATION: Final = frozenset(
    {8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, *range(82, 87), 88, 89, 94, *range(96, 106)}
    | {*range(126, 136), 139}
)
# IGNORE at once and look into later; 45 cleans up after another one, 154 announces what `gpu-health` reads, 162 and 163 are no errors.
_LOOK_LATER: Final = frozenset({14, 37, 38, 43, 44, 45, 66, 67, 92, 93, 108, 121, 137, 141, 152, 153, 154, 157, 160, 161, 162, 163})

# nvmlClocksEventReason*: what the bits mean, and how bad it is.
_HARDWARE: Final = {0x8: "hardware slowdown", 0x40: "hardware thermal slowdown", 0x80: "power brake"}
_THERMAL: Final = {0x20: "software thermal slowdown"}
# A T4 or L4 lives at its power cap: nothing is wrong with it.
_ORDINARY: Final = {0x1: "idle", 0x2: "clock setting", 0x4: "power cap", 0x10: "sync boost", 0x100: "display clocks"}


def _health(facts: Facts, _profile: Profile) -> Verdict:
    expected = "no uncorrected memory error, nothing retired that waits or failed, and no recovery asked for"
    bad: list[str] = []
    doubtful: list[str] = []
    seen: list[str] = []
    unread: list[str] = []
    for index, device in enumerate(devices(facts)):
        try:
            wrong, odd, read = (list(part) for part in zip(_memory(device), _rest(device), strict=True))
        except NotObservedError as reason:  # one GPU that does not answer hides no other that is broken
            unread.append(f"GPU {index}: {reason}")
            continue
        bad += [f"GPU {index}: {word}" for words in wrong for word in words]
        doubtful += [f"GPU {index}: {word}" for words in odd for word in words]
        seen += [f"GPU {index}: {word}" for words in read for word in words]
    if bad:
        hint = "drain the host and reset the GPU or reboot; if it comes back, have the GPU replaced"
        return failed(expected, "; ".join(bad + doubtful + unread), hint)
    if unread:
        raise NotObservedError("; ".join(unread))
    if doubtful:
        return warned(expected, "; ".join(doubtful), "look again after a day: a count that grows is a GPU that fails")
    return passed(expected, "; ".join(seen))


def _memory(device: DeviceFacts) -> tuple[list[str], list[str], list[str]]:
    """What is wrong with a GPU's memory, what is doubtful, and what was read."""
    if unsupported(device.ecc):
        return [], [], ["its memory has no ECC"]
    ecc, pending = number(device.ecc), number(device.ecc_pending)
    bad: list[str] = []
    doubtful: list[str] = []
    if ecc != pending:
        doubtful.append(f"ECC is {'on' if ecc else 'off'} and will be {'on' if pending else 'off'} after a reboot")
    if not ecc:
        doubtful += [] if ecc != pending else ["ECC is off"]
        return bad, doubtful, ["ECC off"]
    now, ever = number(device.uncorrected), number(device.uncorrected_ever)
    if now:
        bad.append(f"{now} uncorrected ECC errors since the driver was loaded")
    elif ever:
        doubtful.append(f"{ever} uncorrected ECC errors in its life, none since the driver was loaded")
    capability = value(device.capability)
    if not isinstance(capability, str):
        msg = f"NVML read {capability!r}, which can be no compute capability"
        raise NotObservedError(msg)
    replaced = _rows if dotted(capability) >= (8, 0) else _pages
    wrong, odd, read = replaced(device)
    return bad + wrong, doubtful + odd, ["ECC on, no uncorrected error", *read]


def _rows(device: DeviceFacts) -> tuple[list[str], list[str], list[str]]:
    """Row remapping, of Ampere and later. An RTX 4090 answers too: what has ECC decides, not who answers (gpud)."""
    if unsupported(device.remapped_failure):
        return [], [], ["no row remapping"]
    rows, bad = number(device.remapped_uncorrectable), []
    if number(device.remapped_failure):
        bad.append("a row could not be remapped")
    if number(device.remapped_pending):
        bad.append("a remapped row waits for a reset")
    if rows >= _ROWS_FAIL:
        bad.append(f"{rows} rows remapped for uncorrectable errors")
    return bad, [], [f"{rows} + {number(device.remapped_correctable)} rows remapped"]


def _pages(device: DeviceFacts) -> tuple[list[str], list[str], list[str]]:
    """Page retirement, of Turing and older, by cause: repeated single-bit errors, or one double-bit error."""
    if unsupported(device.retired_pending):
        return [], [], ["no page retirement"]
    single, double = number(device.retired_single), number(device.retired_double)
    words, bad, doubtful = f"{single} + {double} pages retired for single + double bit errors", [], []
    if number(device.retired_pending):
        bad.append("a page waits for a reboot to be retired")
    if single + double >= _PAGES_FAIL:
        bad.append(words)
    elif single + double >= _PAGES_WARN:
        doubtful.append(words)
    return bad, doubtful, [words]


def _rest(device: DeviceFacts) -> tuple[list[str], list[str], list[str]]:
    """What newer drivers say beside: each is left out, and named, only where NVML says that this GPU or driver has no such thing."""
    asked = {
        "the driver asks for a recovery": device.recovery_action,
        "its infoROM is corrupt": device.inforom,
        "too many errors in its SRAM": device.sram_threshold,
        "memory that cannot be repaired": device.unrepairable,
    }
    told = {words: number(reading) for words, reading in asked.items() if not unsupported(reading)}
    well = {"its infoROM is corrupt": 1}
    bad = [words for words, found in told.items() if found != well.get(words, 0)]
    action = told.get("the driver asks for a recovery", 0)
    bad = [f"{words}: {_RECOVERY.get(action, action)}" if "recovery" in words else words for words in bad]
    untold = [words for words in asked if words not in told]
    return bad, [], [f"not told by this GPU or driver: whether {' or '.join(untold)}"] if untold else []


def _xid(facts: Facts, _profile: Profile) -> Verdict:
    expected = "no XID in the kernel log since the boot"
    require_gpu(facts)
    found = facts.read(XidsFacts)
    where = _indices(facts)
    hard: list[str] = []
    soft: list[str] = []
    ignored: list[str] = []
    for event in found.events:
        gpu = next((f"GPU {index} ({event.pci})" for pci, index in where.items() if event.pci and event.pci in pci), event.pci or "a GPU")
        words = f"XID {event.code} on {gpu}, {event.count} times" if event.count > 1 else f"XID {event.code} on {gpu}"
        known = ignored if event.code in _IGNORED else soft if event.code in _APPLICATION | _LOOK_LATER else hard
        known.append(f"{words}: {event.last}" if known is hard else words)
    observed = f"{found.source}: " + ("; ".join(hard + soft + ignored) or "none")
    if hard:
        return failed(expected, observed, "drain the host; NVIDIA's XID catalogue says whether to reset, reboot or replace")
    if soft:
        return warned(expected, observed, "a program did wrong or was hit; look whether it comes again with another one")
    if not found.complete:
        return unknown(
            expected, f"{observed}, and the log's beginning is lost", "look into /var/log/kern.log, or again after the next boot"
        )
    return passed(expected, observed)


def _indices(facts: Facts) -> dict[str, int]:
    """Bus address → index of the GPU, as far as NVML says; a GPU that fell off the bus is no longer there."""
    try:
        return {str(value(device.pci)): index for index, device in enumerate(devices(facts)) if device.pci.value is not None}
    except NotObservedError:
        return {}


def _throttling(facts: Facts, _profile: Profile) -> Verdict:
    expected = "nothing of the hardware or the heat holds the clocks down"
    found = devices(facts)
    if all(unsupported(device.event_reasons) for device in found):
        return not_asked("this GPU does not tell what holds its clocks down")
    hard: list[str] = []
    soft: list[str] = []
    seen: list[str] = []
    unread: list[str] = []
    for index, device in enumerate(found):
        try:
            bits, before = number(device.event_reasons), _before(device)
        except NotObservedError as reason:
            unread.append(f"GPU {index}: {reason}")
            continue
        for known, said in ((_HARDWARE, hard), (_THERMAL, soft), (_ORDINARY, seen)):
            said += [f"GPU {index}: {name}" for bit, name in known.items() if bits & bit]
        soft += [f"GPU {index} was {name} before: its hardware has slowed it down since the driver was loaded" for name in before]
    if hard:
        hint = "see temperature, fans and power supply: `nvidia-smi -q -d TEMPERATURE,POWER`"
        return failed(expected, "; ".join(hard + soft + unread), hint)
    if unread:
        raise NotObservedError("; ".join(unread))
    if soft:
        return warned(expected, "; ".join(soft), "see temperature and air flow, and `gpuprov verify --tier perf` for what it costs")
    return passed(expected, "; ".join(seen) or "nothing")


def _before(device: DeviceFacts) -> list[str]:
    """For what the hardware has slowed a GPU down since the driver was loaded; older drivers do not count it."""
    counted = {"too hot": device.hw_thermal, "without power": device.hw_power_brake}
    return [name for name, reading in counted.items() if not unsupported(reading) and number(reading)]


CHECKS = (
    Check("gpu-health", "the GPU's memory is sound, and it asks for no recovery", _health, needs_gpu=True),
    Check(
        "xid",
        "the driver has not complained since the boot",
        _xid,
        needs_gpu=True,
        unknown_hint="look as root, or as a member of adm or systemd-journal: `journalctl -k -b | grep Xid`",
    ),
    Check("throttling", "neither hardware nor heat holds the clocks down", _throttling, needs_gpu=True),
)
