"""How GPUs are connected: device nodes, the bus, NVLink, the fabric.

Minimums and their sources: docs/sources/verification.md §2.2 and §2.8.
"""

import re
from functools import partial
from typing import Final

from provision.profile.fabric import has_nvlink5, has_nvswitch, why_not
from provision.profile.model import Profile
from provision.verify.checks.base import Check, Signs, Verdict, apply, ask, each_gpu, fails, lacks, not_applicable, passes, unknown, warns
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.base import UnitFacts
from provision.verify.facts.gpu import DeviceFacts, DriverFacts, NvmlFacts, devices, require_gpu
from provision.verify.facts.links import FabricFacts, FabricOnDiskFacts

# DCGM 4.6.0, nvvs/diag-skus.yaml.in: the (generation, width) that a card must have.
# Clouds give an L4 no more lanes either (docs/sources/verification.md §2.8).
_PCIE: Final = {"t4": (3, 8), "t4g": (3, 8), "a10g": (3, 8), "l4": (3, 8), "l40s": (4, 8)}
_PCIE_OTHERS: Final = (3, 16)
_READ_WRITE_OTHERS: Final = 0o006
_VIRTUAL: Final = {1, 2}  # passed through, or a vGPU: the link that the guest sees is the hypervisor's
_FABRIC: Final = {1: "not started", 2: "in progress"}
_FABRIC_COMPLETE: Final = 3
# NVML_GPU_FABRIC_HEALTH_MASK_* of nvidia-ml-py 13.615.71: the first bit of each sign, of which 1 means that it is so.
_HEALTH: Final = {0: "bandwidth degraded", 2: "route recovery in progress", 4: "route unhealthy", 6: "recovering from an access timeout"}
_CONFIGURATION: Final = 8
_DEGRADED: Final = (
    "see `nvidia-smi nvlink -s` and `journalctl -k -b | grep -E 'Xid|SXid'`; reset all GPUs together or reboot, else replace the machine"
)
_SLOT: Final = re.compile(r"\b(PCIe|NVL|RTX|TITAN|Quadro|A30|A40)\b", re.IGNORECASE)
_PROHIBITED: Final = "prohibited to all programs (compute mode)"
_COMPUTE_MODES: Final[dict[object, str]] = {
    1: "for one thread at a time",
    2: _PROHIBITED,
    3: "for one program at a time (compute mode EXCLUSIVE_PROCESS)",
}
_NOT_READY: Final = 802  # CUDA_ERROR_SYSTEM_NOT_READY
_INSTALL: Final = apply("fabric_manager", "installs it at exactly the driver's version, and enables it")
_UNTIL: Final = "install nvidia-fabricmanager of exactly the driver's version, and enable it; until then cuInit fails with 802"
_AGAIN: Final = (
    "the fabric is up, and nothing here brings it up again: install nvidia-fabricmanager of exactly the driver's version, and enable it"
)
_MODPROBE: Final = "run `nvidia-modprobe -u -c 0` as root"


def _nodes(facts: Facts, profile: Profile) -> Verdict:
    expected = "device nodes that every user may open, one for each GPU, no nouveau, and GPUs that several programs may use"
    gpu = require_gpu(facts)
    if gpu.modes is None:
        msg = "the probe sent no modes of the device nodes"
        raise NotObservedError(msg)
    if gpu.nouveau:
        return fails(expected, "nouveau is loaded", "blacklist nouveau and reboot; the driver's package does it")
    gpus = len(facts.read(NvmlFacts).devices)
    if gpus == 0:
        return fails(expected, f"device nodes: {len(gpu.nodes)}; GPUs of NVML: 0", "the driver starts no GPU: see the check gpu")
    if len(gpu.nodes) < gpus:
        return fails(expected, f"device nodes: {len(gpu.nodes)}; GPUs of NVML: {gpus}", _MODPROBE)
    missing = [path for path in ("/dev/nvidiactl", *gpu.nodes) if path not in gpu.modes]
    if missing:
        return fails(expected, f"missing: {', '.join(missing)}", _MODPROBE)
    # The mode, not an attempt: root may open everything.
    nodes = [path for path in (*gpu.nodes, "/dev/nvidiactl", "/dev/nvidia-uvm") if path in gpu.modes]
    closed = [f"{path} {gpu.modes[path]:04o}" for path in nodes if gpu.modes[path] & _READ_WRITE_OTHERS != _READ_WRITE_OTHERS]
    if closed:
        hint = "see NVreg_DeviceFileMode and NVreg_DeviceFileGID in /etc/modprobe.d, or the rules of udev"
        return fails(expected, f"closed to others: {', '.join(closed)}", hint)
    # A driver that does not tell the mode is no reason; a GPU that is lost is one.
    heard = ask(facts, profile, lambda one: one.compute_mode.answer() if one.lost else one.compute_mode.value)
    modes = {index: _COMPUTE_MODES[mode] for index, mode in heard.answers.items() if mode in _COMPUTE_MODES}
    if modes:
        observed = "; ".join(f"GPU {index}: {words}" for index, words in modes.items())
        default = f"`sudo nvidia-smi -i {','.join(map(str, modes))} -c DEFAULT` lets several programs use each of them"
        return heard.beside((fails if _PROHIBITED in modes.values() else warns)(expected, observed, default))
    if "/dev/nvidia-uvm" not in gpu.modes:
        return warns(expected, "no /dev/nvidia-uvm, without which CUDA does not start", "run `nvidia-modprobe -u -c 0` at boot")
    return heard.beside(passes(expected, f"device nodes of GPUs: {len(gpu.nodes)}, control and memory open to all"))


