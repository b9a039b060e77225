"""What the codes of the driver and of CUDA mean: what holds clocks down, errors of NVML and CUDA, XIDs and SXIDs."""

import re
from collections.abc import Iterable
from typing import Final, Literal

# nvmlClocksEventReason*: what the bits mean, and how bad it is.
HARDWARE: Final = {0x8: "hardware slowdown", 0x40: "hardware thermal slowdown", 0x80: "power brake"}
THERMAL: Final = {0x20: "software thermal slowdown"}
# A healthy T4 or L4 runs at its power cap.
ORDINARY: Final = {0x1: "idle", 0x2: "clock setting", 0x4: "power cap", 0x10: "sync boost", 0x100: "display clocks"}

# cudaError_t: what CUDA, and the frameworks that ask it, print of the errors of a whole GPU or host.
_CUDA: Final = {
    35: r"cudaErrorInsufficientDriver|Error 35:|driver on your system is too old",
    46: r"cudaErrorDevicesUnavailable|CUDA_ERROR_DEVICE_UNAVAILABLE|Error 46:|busy or unavailable",
    100: r"cudaErrorNoDevice|CUDA_ERROR_NO_DEVICE|Error 100:|Found no NVIDIA driver",
    802: r"cudaErrorSystemNotReady|CUDA_ERROR_SYSTEM_NOT_READY|Error 802:",
    803: r"cudaErrorSystemDriverMismatch|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH|Error 803:",
    804: r"cudaErrorCompatNotSupportedOnDevice|CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE|Error 804:",
    999: r"cudaErrorUnknown|CUDA_ERROR_UNKNOWN|Error 999:|CUDA unknown error",
}


def cuda_error(text: str) -> int | None:
    """The code of CUDA's error in what a program printed; None where it is none of those that have advice of their own."""
    return next((code for code, words in _CUDA.items() if re.search(words, text)), None)


_LIBCUDA: Final = "`ldconfig -p | grep libcuda.so` and LD_LIBRARY_PATH show which libcuda is loaded"
# What to do about an error of CUDA's that is of the whole GPU or host.
_CUDA_HINTS: Final = {
    35: "the driver is older than this CUDA needs: a newer one in stack.driver, or an older stack.cuda",
    46: "another program holds the GPU, or its compute mode is exclusive, which `sudo nvidia-smi -c DEFAULT` ends: see `nvidia-smi`",
    100: "CUDA sees no GPU: see CUDA_VISIBLE_DEVICES, and the checks gpu and device-nodes",
    802: "the NVSwitch fabric is not up: see the checks fabric and fabric-on-disk",
    803: f"libcuda is of another version than the loaded module: see the check driver; {_LIBCUDA}",
    804: f"a libcuda of CUDA's folder compat comes before the driver's own, and this GPU does not take it: {_LIBCUDA}",
    999: "`nvidia-modprobe -u -c 0` as root, after a suspend `modprobe -r nvidia_uvm; modprobe nvidia_uvm`; where neither helps, reboot",
}


def cuda_hint(text: str, otherwise: str) -> str:
    """What to do about CUDA's error in what a program printed."""
    return _CUDA_HINTS.get(cuda_error(text) or 0, otherwise)


# nvmlReturn_t: the answers for one device that say that it is not there for programs.
LOST: Final = {
    8: "its power cables are not attached",
    11: "the kernel has a problem with its interrupts",
    15: "it has fallen off the bus",
    16: "it requires a reset before it can be used again",
    999: "the driver does not reach it",
}

# nvmlReturn_t as well, with which nvidia-smi ends: no library of the driver, and one of another version than the loaded module.
NO_LIBRARY: Final = 12
MISMATCH: Final = 18

