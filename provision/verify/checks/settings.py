"""Settings that live in the driver and are lost with it: persistence mode and application clocks, now and at the next boot.

Sources: docs/sources/verification.md §2.3 and §2.4.
"""

from provision.catalog import read
from provision.catalog.records.base import version
from provision.profile.model import ApplicationClocks, Profile
from provision.verify.checks.base import Check, Verdict, apply, fails, not_applicable, passes, unknown, warns
from provision.verify.facts import Facts
from provision.verify.facts.base import UnitFacts
from provision.verify.facts.gpu import NvmlFacts, devices, require_gpu


def _persistence_at_boot(facts: Facts, profile: Profile) -> Verdict:
    if not profile.gpu.persistence:
        return not_applicable("the profile does not ask for persistence mode")
    expected = "nvidia-persistenced is started at boot, and told to switch the mode on"
    unit = facts.read(UnitFacts, "persistence_unit")
    if not unit.exists:
        return fails(expected, "there is no such unit", apply("persistence", "installs it"))
    observed = f"{'enabled' if unit.enabled else 'not enabled'}: {unit.command}"
    if unit.enabled and "--persistence-mode" in unit.command.split():
        return passes(expected, observed)
    return fails(expected, observed, apply("persistence", "sets the option explicitly"))


def _persistence(facts: Facts, profile: Profile) -> Verdict:
    if not profile.gpu.persistence:
        return not_applicable("the profile does not ask for persistence mode")
    expected = "persistence mode on now, and by the daemon at boot"
    require_gpu(facts)
    modes = [device.persistence.answer() for device in facts.read(NvmlFacts).devices]
    unit = facts.read(UnitFacts, "persistence_unit")
    now = bool(modes) and all(mode == 1 for mode in modes)
    # Ubuntu's unit starts the daemon and tells it to leave the mode off.
    at_boot = unit.exists and unit.enabled and "--no-persistence-mode" not in unit.command
    observed = f"now {'on' if now else 'off'}, at boot {'on' if at_boot else 'off'}"
    if not now:
        return fails(expected, observed, "enable nvidia-persistenced without --no-persistence-mode")
    if not at_boot:
        return warns(expected, observed, "will be lost at the next boot: enable nvidia-persistenced without --no-persistence-mode")
    return passes(expected, observed)


def _clocks_at_boot(facts: Facts, profile: Profile) -> Verdict:
    if profile.gpu.application_clocks == "default":
        return not_applicable("the profile leaves the clocks at their defaults")
    expected = "gpuprov-clocks.service sets the clocks at boot"
    unit = facts.read(UnitFacts, "clocks_unit")
    if unit.exists and unit.enabled:
        return passes(expected, "enabled")
    return fails(expected, "not enabled" if unit.exists else "there is no such unit", apply("clocks", "writes it"))


def _clocks(facts: Facts, profile: Profile) -> Verdict:
    setting = profile.gpu.application_clocks
    if setting == "default":
        return not_applicable("the profile leaves the clocks at their defaults")
    gpus = devices(facts)
    pairs = [(gpu.app_memory_mhz.answer(), gpu.app_graphics_mhz.answer()) for gpu in gpus]
    if isinstance(setting, ApplicationClocks):
        target = [(setting.memory_mhz, setting.graphics_mhz)] * len(gpus)
    else:
        target = [(gpu.max_memory_mhz.count(), gpu.max_graphics_mhz.count()) for gpu in gpus]
    expected = "application clocks " + ", ".join(sorted({f"{m},{g} MHz" for m, g in target})) + ", set again at boot"
    observed = ", ".join(sorted({f"{m},{g} MHz" for m, g in pairs}))
    if pairs != target:
        lock_from = version(read.driver().clocks.locked_memory_from["compute_capability"])
        if version(read.gpu(profile.gpu.model).compute_capability) >= lock_from:
            # The role locks them there, which application clocks do not show, and NVML has no reading of a lock.
            return unknown(expected, f"{observed}; clocks of this GPU are locked instead, which is not read", "see the SM clock under load")
        return fails(expected, observed, "set them with `nvidia-smi -ac MEMORY,GRAPHICS` in a unit that runs after nvidia-persistenced")
    unit = facts.read(UnitFacts, "clocks_unit")
    if not (unit.exists and unit.enabled):
        return warns(expected, f"{observed}; no unit sets them at boot", "will be lost at the next boot: enable gpuprov-clocks.service")
    return passes(expected, f"{observed}, set by a unit at boot")


CHECKS = (
    Check("persistence-at-boot", "persistence mode is switched on at boot", _persistence_at_boot, role="persistence", needs_gpu=True),
    Check("persistence", "persistence mode is on, now and at boot", _persistence, role="persistence", needs_gpu=True),
    Check("clocks-at-boot", "a unit sets the clocks at boot", _clocks_at_boot, role="clocks", needs_gpu=True),
    Check("application-clocks", "application clocks are set, now and at boot", _clocks, role="clocks", needs_gpu=True),
)
