"""Multi-Instance GPU: each GPU is split as the profile says, now and after the next boot.

Sources: docs/sources/stack.md §2.1.
"""

from collections import Counter
from functools import partial

from provision.profile.mig import slices
from provision.profile.model import Profile
from provision.verify.checks.base import Check, Signs, Verdict, apply, each_gpu, fails, named, not_applicable, passes, unless
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.base import UnitFacts
from provision.verify.facts.gpu import DeviceFacts, NvmlFacts
from provision.verify.facts.mig import MigReportFacts

_WHOLE = "the profile asks for whole GPUs"
_UNSPLIT = unless(lambda p: p.gpu.mig, _WHOLE)


def _at_boot(facts: Facts, _profile: Profile) -> Verdict:
    expected = "gpuprov-mig.service splits the GPUs at boot"
    unit = facts.read(UnitFacts, "mig_unit")
    if unit.exists and unit.enabled:
        return passes(expected, "enabled")
    return fails(expected, "not enabled" if unit.exists else "there is no such unit", apply("mig", "writes it"))


def _mig(facts: Facts, profile: Profile) -> Verdict:
    if not profile.gpu.mig:
        return _whole(facts)
    wanted = slices(profile)
    expected = f"each GPU split into {_words(wanted)}"

    def look(device: DeviceFacts) -> Signs:
        if device.mig.unsupported:
            return Signs(bad=["this card or machine has no MIG"])
        if device.mig.answer() != 1:
            pending = "; it is pending, and takes a reboot" if device.mig_pending.value == 1 else ""
            return Signs(bad=[f"MIG is off{pending}"])
        have = str(device.mig_slices.answer()).split()
        words = _words(tuple(have))
        return Signs(sound=[words]) if sorted(have) == sorted(wanted) else Signs(bad=[words])

    return each_gpu(
        facts, profile, expected, look, fail=apply("mig", "splits them, and reboots once where that is needed"), warn="", note=_note(facts)
    )


def _whole(facts: Facts) -> Verdict:
    """A card that somebody split shows a process one slice of it, whatever else is right; one may be split by the next boot."""
    try:
        devices = facts.read(NvmlFacts).devices
    except NotObservedError:
        return not_applicable(_WHOLE)
    split = [str(index) for index, device in enumerate(devices) if device.mig.value == 1]
    pending = [str(index) for index, device in enumerate(devices) if device.mig.value == 0 and device.mig_pending.value == 1]
    if not split + pending:
        return not_applicable(_WHOLE)
    signs = [f"MIG is on on GPU {', '.join(split)}"] if split else []
    signs += [f"MIG is pending on GPU {', '.join(pending)}: the next reset or reboot splits it"] if pending else []
    switch = f"`sudo nvidia-smi -i {','.join(split + pending)} -mig 0` while no program uses them"
    return fails(
        "whole GPUs",
        "; ".join(signs),
        f"`gpuprov undo HOST --role mig` where gpuprov split them, else {switch}; or say in gpu.mig how they are split",
    )


def _note(facts: Facts) -> str:
    try:
        return f"; {facts.read(MigReportFacts).words}"
    except NotObservedError:
        return ""


def _words(names: tuple[str, ...]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in sorted(Counter(names).items())) or "no slice"


_check = partial(Check, role="mig", needs_gpu=True, unasked=_UNSPLIT)
CHECKS = (
    _check("mig-at-boot", "the GPUs are split at boot", _at_boot),
    _check("mig", "each GPU is split as the profile says", _mig, finds_unasked=True, unit=named("mig_unit")),
)