# NVIDIA's catalogue of XIDs, docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, by its immediate action, from the table that
# gpud generated of it on 2025-10-29. The 61 codes of it without a meaning are left out, as are those that it does not have. 48, 74, 144 to
# 150 and 159 have a workflow there, of which this is the first step; 162 to 172 have no action there, and ours follows from the meaning.
Action = Literal["nothing", "look later", "restart program", "update driver", "reset", "reboot", "replace"]
_XIDS: Final[dict[Action, dict[int, str]]] = {
    "nothing": {63: "a row or page of its memory was replaced, see gpu-health", 106: "a test message", 107: "a silent test message"},
    # IGNORE at once. 45 cleans up after another one, 154 announces what `gpu-health` reads, 162 and 163 are no errors.
    "look later": {
        14: "no use is published", 37: "an error of the driver's firmware", 38: "the watchdog of the driver's firmware",
        43: "the GPU stopped the work of a program", 44: "a fault in a context switch", 45: "work was removed after another error",
        66: "an illegal access by the driver", 67: "an illegal access by the driver", 92: "many corrected errors of its memory",
        93: "the infoROM is written more often than it bears", 108: "no use is published", 121: "an error of the link to the CPU (C2C)",
        137: "an access over NVLink without the right to it", 141: "an error of CUDA's fast path", 152: "an error of the DLA's memory unit",
        153: "a time-out of the DLA", 154: "the driver asks for another recovery, see gpu-health",
        157: "a resource could not be retired", 160: "a channel was retired", 161: "a channel could not be retired",
        162: "power smoothing is on again", 163: "power smoothing is off",
    },
    # A program failed, or was hit by a failure; the GPU goes on.
    "restart program": {
        8: "the GPU stopped the work of a program", 11: "a corrupt stream of commands", 13: "an exception in a kernel",
        25: "an illegal stream of commands", 31: "a page fault: a kernel touched memory that is not its own",
        32: "a corrupt stream of commands", 60: "an exception of the video processor", 69: "an illegal command of a program",
        80: "corrupt data was sent to the GPU", 86: "an exception of the optical flow engine", 94: "an uncorrected memory error, contained",
        139: "an exception of the optical flow engine",
        **dict.fromkeys((39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)), "an exception of a copy engine"),
        **dict.fromkeys((68, 83, 84, 88, 89, 96, 97, 98), "an exception of a video decoder"),
        **dict.fromkeys((82, *range(99, 106)), "an exception of a JPEG decoder"),
    },
    "update driver": {78: "this driver cannot start the virtual GPU: it is of another release than the host's"},
    "reset": {
        46: "the GPU stopped", 48: "an uncorrected error of its memory", 62: "its power controller halted",
        64: "a bad row or page of its memory could not be replaced", 74: "an NVLink failed", 95: "a memory error, not contained",
        109: "a context switch did not end", 110: "a security fault", 119: "its system processor (GSP) did not answer",
        120: "its system processor (GSP) failed", 136: "an NVLink could not be trained", 140: "an uncorrected memory error",
        143: "the GPU could not be started", 155: "an NVLink was taken down", 156: "a bad resource waits for a reset",
        158: "the GPU did not answer in time", 167: "PCIe did not answer in time", 168: "errors in protected memory",
        169: "its security processor halted", 171: "an uncorrected error of its DRAM", 172: "an uncorrected error of its SRAM",
        **dict.fromkeys(range(144, 151), "an NVLink 5 failed"),
    },
    "reboot": {79: "the GPU has fallen off the bus", 151: "a key could not be changed"},
    "replace": {
        54: "its power cable is not connected", 142: "an exception of a video encoder", 159: "an error of the link to the CPU",
        164: "the parts that smooth its power are nearly worn", 165: "the parts that smooth its power are worn",
        166: "data came before its link was encrypted", 170: "an interrupt of its encrypted link",
    },
}  # fmt: skip
# The errors of NVSwitches, whose lines name themselves: NVIDIA's fabric manager user guide DU-09883-001_v1.3, appendix D, by gpud. Those of
# the first list stop the whole fabric, those of the second are corrected by the switch; of all others the line says whether they are fatal.
_SXIDS_ALWAYS_FATAL: Final = frozenset({10003, 12020, 22003, 22011, *range(23001, 23018)})
_SXIDS_HARMLESS: Final = frozenset(
    {11012, 11021, 11022, 11023, 12021, 12023, 15008, 15011, 19049, 19055, 19057, 19059, 19062, 19065, 19068, 19071}
    | {20001, 22013, 24001, 24002, 24003}
)
_ACTIONS: Final = {code: action for action, codes in _XIDS.items() for code in codes}
_SOFT: Final[frozenset[Action]] = frozenset({"look later", "restart program"})

