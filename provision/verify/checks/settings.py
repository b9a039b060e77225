"""Settings that live in the driver and are lost with it: persistence mode and application clocks, now and at the next boot.

Sources: docs/sources/verification.md §2.3 and §2.4.
"""

from functools import partial

from provision.catalog import read
from provision.catalog.records.base import version
from provision.profile.model import ApplicationClocks, Profile
from provision.verify.checks.base import Check, Verdict, apply, ask, fails, named, not_applicable, passes, together, unknown, unless, warns
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.base import UnitFacts
from provision.verify.facts.gpu import DeviceFacts, devices
from provision.verify.facts.perf import LoadFacts, PerfFacts, RestFacts
from provision.verify.facts.settings import ClocksReportFacts

_STEP_MHZ = 15  # the clocks that a card can have are this far apart (nvidia-smi -q -d SUPPORTED_CLOCKS)
_SET = "see `journalctl -u gpuprov-clocks`, and run `gpuprov apply HOST --role clocks`"


def _persistence_at_boot(facts: Facts, _profile: Profile) -> Verdict:
    expected = "nvidia-persistenced is started at boot, and told to switch the mode on"
    unit = facts.read(UnitFacts, "persistence_unit")
    if not unit.exists:
        return fails(expected, "there is no such unit", apply("persistence", "installs it"))
    observed = f"{'enabled' if unit.enabled else 'not enabled'}: {unit.command}"
    if unit.enabled and "--persistence-mode" in unit.command.split():
        return passes(expected, observed)
    return fails(expected, observed, apply("persistence", "sets the option explicitly"))


def _persistence(facts: Facts, profile: Profile) -> Verdict:
    modes = ask(facts, profile, lambda device: device.persistence.answer())
    return modes.beside(_persists(facts, now=all(mode == 1 for mode in modes.answers.values())))


def _persists(facts: Facts, *, now: bool) -> Verdict:
    """The verdict on GPUs whose mode is on now, or off on one of them."""
    expected = "persistence mode on now, and by the daemon at boot"
    try:
        unit = facts.read(UnitFacts, "persistence_unit")
    except NotObservedError as reason:  # as in a container: NVML knows the mode of now all the same
        if not now:
            return fails(expected, f"now off, at boot not observed: {reason}", "`sudo nvidia-smi -pm 1`, which lasts until the next boot")
        msg = f"now on, at boot not observed: {reason}"
        raise NotObservedError(msg) from reason
    # Ubuntu's unit starts the daemon and tells it to leave the mode off.
    at_boot = unit.exists and unit.enabled and "--no-persistence-mode" not in unit.command
    observed = f"now {'on' if now else 'off'}, at boot {'on' if at_boot else 'off'}"
    if not now and at_boot and not unit.active:
        hint = "the daemon is enabled and does not run: `journalctl -u nvidia-persistenced` says why; " + apply("persistence", "starts it")
        return fails(expected, f"{observed}, the daemon is not running{unit.why}", hint)
    if not now and at_boot:  # as after `nvidia-smi -pm 0`
        return fails(expected, observed, "`sudo systemctl restart nvidia-persistenced` switches it on: something has switched it off")
    if not now:
        return fails(expected, observed, "enable nvidia-persistenced without --no-persistence-mode")
    if not at_boot:
        return warns(expected, observed, "will be lost at the next boot: enable nvidia-persistenced without --no-persistence-mode")
    return passes(expected, observed)


def _clocks_at_boot(facts: Facts, _profile: Profile) -> Verdict:
    expected = "gpuprov-clocks.service sets the clocks at boot"
    unit = facts.read(UnitFacts, "clocks_unit")
    if unit.exists and unit.enabled:
        return passes(expected, "enabled")
    return fails(expected, "not enabled" if unit.exists else "there is no such unit", apply("clocks", "writes it"))


def _target(gpu: DeviceFacts, profile: Profile) -> tuple[int, int]:
    """The memory and the graphics clock that a GPU should have, in MHz."""
    setting = profile.gpu.application_clocks
    if isinstance(setting, ApplicationClocks):
        return setting.memory_mhz, setting.graphics_mhz
    return gpu.max_memory_mhz.count(), gpu.max_graphics_mhz.count()


def _locks_both(profile: Profile) -> bool:
    lock_from = version(read.driver().clocks.locked_memory_from["compute_capability"])
    return version(read.gpu(profile.gpu.model).compute_capability) >= lock_from


def _clocks(facts: Facts, profile: Profile) -> Verdict:
    """Application clocks can be read back. A lock cannot: it shows in the clocks themselves, which tier perf watches."""
    heard, gpus = ask(facts, profile, lambda gpu: _target(gpu, profile)), devices(facts).values()
    targets = heard.answers
    aim = ", ".join(sorted({f"{m},{g} MHz" for m, g in targets.values()}))
    settings = facts.read(ClocksReportFacts).settings
    refused = [str(number) for number, setting in sorted(settings.items()) if setting.mode == "none"]
    if refused:
        hint = "see `journalctl -u gpuprov-clocks`; set gpu.application_clocks to default if the card takes no clocks"
        return heard.beside(fails(f"clocks of {aim}", f"GPU {', '.join(refused)}: the card took none, as the unit says", hint))
    if _locks_both(profile) or any(setting.mode != "application" for setting in settings.values()):
        now = ", ".join(sorted({f"memory {gpu.memory_mhz.value or '?'}, SM {gpu.sm_mhz.value or '?'} MHz" for gpu in gpus}))
        return not_applicable(f"{aim} are locked, which no function of the driver tells; --tier perf proves it. Now: {now}")
    expected = f"application clocks {aim}, set again at boot"
    if not settings and any(gpu.app_graphics_mhz.removed for gpu in gpus):  # from driver 590 on
        return fails(
            expected, "this driver has none, and no unit has locked the graphics clock since the boot", apply("clocks", "locks it")
        )
    pairs = ask(facts, profile, lambda gpu: (gpu.app_memory_mhz.answer(), gpu.app_graphics_mhz.answer()))
    observed = ", ".join(sorted({f"{m},{g} MHz" for m, g in pairs.answers.values()}))
    if any(pair != targets.get(index) for index, pair in pairs.answers.items()):
        return pairs.beside(fails(expected, observed, apply("clocks", "sets them now and at each boot")))
    unit = facts.read(UnitFacts, "clocks_unit")
    if not (unit.exists and unit.enabled):
        hint = "will be lost at the next boot: enable gpuprov-clocks.service"
        return pairs.beside(warns(expected, f"{observed}; no unit sets them at boot", hint))
    return pairs.beside(passes(expected, f"{observed}, set by a unit at boot"))