def _pcie(facts: Facts, profile: Profile) -> Verdict:
    generation, width = _PCIE.get(profile.gpu.model, _PCIE_OTHERS)

    def look(device: DeviceFacts) -> Signs:
        now, most = device.pcie_generation.count(), device.pcie_generation_max.count()
        lanes, most_lanes = device.pcie_width.count(), device.pcie_width_max.count()
        # Not judged here: an idle GPU lowers it, and raises it within milliseconds of load. The check host-copies judges it under load.
        words = [f"generation {now} of {most}{' now, not judged' if now < most else ''}, {lanes} of {most_lanes} lanes"]
        if most < generation or lanes < width:
            return Signs(bad=words)
        # Those of a virtual machine are the hypervisor's, and nobody there can reseat the card.
        missing = lanes < most_lanes and device.virtualization.value not in _VIRTUAL
        return Signs(doubtful=words if missing else [], sound=words)

    virtual = any(device.virtualization.value in _VIRTUAL for device in devices(facts).values())
    return each_gpu(
        facts,
        profile,
        f"PCIe generation {generation} or later, {width} lanes or more",
        look,
        fail="another slot, riser or machine: the card cannot get its data through this link",
        warn="reseat the card, or take another slot: lanes are missing",
        note="; in a virtual machine the link can be made up: the copies of `--tier perf` decide" if virtual else "",
    )


def _nvlink(facts: Facts, profile: Profile) -> Verdict:
    if lacks(facts, lambda device: device.links):
        return not_applicable("this GPU has no NVLink")
    heard = ask(facts, profile, lambda device: (device.links_up.count(), device.links.count()))
    up = heard.answers
    if len(up) + len(heard.silent) == 1:
        return not_applicable("one GPU: there is nothing that it could be linked with")
    expected = "every GPU with as many NVLinks up as its siblings, and none without"
    observed = ", ".join(f"GPU {index}: {active} of {links}" for index, (active, links) in up.items())
    if not any(active for active, _ in up.values()) and not _soldered(facts, profile):
        return not_applicable(f"no bridge connects these cards: {observed}")
    # Not all links need be used: on some boards 12 of 18 are, by design (azurehpc-health-checks, issue 162). Siblings decide.
    if len(set(up.values())) > 1 or not all(active for active, _ in up.values()):
        hint = "see `nvidia-smi nvlink -s` and the kernel log for XID 74; on an NVSwitch system the fabric manager brings links up"
        return heard.beside(fails(expected, observed, hint))
    return heard.beside(passes(expected, observed))


def _soldered(facts: Facts, profile: Profile) -> bool:
    """Whether the board may link its GPUs itself. Cards that NVML calls cards for slots have bridges, which may not be fitted.

    Without a bridge all links of such cards are down (NVSentinel, issue 1481). H100 and later modules do not have SXM in their names.
    """
    names = ask(facts, profile, lambda device: str(device.name.answer())).answers.values()
    return has_nvswitch(profile) or facts.read(FabricFacts).switches > 0 or not all(_SLOT.search(name) for name in names)


def _no_switches(profile: Profile) -> str:
    return "" if has_nvswitch(profile) else why_not(profile)


def _fabric_on_disk(facts: Facts, profile: Profile) -> Verdict:
    subnet = has_nvlink5(profile)
    expected = f"the fabric manager at the driver's own version{', the subnet manager of NVLink 5,' if subnet else ''} and its unit enabled"
    disk = facts.read(FabricOnDiskFacts)
    if disk.manager is None:
        return fails(expected, "no package of the fabric manager", _INSTALL)
    drivers = " and ".join(disk.drivers)
    observed = f"fabric manager {disk.manager}, driver {drivers or 'not seen'}{f', nvlsm {disk.subnet}' if disk.subnet else ''}"
    if not drivers:
        return unknown(expected, observed, "run where `modinfo nvidia` finds the driver")
    if drivers != disk.manager:
        return fails(expected, observed, _INSTALL)
    if subnet and disk.subnet is None:
        return fails(expected, f"{observed}, no nvlsm", _INSTALL)
    if disk.unit is None:
        return unknown(expected, f"{observed}; no systemd answers", "look for nvidia-fabricmanager.service on the host")
    if not (disk.unit.exists and disk.unit.enabled):
        return fails(expected, f"{observed}; the unit is {'not enabled' if disk.unit.exists else 'not there'}", _INSTALL)
    return passes(expected, f"{observed}; enabled")