# NVLink 5: the catalogue's severity is that of the line, Fatal or Nonfatal.
_NVLINK5: Final = frozenset(range(144, 151))
# From the mildest to the gravest: each is tried, and where the code comes again, the next one. A reset needs a GPU that nothing uses; a
# stop and a start move a virtual machine to other hardware.
_CHAIN: Final[dict[Action, str]] = {
    "nothing": "nothing: NVIDIA's catalog says that it can be ignored",
    "look later": "look again after a day: where it comes often, reset the GPU and tell the cloud",
    "restart program": "run the program again; where other programs get it too, reset the GPU (`sudo nvidia-smi --gpu-reset`), then reboot",
    "update driver": "install the driver of the release that the host has",
    "reset": "end what uses the GPU, then `sudo nvidia-smi --gpu-reset` or `sudo reboot`; where it comes again, replace the machine",
    "reboot": "`sudo reboot`; where it comes again, stop and start the machine, which moves it to other hardware, or replace it: "
    "`journalctl -k -b | grep NVRM` says what happened",
    "replace": "replace the machine (stop and start move it to other hardware), and tell the cloud this code",
}
RESET_ALL: Final = "reboot: all GPUs and NVSwitches have to be reset together; where it comes again, replace the machine"
"""What to do about a fatal error of an NVSwitch."""
_LOST_ACTIONS: Final[dict[int, Action]] = {8: "replace", 16: "reset"}
_RECOVERED: Final = "NVLink recovered by itself: see `nvidia-smi nvlink -e`, and again after a day whether its errors grow"
_WORST: Final[tuple[Action, ...]] = tuple(_CHAIN)


def action(xid: int, *, nonfatal: bool = False) -> Action:
    """What NVIDIA's catalog says to do at once about an XID; `nonfatal` is what its line says."""
    return "look later" if nonfatal and xid in _NVLINK5 else _ACTIONS.get(xid, "replace")


def meaning(xid: int) -> str:
    """What an XID says; a code without a published meaning says that."""
    return _XIDS[_ACTIONS[xid]][xid] if xid in _ACTIONS else "no meaning is published"


def gravity(xid: int, *, nonfatal: bool = False) -> Literal["hard", "soft", "ignored"]:
    """Whether an XID asks for a look at the GPU, at the program, or at nothing; `nonfatal` is what its line says."""
    todo = action(xid, nonfatal=nonfatal)
    return "ignored" if todo == "nothing" else "soft" if todo in _SOFT else "hard"


def switch_gravity(sxid: int, *, nonfatal: bool) -> Literal["hard", "soft", "ignored"]:
    """The same of an error of an NVSwitch."""
    if sxid in _SXIDS_HARMLESS:
        return "ignored"
    return "soft" if nonfatal and sxid not in _SXIDS_ALWAYS_FATAL else "hard"


def chain(xid: int) -> str:
    """What to do about an XID on a cloud machine, the mildest step first."""
    return _CHAIN[action(xid)]


def after_loss(*errors: int) -> str:
    """What to do about GPUs that NVML cannot reach, by its return codes; without one, they have fallen off the bus."""
    actions = [_LOST_ACTIONS.get(error, "reboot") for error in errors]
    return f"drain the host; {_CHAIN[max(actions, key=_WORST.index, default='reboot')]}"


def advice(events: Iterable[tuple[int, bool]]) -> str:
    """What the gravest of some XIDs means, and the chain of actions on a cloud machine; with each code whether its line says nonfatal."""
    code, mild = max(events, key=lambda event: _WORST.index(action(event[0], nonfatal=event[1])))
    return f"XID {code}: {_RECOVERED}" if mild and code in _NVLINK5 else f"XID {code} ({meaning(code)}): {_CHAIN[action(code)]}"
