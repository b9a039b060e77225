"""How GPUs are connected: device nodes, the bus, NVLink, the fabric.

Minimums and their sources: docs/sources/verification.md §2.2 and §2.8.
"""

from __future__ import annotations

from typing import Final

from provision.profile.model import Profile
from provision.verify.checks.base import (
    Check,
    Verdict,
    devices,
    failed,
    not_asked,
    number,
    passed,
    require_gpu,
    unknown,
    unsupported,
    warned,
)
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.gpu import DeviceFacts, NvmlFacts
from provision.verify.facts.links import FabricFacts

__all__ = ["CHECKS"]

# DCGM 4.6.0, nvvs/diag-skus.yaml.in: (generation, width) that a card must have; all others as the last line.
_PCIE: Final = {"t4": (3, 8), "a10g": (3, 8), "l40s": (4, 8)}
_PCIE_OTHERS: Final = (3, 16)
_READ_WRITE_OTHERS: Final = 0o006
_VIRTUAL: Final = {1, 2}  # passed through, or a vGPU: the link that the guest sees is the hypervisor's
_FABRIC: Final = {1: "not started", 2: "in progress"}
_FABRIC_DONE: Final = 3


def _nodes(facts: Facts, _profile: Profile) -> Verdict:
    expected = "device nodes that every user may open, one for each GPU, and no nouveau"
    found = require_gpu(facts)
    if found.modes is None:
        msg = "the probe sent no modes of the device nodes"
        raise NotObservedError(msg)
    if found.nouveau:
        return failed(expected, "nouveau is loaded", "blacklist nouveau and reboot; the driver's package does it")
    gpus = len(facts.read(NvmlFacts).devices)
    if len(found.nodes) < gpus or gpus == 0:
        return failed(expected, f"{len(found.nodes)} nodes for the {gpus} GPUs of NVML", "run `nvidia-modprobe -u -c 0` as root")
    missing = [path for path in ("/dev/nvidiactl", *found.nodes) if path not in found.modes]
    if missing:
        return failed(expected, f"missing: {', '.join(missing)}", "run `nvidia-modprobe -u -c 0` as root")
    # What root may open proves nothing for others: the mode does.
    needed = [*found.nodes, "/dev/nvidiactl", "/dev/nvidia-uvm"]
    closed = [
        f"{path} {found.modes[path]:04o}" for path in needed if found.modes.get(path, 0o666) & _READ_WRITE_OTHERS != _READ_WRITE_OTHERS
    ]
    if closed:
        hint = "see NVreg_DeviceFileMode and NVreg_DeviceFileGID in /etc/modprobe.d, or the rules of udev"
        return failed(expected, f"closed to others: {', '.join(closed)}", hint)
    if "/dev/nvidia-uvm" not in found.modes:
        return warned(expected, "no /dev/nvidia-uvm: nothing has used CUDA since the boot", "run `nvidia-modprobe -u -c 0` at boot")
    return passed(expected, f"{len(found.nodes)} GPU(s), control and memory open to all")


def _pcie(facts: Facts, profile: Profile) -> Verdict:
    generation, width = _PCIE.get(profile.gpu.model, _PCIE_OTHERS)
    expected = f"PCIe generation {generation} or later, {width} lanes or more"
    bad, doubtful, seen, unread = [], [], [], []
    virtual = False
    for index, device in enumerate(devices(facts)):
        try:
            now, most = number(device.pcie_generation), number(device.pcie_generation_max)
            lanes, most_lanes = number(device.pcie_width), number(device.pcie_width_max)
        except NotObservedError as reason:
            unread.append(f"GPU {index}: {reason}")
            continue
        # The generation of now is shown and not judged: an idle GPU lowers it, and raises it within milliseconds of load.
        words = f"GPU {index}: generation {now} of {most}, {lanes} of {most_lanes} lanes"
        seen.append(words)
        virtual = virtual or device.virtualization.value in _VIRTUAL
        if most < generation or lanes < width:
            bad.append(words)
        elif lanes < most_lanes:
            doubtful.append(words)
    note = "; in a virtual machine the link can be made up: the copies of `--tier perf` decide" if virtual else ""
    if bad:
        return failed(
            expected, "; ".join(bad + unread) + note, "another slot, riser or machine: the card cannot get its data through this link"
        )
    if unread:
        raise NotObservedError("; ".join(unread) + note)
    if doubtful:
        return warned(expected, "; ".join(doubtful) + note, "reseat the card, or take another slot: lanes are missing")
    return passed(expected, "; ".join(seen) + note)


def _nvlink(facts: Facts, _profile: Profile) -> Verdict:
    expected = "every GPU with as many NVLinks up as its siblings, and none without"
    found = devices(facts)
    if all(unsupported(device.links) for device in found):
        return not_asked("this GPU has no NVLink")
    if len(found) == 1:
        return not_asked("one GPU: there is nothing that it could be linked with")
    up = [(number(device.links_up), number(device.links)) for device in found]
    observed = ", ".join(f"GPU {index}: {active} of {links}" for index, (active, links) in enumerate(up))
    # Not all links need be used: on some boards 12 of 18 are, by design (azurehpc-health-checks, issue 162). Siblings decide.
    if len(set(up)) > 1 or not up[0][0]:
        hint = "see `nvidia-smi nvlink -s` and the kernel log for XID 74; on an NVSwitch system the fabric manager brings links up"
        return failed(expected, observed, hint)
    return passed(expected, observed)


def _fabric(facts: Facts, _profile: Profile) -> Verdict:
    expected = "the fabric manager is active, and every GPU has joined the fabric"
    found = devices(facts)
    fabric = facts.read(FabricFacts)
    states = [_joined(device) for device in found]
    if not fabric.switches and not any(state is not None for state in states):
        return not_asked("no NVSwitch on this host, and no GPU of a fabric")
    manager = fabric.manager
    unit = "not seen" if manager is None else "active" if manager.active else "not active" if manager.exists else "not installed"
    observed = f"{fabric.switches} switches, fabric manager {unit}, " + ", ".join(
        f"GPU {index}: {state or 'no state told'}" for index, state in enumerate(states)
    )
    hint = "install nvidia-fabricmanager of exactly the driver's version, and enable it; until then cuInit fails with 802"
    if any(state not in {None, "joined"} for state in states):
        return failed(expected, observed, hint)
    # Switches that another machine configures are not seen here; those that are seen need the manager here.
    if fabric.switches and manager is None:
        return unknown(expected, observed, "look for nvidia-fabricmanager.service on the host")
    if fabric.switches and not (manager and manager.active):
        return failed(expected, observed, hint)
    if manager and manager.active and not manager.enabled:
        return warned(expected, f"{observed}; not enabled at boot", "systemctl enable nvidia-fabricmanager.service")
    return passed(expected, observed)


def _joined(device: DeviceFacts) -> str | None:
    """`joined`, what is in the way, or None for a GPU that is of no fabric or does not say."""
    if unsupported(device.fabric_state) or device.fabric_state.value == 0:
        return None
    state, status = number(device.fabric_state), number(device.fabric_status)
    if state == _FABRIC_DONE:
        return "joined" if status == 0 else f"refused with status {status}"
    return _FABRIC.get(state, f"state {state}")


CHECKS = (
    Check("device-nodes", "every user may open the GPU's device nodes", _nodes, needs_gpu=True),
    Check("pcie", "the link to the processor is as wide and fast as the card needs", _pcie, needs_gpu=True),
    Check("nvlink", "NVLinks are up", _nvlink, needs_gpu=True),
    Check("fabric", "the NVSwitch fabric is up", _fabric, needs_gpu=True),
)
