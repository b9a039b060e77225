"""The GPU, its driver, and the settings that live in the driver; each setting in its layers.

The verdict matrices are those of docs/sources/verification.md §2.1-2.4.
"""

from __future__ import annotations

from typing import Final

from provision.catalog import read
from provision.catalog.records.base import version
from provision.profile.model import ApplicationClocks, Profile
from provision.verify.checks.base import Check, Verdict, devices, failed, not_asked, number, passed, require_gpu, unknown, value, warned
from provision.verify.facts import Facts
from provision.verify.facts.counters import CountersFacts
from provision.verify.facts.gpu import DriverFacts, ModulesFacts, NvmlFacts
from provision.verify.facts.settings import ClocksUnitFacts, PersistenceUnitFacts

__all__ = ["CHECKS"]

_PERFMON: Final = 1 << 38  # CAP_PERFMON in linux/capability.h


def _gpu(facts: Facts, profile: Profile) -> Verdict:
    expected = f"{profile.gpu.count} x {profile.gpu.model.upper()}"
    found = require_gpu(facts)
    if found.nouveau:
        return failed(expected, "nouveau drives the GPU", "blacklist nouveau and reboot; the driver's package does it")
    if not found.module:
        return failed(expected, f"{len(found.pci)} on the bus, and no NVIDIA driver is loaded", "install the driver, or reboot into it")
    names = [str(value(device.name)) for device in facts.read(NvmlFacts).devices]
    # Whole words: an L40S is no L4.
    words = {word.upper() for word in read.gpu(profile.gpu.model).nvml_words}
    right = [n for n in names if words <= set(n.replace("-", " ").upper().split())]
    observed = ", ".join(names) or "none"
    if len(right) < profile.gpu.count or len(right) != len(names):
        return failed(expected, observed, "this is another machine than the profile asks for: compare instance type and profile")
    if not found.readable or len(found.nodes) < len(names):
        return failed(
            expected, f"{observed}; device nodes {', '.join(found.nodes) or 'missing'} not usable", "see the modes of /dev/nvidia*"
        )
    return passed(expected, observed)


def _driver(facts: Facts, profile: Profile) -> Verdict:
    asked = profile.stack.driver
    expected = "one driver: loaded = installed = user space" + ("" if asked == "auto" else f", branch {asked}")
    require_gpu(facts)
    found = facts.read(DriverFacts)
    user_space = facts.raw.get("nvml")
    nvml = str(value(facts.read(NvmlFacts).driver)) if isinstance(user_space, dict) and "value" in user_space else None
    versions = {"loaded": found.loaded, "installed": found.installed, "NVML": nvml, "nvidia-smi": found.nvidia_smi}
    seen = {where: version for where, version in versions.items() if version}
    observed = ", ".join(f"{where} {version}" for where, version in seen.items()) or "none"
    if not found.loaded:
        return failed(expected, f"no driver is loaded ({observed})", "install the driver, or reboot into it")
    if len(set(seen.values())) > 1:
        return failed(expected, observed, "a reboot is pending: an upgrade changed the driver under the loaded module")
    if asked != "auto" and not (found.loaded == asked or found.loaded.startswith(f"{asked}.")):
        return failed(expected, observed, f"install driver branch {asked}")
    if nvml is None and found.nvidia_smi is None:
        return unknown(expected, f"{observed}; user space did not answer: {found.nvidia_smi_said or 'no NVML'}", "install nvidia-utils")
    if found.installed is None:
        return warned(expected, f"{observed}; the version on disk was not seen", "run where `modinfo nvidia` finds the module")
    return passed(expected, observed)


def _counters(facts: Facts, profile: Profile) -> Verdict:
    asked = profile.gpu.counters
    if asked == "admin-only":
        return not_asked("the profile keeps performance counters for administrators")
    if profile.verify.tier == "quick":
        return _counters_live(facts, "1" if asked == "group" else "0")
    return _counters_of_group(facts) if asked == "group" else _counters_of_all(facts)


def _counters_live(facts: Facts, wanted: str) -> Verdict:
    """Without a profiler only a wrong setting can be shown: what the driver allows, something else can still refuse."""
    require_gpu(facts)
    live, expected = facts.read(CountersFacts).live, f"RmProfilingAdminOnly: {wanted}"
    if live is None:
        return unknown(expected, "unreadable", "/proc/driver/nvidia/params does not show it: look there on the host")
    if live != wanted:
        return failed(expected, f"live {live}", "`gpuprov apply HOST --role counters` writes it; then reboot or reload the driver")
    return not_asked(f"live {live}; not checked as an ordinary user gets them: tier quick runs no profiler, tier standard does")


