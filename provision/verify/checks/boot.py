"""Secure Boot, and the signature of the driver's module that it loads.

Sources: docs/sources/clouds.md §11, docs/sources/stack.md §4.3.2.
"""

from typing import Final

from provision.catalog import read
from provision.profile.model import Profile
from provision.profile.signed import wants_signed
from provision.verify.checks.base import Check, Verdict, apply, fails, not_applicable, passes, unknown, unless, warns
from provision.verify.facts import Facts
from provision.verify.facts.boot import ModuleSignatureFacts, SecureBootFacts
from provision.verify.facts.gpu import require_gpu

_UNSIGNED: Final = "E"  # the kernel's letter for a module whose signature did not hold
_UNASKED: Final = unless(wants_signed, "the profile asks for modules that are built on the host")


def _secure_boot(facts: Facts, profile: Profile) -> Verdict:
    expected = "Secure Boot is on, and the kernel is locked down"
    boot = facts.read(SecureBootFacts)
    required = profile.os.secure_boot == "required"
    if not boot.on:
        if required:
            return fails(expected, boot.words, "launch it again from an image whose keys are enrolled, with Secure Boot on")
        if boot.firmware == "bios" or boot.setup_mode:
            return not_applicable(f"{boot.words}; the profile does not require it")
        return warns(expected, boot.words, "the firmware has keys: switch Secure Boot on, since the modules are signed")
    if boot.lockdown is None:
        return unknown(expected, boot.words, "run the probe as root: it reads /sys/kernel/security/lockdown")
    if boot.lockdown == "none":
        return warns(
            expected, boot.words, "the kernel lets root load and change what it likes: see its options lockdown= and module.sig_enforce="
        )
    return passes(expected, boot.words)


def _signed_modules(facts: Facts, profile: Profile) -> Verdict:
    require_gpu(facts)
    record = read.driver().signed_for(f"{profile.os.name} {profile.os.version}")
    if record is None:
        msg = read.driver().why_unsigned(f"{profile.os.name} {profile.os.version}")
        return fails("signed kernel modules", f"the system has none: {msg}", "choose a system that has, or stack.driver_build: dkms")
    expected = f"the loaded module signed by {record.signer}, and DKMS without a part in it"
    module = facts.read(ModuleSignatureFacts)
    built = f"DKMS has {', '.join(module.dkms)}" if module.dkms else "DKMS has none"
    observed = f"signer {module.signer or 'none'}; {built}"
    hint = apply("nvidia_driver", "installs the signed modules, after `gpuprov undo` of those that were built")
    if module.dkms or not (module.signer or "").startswith(record.signer):
        return fails(expected, observed, hint)
    if not module.loaded:
        return fails(
            expected, f"{observed}; no module is loaded", "see `modprobe nvidia` and the kernel's log, or reboot into the newest kernel"
        )
    if module.taint is not None and _UNSIGNED in module.taint:
        return fails(
            expected,
            f"{observed}; the kernel did not accept the signature of the loaded module",
            "reboot, so that the signed one is loaded",
        )
    if module.same is False:
        return fails(expected, f"{observed}; another module is loaded", "reboot, so that the signed one is loaded")
    if module.same is None or module.taint is None:
        return unknown(
            expected, f"{observed}; whether that is the loaded one was not seen", "compare /sys/module/nvidia/srcversion with modinfo"
        )
    key = {True: ", its key is in the kernel's ring", False: ", its key is in no ring of the kernel that was seen", None: ""}[
        module.in_keyring
    ]
    return passes(expected, f"{observed}; loaded{key}")


CHECKS = (
    Check("secure-boot", "Secure Boot is on where the modules are signed", _secure_boot, unasked=_UNASKED),
    Check(
        "signed-modules",
        "the loaded module is signed by the distribution",
        _signed_modules,
        role="nvidia_driver",
        needs_gpu=True,
        unasked=_UNASKED,
    ),
)