def _fabric(facts: Facts, profile: Profile) -> Verdict:
    heard = ask(facts, profile, _membership)
    return heard.beside(_joined(facts, profile, heard.answers))


def _joined(facts: Facts, profile: Profile, states: dict[int, str | None]) -> Verdict:
    """The verdict on the GPUs that say whether they have joined the fabric."""
    fabric = facts.read(FabricFacts)
    unwell = {index: _unwell(device) for index, device in devices(facts).items() if index in states}
    # The switches of NVLink 5 are not devices of NVIDIA's on the bus, so there the profile says that they are.
    hidden = has_nvlink5(profile) and has_nvswitch(profile)
    if not fabric.switches and not any(states.values()) and not hidden:
        return not_applicable("no NVSwitch on this host, and no GPU of a fabric")
    expected = "the fabric manager is active at the loaded driver's version, every GPU has joined the fabric, and CUDA starts"
    manager = fabric.manager
    idle = f"not active{manager.why}" if manager and manager.exists else "not installed"
    unit = "not seen" if manager is None else "active" if manager.active else idle
    gpu_states = ", ".join(f"GPU {index}: {state or 'no state told'}" for index, state in states.items())
    observed = f"{fabric.switches} switches, fabric manager {unit}, {gpu_states}"
    if fabric.cuda_init is not None:
        observed += f", cuInit {fabric.cuda_init}"
    if any(state not in {None, "joined"} for state in states.values()) or fabric.cuda_init == _NOT_READY:
        return fails(expected, observed, _UNTIL)
    if any(unwell.values()):
        return fails(expected, f"{observed}; {'; '.join(f'GPU {index}: {words}' for index, words in unwell.items() if words)}", _DEGRADED)
    if fabric.cuda_init:
        return fails(expected, observed, "CUDA does not start for another reason than the fabric: see the checks of the driver")
    # Switches that another machine configures are not visible here; visible ones need the manager here.
    needed = fabric.switches or hidden
    if needed and manager is None:
        return unknown(expected, observed, "look for nvidia-fabricmanager.service on the host")
    if needed and not (manager and manager.active):
        return fails(expected, observed, _AGAIN if set(states.values()) == {"joined"} else _UNTIL)
    return _managed(expected, observed, manager, facts) if manager and manager.active else passes(expected, observed)


def _managed(expected: str, observed: str, manager: UnitFacts, facts: Facts) -> Verdict:
    """An active fabric manager: it must be of the loaded driver's version, or its next start fails; and it must start at boot."""
    loaded, installed = facts.read(DriverFacts).loaded, facts.read(FabricOnDiskFacts).manager
    if loaded is None or installed is None:
        return unknown(
            expected, f"{observed}, driver {loaded}, package {installed}", "compare `nv-fabricmanager --version` with the driver"
        )
    if loaded != installed:
        return fails(expected, f"{observed}; its package is {installed}, the loaded driver {loaded}", _UNTIL)
    if not manager.enabled:
        return warns(expected, f"{observed}; not enabled at boot", "systemctl enable nvidia-fabricmanager.service")
    return passes(expected, observed)


def _unwell(device: DeviceFacts) -> str:
    """What a GPU of a fabric says against the fabric's health; empty where it says nothing."""
    mask = device.fabric_health.value
    if not isinstance(mask, int) or mask < 0:
        return ""
    signs = [words for shift, words in _HEALTH.items() if mask >> shift & 3 == 1]
    return ", ".join(signs + (["configured wrong"] if mask >> _CONFIGURATION & 15 > 1 else []))


def _membership(device: DeviceFacts) -> str | None:
    """`joined`, what is in the way, or None for a GPU that is of no fabric or does not say."""
    if device.fabric_state.unsupported or device.fabric_state.value == 0:
        return None
    state, status = device.fabric_state.count(), device.fabric_status.count()
    if state == _FABRIC_COMPLETE:
        return "joined" if status == 0 else f"refused with status {status}"
    return _FABRIC.get(state, f"state {state}")


_switches = partial(Check, role="fabric_manager", needs_gpu=True, unasked=_no_switches)
CHECKS = (
    Check("device-nodes", "every user may open the GPU's device nodes", _nodes, needs_gpu=True),
    Check("pcie", "the link to the processor is as wide and fast as the card needs", _pcie, needs_gpu=True),
    Check("nvlink", "NVLinks are up", _nvlink, needs_gpu=True, whole_gpus=True),
    _switches("fabric-on-disk", "the fabric manager is installed for NVSwitches", _fabric_on_disk),
    _switches("fabric", "the NVSwitch fabric is up", _fabric, finds_unasked=True, unit=lambda facts: facts.read(FabricFacts).manager),
)