def _counters_of_all(facts: Facts) -> Verdict:
    expected = "performance counters open to ordinary users: on disk, live, and as one gets them"
    require_gpu(facts)
    found = facts.read(CountersFacts)
    user = found.as_user
    observed = f"on disk {found.on_disk or 'not set'}, live {found.live or 'unreadable'}, ncu as {user.user or 'nobody'}: {user.outcome}"
    if user.message and user.outcome != "open":
        observed += f" ({user.message})"
    if found.live is None:
        return unknown(expected, observed, "/proc/driver/nvidia/params does not show it: look there on the host")
    if found.live == "1":
        if found.on_disk == "0":
            return failed(expected, observed, "reboot or reload the module; if it persists rebuild the initramfs (`update-initramfs -u`)")
        return failed(expected, observed, "set NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d and reload the driver")
    if user.outcome == "refused":
        return failed(expected, observed, "open in the driver and refused to the user: a container or the hypervisor blocks it")
    if user.outcome != "open":
        return unknown(expected, observed, "install ncu on the host, so that an ordinary user's access can be tried")
    if found.on_disk != "0":
        return warned(expected, observed, "will be lost at the next boot: write the option into /etc/modprobe.d")
    return passed(expected, observed)


def _driver_on_disk(facts: Facts, _profile: Profile) -> Verdict:
    expected = "the driver's module built for every kernel that has headers, and its packages held"
    found = facts.read(ModulesFacts)
    kernels = ", ".join(f"{k.kernel} {'built' if k.built else 'NOT built'}" for k in found.kernels) or "no kernel has headers"
    held = [name for name in found.held if "nvidia" in name]
    observed = f"{kernels}; held: {', '.join(held) or 'nothing of the driver'}"
    role = "`gpuprov apply HOST --role nvidia_driver` installs, builds and holds it"
    if not found.kernels or not all(kernel.built for kernel in found.kernels):
        return failed(expected, observed, role)
    return passed(expected, observed) if held else warned(expected, observed, role)


def _counters_of_group(facts: Facts) -> Verdict:
    expected = "performance counters closed to ordinary users, and open to the group gpuprov-counters through with-counters"
    require_gpu(facts)
    found = facts.read(CountersFacts)
    group, user = found.as_group, found.as_user
    observed = f"live {found.live or 'unreadable'}, ncu as {user.user or 'nobody'}: {user.outcome}"
    observed += f", as a member: {group.outcome if group else 'no with-counters'}"
    role = "`gpuprov apply HOST --role counters --role base` makes the group, the command and its members"
    if found.live == "0" or user.outcome == "open":
        return failed(expected, observed, "the driver lets everybody: set NVreg_RestrictProfilingToAdminUsers=1 and reload it")
    if group is None or not group.members:
        return failed(expected, observed, role)
    if group.outcome == "refused":
        return failed(expected, observed, "the driver does not honour CAP_PERFMON: it needs the open kernel modules of 570 or later")
    if found.live is None or user.outcome != "refused" or group.outcome != "open":
        return unknown(expected, observed, "run the probe as root, with ncu on the host")
    return passed(expected, observed)


def _counters_on_disk(facts: Facts, profile: Profile) -> Verdict:
    if profile.gpu.counters == "group":
        return _group_on_disk(facts)
    wanted = "0" if profile.gpu.counters == "all-users" else "1"
    expected = f"NVreg_RestrictProfilingToAdminUsers={wanted} at the next load of the driver"
    found = facts.read(CountersFacts).on_disk
    observed = "not set, which means 1" if found is None else f"set to {found}"
    if (found or "1") == wanted:
        return passed(expected, observed)
    return failed(expected, observed, "`gpuprov apply HOST --role counters` writes it")


def _group_on_disk(facts: Facts) -> Verdict:
    expected = "NVreg_RestrictProfilingToAdminUsers=1, and with-counters gives members of gpuprov-counters CAP_PERFMON and nothing else"
    found = facts.read(CountersFacts)
    group = found.as_group
    role = "`gpuprov apply HOST --role counters --role base` makes the group, the command and its members"
    if group is None:
        return failed(expected, "no with-counters", role)
    observed = f"option {found.on_disk or 'not set'}, {len(group.members)} members, capabilities {group.capabilities or 'not seen'}"
    if (found.on_disk or "1") != "1" or not group.members:
        return failed(expected, observed, role)
    if group.capabilities is None:
        return unknown(expected, f"{observed} {group.message}".strip(), "run the probe as root, so that it can be tried as a member")
    if int(group.capabilities, 16) != _PERFMON:
        return failed(expected, observed, role)
    return passed(expected, observed)