def _held(facts: Facts, profile: Profile) -> Verdict:
    """The clocks themselves, under load and at rest.

    Under load a card without a lock reaches its highest clocks too. At rest only a locked one has them: a lock takes effect "regardless if
    an app is running" (nvidia-smi(1), -lgc), and an H100 without one rests at 345 MHz (docs/sources/verification.md §2.4). A card rests
    when no program holds it: one that only keeps its context open keeps the clocks up.
    """
    gpus, measured = devices(facts), facts.read(PerfFacts).numbered
    settings = facts.read(ClocksReportFacts).settings
    heard = ask(facts, profile, lambda gpu: _target(gpu, profile))
    targets = heard.answers
    aim = ", ".join(sorted({f"memory {m}, SM {g} MHz" for m, g in targets.values()}))
    expected = "the clocks of the profile, under load and at rest: " + aim
    if measured.keys() != gpus.keys():
        return unknown(expected, f"{len(measured)} of {len(gpus)} GPUs were measured", "measure again with --tier perf")
    results = []
    for number, target in targets.items():
        device = measured[number]
        default = "locked" if _locks_both(profile) else "application"
        mode = settings[number].mode if number in settings else default
        results.append(_held_by_one(f"GPU {number}", target, device.load))
        if mode != "application" and results[-1].outcome == "pass":
            results[-1] = _rests(f"{results[-1].observed}; ", target[1], device.rest)
    return heard.beside(together(expected, results))


def _held_by_one(name: str, target: tuple[int, int], load: LoadFacts) -> Verdict:
    """The verdict on one GPU under load."""
    memory_mhz, sm_mhz = target
    if load.sm_mhz is None or load.top_sm_mhz is None or load.memory_mhz is None:
        return unknown("", f"{name}: NVML gave no clocks under load", "see `gpuprov probe HOST --tier perf`")
    reached = f"{name}: memory {load.memory_mhz}, SM {load.sm_mhz} MHz"
    by = ", ".join(load.held_down_by)
    if abs(load.memory_mhz - memory_mhz) > _STEP_MHZ:
        return fails("", reached, _SET)
    if load.top_sm_mhz > sm_mhz + _STEP_MHZ:
        return fails("", f"{reached}, and up to {load.top_sm_mhz}", _SET)
    if load.sm_mhz < sm_mhz - _STEP_MHZ and not by:
        return fails("", f"{reached}, although nothing holds it down", _SET)
    return passes("", f"{reached}, held down by {by}" if load.sm_mhz < sm_mhz - _STEP_MHZ else reached)


def _rests(before: str, sm_mhz: int, rest: RestFacts | None) -> Verdict:
    """The verdict on one GPU at rest, whose clocks are right under load."""
    if rest is None or rest.sm_mhz is None:
        return unknown("", f"{before}not watched at rest", "measure again with `gpuprov verify HOST --tier perf`")
    if rest.sm_mhz < sm_mhz - _STEP_MHZ:
        return fails("", f"{before}SM {rest.sm_mhz} MHz at rest, so it is not locked", _SET)
    if rest.users is None:
        return unknown(
            "", f"{before}the driver does not say who uses it, so it may not have rested", "see `gpuprov probe HOST --tier perf`"
        )
    if rest.users:
        hint = "a GPU in use keeps its clocks up: measure again when nobody uses it"
        return unknown("", f"{before}in use by {', '.join(rest.users)}, so it did not rest", hint)
    return passes("", f"{before}SM {rest.sm_mhz} MHz at rest")


_of_persistence = partial(
    Check,
    role="persistence",
    needs_gpu=True,
    unasked=unless(lambda p: p.gpu.persistence, "the profile does not ask for persistence mode"),
)
_of_clocks = partial(
    Check,
    role="clocks",
    needs_gpu=True,
    unasked=unless(lambda p: p.gpu.application_clocks != "default", "the profile leaves the clocks at their defaults"),
)
CHECKS = (
    _of_persistence("persistence-at-boot", "persistence mode is switched on at boot", _persistence_at_boot),
    _of_persistence("persistence", "persistence mode is on, now and at boot", _persistence, unit=named("persistence_unit")),
    _of_clocks("clocks-at-boot", "a unit sets the clocks at boot", _clocks_at_boot),
    _of_clocks("application-clocks", "application clocks are set, now and at boot", _clocks, unit=named("clocks_unit")),
    _of_clocks("clocks-held", "the clocks are those of the profile, under load and at rest", _held, tier="perf"),
)