def _persistence_at_boot(facts: Facts, profile: Profile) -> Verdict:
    if not profile.gpu.persistence:
        return not_asked("the profile does not ask for persistence mode")
    expected = "nvidia-persistenced is started at boot, and told to switch the mode on"
    unit = facts.read(PersistenceUnitFacts)
    if not unit.exists:
        return failed(expected, "there is no such unit", "`gpuprov apply HOST --role persistence` installs it")
    observed = f"{'enabled' if unit.enabled else 'not enabled'}: {unit.command}"
    if unit.enabled and "--persistence-mode" in unit.command.split():
        return passed(expected, observed)
    return failed(expected, observed, "`gpuprov apply HOST --role persistence` says it explicitly")


def _clocks_at_boot(facts: Facts, profile: Profile) -> Verdict:
    if profile.gpu.application_clocks == "default":
        return not_asked("the profile leaves the clocks at their defaults")
    expected = "gpuprov-clocks.service sets the clocks at boot"
    unit = facts.read(ClocksUnitFacts)
    if unit.exists and unit.enabled:
        return passed(expected, "enabled")
    return failed(expected, "not enabled" if unit.exists else "there is no such unit", "`gpuprov apply HOST --role clocks` writes it")


def _persistence(facts: Facts, profile: Profile) -> Verdict:
    if not profile.gpu.persistence:
        return not_asked("the profile does not ask for persistence mode")
    expected = "persistence mode on now, and by the daemon at boot"
    require_gpu(facts)
    modes = [value(device.persistence) for device in facts.read(NvmlFacts).devices]
    unit = facts.read(PersistenceUnitFacts)
    # Ubuntu's unit starts the daemon and tells it to leave the mode off.
    at_boot = unit.exists and unit.enabled and "--no-persistence-mode" not in unit.command
    observed = f"now {'on' if modes and all(mode == 1 for mode in modes) else 'off'}, at boot {'on' if at_boot else 'off'}"
    if not modes or any(mode != 1 for mode in modes):
        return failed(expected, observed, "enable nvidia-persistenced without --no-persistence-mode")
    if not at_boot:
        return warned(expected, observed, "will be lost at the next boot: enable nvidia-persistenced without --no-persistence-mode")
    return passed(expected, observed)


def _clocks(facts: Facts, profile: Profile) -> Verdict:
    asked = profile.gpu.application_clocks
    if asked == "default":
        return not_asked("the profile leaves the clocks at their defaults")
    found = devices(facts)
    pairs = [(value(d.app_memory_mhz), value(d.app_graphics_mhz)) for d in found]
    if isinstance(asked, ApplicationClocks):
        wanted = [(asked.memory_mhz, asked.graphics_mhz)] * len(found)
    else:
        wanted = [(number(d.max_memory_mhz), number(d.max_graphics_mhz)) for d in found]
    expected = "application clocks " + ", ".join(sorted({f"{m},{g} MHz" for m, g in wanted})) + ", set again at boot"
    observed = ", ".join(sorted({f"{m},{g} MHz" for m, g in pairs}))
    if pairs != [tuple(pair) for pair in wanted]:
        locked_from = version(read.driver().clocks.locked_memory_from["compute_capability"])
        if version(read.gpu(profile.gpu.model).compute_capability) >= locked_from:
            # The role locks them there, which application clocks do not show, and NVML has no reading of a lock.
            return unknown(expected, f"{observed}; clocks of this GPU are locked instead, which is not read", "see the SM clock under load")
        return failed(expected, observed, "set them with `nvidia-smi -ac MEMORY,GRAPHICS` in a unit that runs after nvidia-persistenced")
    unit = facts.read(ClocksUnitFacts)
    if not (unit.exists and unit.enabled):
        return warned(expected, f"{observed}; no unit sets them at boot", "will be lost at the next boot: enable gpuprov-clocks.service")
    return passed(expected, f"{observed}, set by a unit at boot")


CHECKS = (
    Check("gpu", "the GPU is the one of the profile, and usable", _gpu, needs_gpu=True),
    Check("driver-on-disk", "the driver is built for every kernel, and held", _driver_on_disk, role="nvidia_driver", needs_gpu=True),
    Check("driver", "one driver version is loaded, installed and used", _driver, role="nvidia_driver", needs_gpu=True),
    Check("counters-on-disk", "the next load of the driver has the profile's choice", _counters_on_disk, role="counters", needs_gpu=True),
    Check("counters", "ordinary users may read performance counters", _counters, role="counters", needs_gpu=True),
    Check("persistence-at-boot", "persistence mode is switched on at boot", _persistence_at_boot, role="persistence", needs_gpu=True),
    Check("persistence", "persistence mode is on, now and at boot", _persistence, role="persistence", needs_gpu=True),
    Check("clocks-at-boot", "a unit sets the clocks at boot", _clocks_at_boot, role="clocks", needs_gpu=True),
    Check("application-clocks", "application clocks are set, now and at boot", _clocks, role="clocks", needs_gpu=True),
)
