"""The GPU and its driver: the right card, and one driver that is loaded, installed, used and built for every kernel.

Sources: docs/sources/verification.md §2.2.
"""

import contextlib
import re
from collections.abc import Collection
from typing import Final

from provision.catalog import read
from provision.catalog.roofline import has_nvml_name
from provision.profile.model import Profile
from provision.profile.signed import wants_signed
from provision.verify.checks.base import OF_THE_IMAGE, Check, Verdict, apply, fails, passes, unknown, warns
from provision.verify.codes import MISMATCH, NO_LIBRARY, after_loss
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.boot import SecureBootFacts
from provision.verify.facts.gpu import DriverFacts, GpuFacts, ModulesFacts, NvmlFacts, computing, not_started, require_gpu, user_space
from provision.verify.facts.health import XidsFacts
from provision.verify.facts.surroundings import UpgradesFacts

_TWO_VERSIONS = (
    "user space and the module on disk are of two versions, which no reboot cures: install both in one version "
    "(`dpkg -l '*nvidia*'` or `rpm -qa '*nvidia*'` shows the packages; what is of no package is NVIDIA's installer's: `nvidia-uninstall`)"
)
_TO_REBOOT = (
    "a reboot is pending: an upgrade changed the driver under the loaded module; after a reboot that changed nothing the initramfs "
    "has the old one: `update-initramfs -u -k all` or `dracut -f --regenerate-all`, and reboot"
)
# The packages that make the module, and those whose library loads against it.
_OF_ONE_VERSION: Final = re.compile(
    r"libnvidia-compute(-\d+(-server)?)?|nvidia-driver-cuda|nvidia-dkms(-\d+)?(-server)?(-open)?|nvidia-kernel(-open)?-dkms|kmod-nvidia-\w+-dkms"
)
_POWER = "power the host off and on again, which a reboot does not do; if the card still does not start, have it replaced"
# What to do about a card that the driver does not start, by the cause that it gives.
_CAUSES: Final = {
    "branch": "this branch of the driver does not drive the card: another one in stack.driver of the profile, then `gpuprov apply HOST`",
    "proprietary": "the open kernel modules require a GSP, which this card does not have: stack.driver_flavour, then `gpuprov apply HOST`",
    "flavour": "this card requires the open kernel modules: stack.driver_flavour of the profile, then `gpuprov apply HOST`",
    "firmware": "the driver did not find its firmware: reinstall its packages (`ls /lib/firmware/nvidia` has the versions), and reboot",
    "address-space": "the card gets no addresses for its memory: switch on `Above 4G Decoding` in the firmware, or large MMIO for the VM",
    "other-driver": "another kernel driver owns the card: `lspci -nnk -d 10de:` names it; take it from that driver, and reboot",
    "versions": _TWO_VERSIONS,
    "reset": "the card requires a reset: reboot the host",
    "start": _POWER,
}
_SLOT: Final = re.compile(r"\b(PCIe|NVL)\b", re.IGNORECASE)
_OTHER_FORM = "the profile asks for {}: a card for a PCIe slot has another power limit, and NVLink only by a bridge; compare instance type"
_BESIDE = "programs see the card of the display too, unless they are started with `CUDA_VISIBLE_DEVICES={}`"
# With these no card is left, and the kernel does not keep the module.
_UNLOADED: Final = frozenset({"branch", "proprietary", "address-space", "other-driver"})
_OTHER_MACHINE = "this is not the machine that the profile asks for: compare instance type and profile"
_NO_NAME: Final = re.compile(r"(NVIDIA )?Graphics Device")  # as a GTX 1660 Ti under driver 418
_NAMELESS = "the driver does not know the card's name, so it is older than the card: install a later branch (stack.driver)"
_OTHER_CARD = (
    "the cards of the profile are there, and others beside them, which a profile cannot describe: take those out, or waive this check in "
    "verify.waivers and start programs with CUDA_VISIBLE_DEVICES (`nvidia-smi -L` lists the cards)"
)
_SEE_LOG = "run `nvidia-smi` on the host, and see what the driver says in `journalctl -k -b | grep NVRM`"


def _gpu(facts: Facts, profile: Profile) -> Verdict:
    expected = f"{profile.gpu.count} x {profile.gpu.model.upper()}"
    gpu = require_gpu(facts)
    if gpu.nouveau:
        return fails(expected, "nouveau drives the GPU", "blacklist nouveau and reboot; the driver's package does it")
    if not gpu.module:
        owned = f" ({gpu.owners(gpu.pci)})" if gpu.drivers else ""
        observed = f"{len(gpu.pci)} on the bus{owned}, and no NVIDIA driver is loaded{_cause(facts, _UNLOADED)[0]}"
        return fails(expected, observed, _to_load(facts, profile))
    gpus = computing(facts)
    if lost := {index: device for index, device in gpus.items() if device.lost}:
        others = ", ".join(str(device.name.value or "no name") for device in gpus.values() if not device.lost)
        reasons = "; ".join(f"GPU {index}: {device.lost}" for index, device in lost.items())
        hint = after_loss(*(device.error.count() for device in lost.values()))
        return fails(expected, f"{reasons}; the others: {others or 'none'}", hint)
    names, card = [str(device.name.answer()) for device in gpus.values()], read.gpu(profile.gpu.model)
    right = [name for name in names if has_nvml_name(card, name)]
    observed = ", ".join(names) or "none"
    beside = ", ".join(str(device.name.value) for index, device in enumerate(facts.read(NvmlFacts).devices) if index not in gpus)
    shown = f"{observed}; beside them, for a display: {beside}" if beside else observed
    if len(right) == len(names) < min(profile.gpu.count, len(gpu.pci) - len(gpu.displays)):
        return _not_started(expected, observed, gpu, facts)
    if profile.gpu.count <= len(right) < len(names):
        return fails(expected, observed, _OTHER_CARD)
    if len(right) < profile.gpu.count:
        words = {word.upper() for word in card.nvml_words}
        if "SXM" in card.name and any(_SLOT.search(name) and words <= set(name.replace("-", " ").upper().split()) for name in names):
            return fails(expected, f"{observed}: of another form than {card.name}", _OTHER_FORM.format(card.name))
        nameless = any(map(_NO_NAME.fullmatch, names))
        return fails(expected, shown, _NAMELESS if nameless else _OTHER_MACHINE)
    if not gpu.readable or len(gpu.nodes) < len(names):
        nodes = ", ".join(gpu.nodes) or "missing"
        return fails(expected, f"{observed}; device nodes {nodes} not usable", "see the modes of /dev/nvidia*")
    if beside:
        uuids = ",".join(str(device.uuid.value) for device in gpus.values())
        return warns(expected, shown, _BESIDE.format(uuids))
    return passes(expected, observed)


def _not_started(expected: str, observed: str, gpu: GpuFacts, facts: Facts) -> Verdict:
    """Cards that are on the bus and that NVML does not list: the driver says why, or another one owns them."""
    absent = not_started(facts)
    said, hint = _cause(facts, _CAUSES.keys())
    if any(driver != "nvidia" for address, driver in (gpu.drivers or {}).items() if address in absent):
        hint = _CAUSES["other-driver"]
    return fails(expected, f"{observed}; on the bus and not started: {gpu.owners(absent)}{said}", hint or _SEE_LOG)


def _cause(facts: Facts, kinds: Collection[str]) -> tuple[str, str]:
    """The likeliest of the causes that the kernel log gives for a card that was not started, and what to do; empty where it gives none."""
    with contextlib.suppress(NotObservedError):
        for cause in facts.read(XidsFacts).causes:
            if cause.kind in kinds:
                return f"; {cause.last}", _CAUSES[cause.kind]
    return "", ""


def _to_load(facts: Facts, profile: Profile) -> str:
    """What to do where no driver is loaded; with Secure Boot on, the kernel may have refused the one that is there."""
    if profile.image_has is not None:
        return OF_THE_IMAGE
    if hint := _cause(facts, _UNLOADED)[1]:
        return hint
    with contextlib.suppress(NotObservedError):
        if facts.read(SecureBootFacts).on:
            return (
                "Secure Boot is on, and the kernel loads no module whose key is not enrolled: enroll the key that DKMS signs with "
                "(`mokutil --import`), or take the distribution's signed modules (stack.driver_build)"
            )
    return "install the driver, or reboot into it"


def _driver(facts: Facts, profile: Profile) -> Verdict:
    has = profile.image_has
    branch = has.driver if has is not None else profile.stack.driver
    expected = "one driver: loaded = installed = user space" + ("" if branch == "auto" else f", branch {branch}")
    expected += ", as the image has it" if has is not None else ""
    require_gpu(facts)
    driver = facts.read(DriverFacts)
    answer = facts.raw.get("nvml")
    nvml = str(facts.read(NvmlFacts).driver.answer()) if isinstance(answer, dict) and "value" in answer else None
    witnesses = {"loaded": driver.loaded, "installed": driver.installed, "NVML": nvml, "nvidia-smi": driver.nvidia_smi}
    versions = {where: version for where, version in witnesses.items() if version}
    silent = nvml is None and driver.nvidia_smi is None
    on_disk = user_space(facts)
    if driver.loaded and silent and on_disk:
        versions["user space on disk"] = on_disk
    observed = ", ".join(f"{where} {version}" for where, version in versions.items()) or "none"
    if not driver.loaded:
        return fails(expected, f"no driver is loaded ({observed})", _to_load(facts, profile))
    if len(set(versions.values())) > 1:
        apart = driver.installed and on_disk not in {None, driver.installed}
        return fails(expected, observed, _TWO_VERSIONS if apart else _TO_REBOOT)
    if branch != "auto" and not f"{driver.loaded}.".startswith(f"{branch}."):
        return fails(expected, observed, OF_THE_IMAGE if has is not None else f"install driver branch {branch}")
    if silent:
        observed = f"{observed}; user space did not answer: {driver.nvidia_smi_error or 'no NVML'}"
        if driver.nvidia_smi_code == MISMATCH:
            return fails(expected, observed, _TWO_VERSIONS)
        absent = driver.nvidia_smi_code in {None, NO_LIBRARY}
        return unknown(expected, observed, f"install the driver's user space, at exactly {driver.loaded}" if absent else _SEE_LOG)
    if driver.installed is None:
        return warns(expected, f"{observed}; the version on disk was not seen", "run where `modinfo nvidia` finds the module")
    return passes(expected, observed)


def _apart(facts: Facts, profile: Profile) -> str:
    """The modules on disk that are not of the version of user space; empty where there is none, or a version was not seen."""
    modules, library = facts.read(ModulesFacts), user_space(facts)
    kernels = modules.kernels
    if wants_signed(profile) or profile.image_has is not None:  # then the kernel that boots by itself counts
        kernels = tuple(sorted(modules.installed or kernels, key=lambda kernel: kernel.order)[-1:])
    versions = {kernel.kernel: kernel.version for kernel in kernels if kernel.version}
    with contextlib.suppress(NotObservedError):
        if not versions and (installed := facts.read(DriverFacts).installed):  # an older probe saw the running kernel's alone
            versions["the running kernel"] = installed
    other = [f"{version} for {kernel}" for kernel, version in versions.items() if version != library]
    return f"the module is {', '.join(other)}, and user space {library}" if library and other else ""


def _driver_on_disk(facts: Facts, profile: Profile) -> Verdict:
    verdict = _built(facts, profile)
    if verdict.outcome in {"pass", "warn"} and (apart := _apart(facts, profile)):
        return fails(verdict.expected, f"{verdict.observed}; {apart}", _TWO_VERSIONS)
    return verdict


def _held(facts: Facts, modules: ModulesFacts) -> tuple[str, bool]:
    """What of the driver is held, in words, and whether an upgrade leaves module and user space of one version: all of them are held."""
    # The container toolkit has its own releases, and replaces no driver.
    locks = [name for name in modules.held if "nvidia" in name and "container" not in name]
    loose: list[str] = []
    with contextlib.suppress(NotObservedError):
        loose = [name for name in facts.read(UpgradesFacts).packages if _OF_ONE_VERSION.fullmatch(name) and not modules.holds(name)]
    words = ", ".join(locks) or "no package of the driver"
    return f"{words}; NOT held: {', '.join(loose)}" if locks and loose else words, bool(locks) and not loose


def _built(facts: Facts, profile: Profile) -> Verdict:
    if wants_signed(profile):
        return _signed_on_disk(facts, facts.read(ModulesFacts))
    if profile.image_has is not None:
        return _on_the_image(facts, facts.read(ModulesFacts))
    expected = "the driver's module built for every kernel that has headers, and its packages held"
    modules = facts.read(ModulesFacts)
    kernels = ", ".join(f"{k.kernel} {'built' if k.built else 'NOT built'}" for k in modules.kernels) or "no kernel headers"
    held, locked = _held(facts, modules)
    observed = f"{kernels}; held: {held}"
    hint = apply("nvidia_driver", "installs, builds and holds it")
    if not modules.kernels or not all(kernel.built for kernel in modules.kernels):
        return fails(expected, observed, hint)
    return passes(expected, observed) if locked else warns(expected, observed, hint)


def _on_the_image(facts: Facts, modules: ModulesFacts) -> Verdict:
    """The image's own driver: how it came there is not known, so a kernel without headers is not a failure."""
    expected = "the image's own driver for every kernel that can be booted, and its packages held"
    kernels = sorted(modules.installed or modules.kernels, key=lambda kernel: kernel.order)
    held, locked = _held(facts, modules)
    words = ", ".join(f"{k.kernel} {'has it' if k.built else 'has NOT'}" for k in kernels) or "no kernel is seen"
    observed = f"{words}; held: {held}"
    if not kernels:
        return unknown(expected, observed, "see `modinfo nvidia` on the host")
    if not kernels[-1].built:
        return fails(expected, observed, OF_THE_IMAGE)
    return (
        passes(expected, observed)
        if locked
        else warns(expected, observed, "hold its packages in the image, or verify again after upgrades")
    )


def _signed_on_disk(facts: Facts, modules: ModulesFacts) -> Verdict:
    """Signed modules come built, for the kernel that the next boot takes; no kernel needs headers."""
    expected = "the signed module for the newest kernel, and the driver's packages held"
    if modules.installed is None:
        msg = "the probe sent no installed kernels"
        raise NotObservedError(msg)
    kernels = sorted(modules.installed or modules.kernels, key=lambda kernel: kernel.order)
    held, locked = _held(facts, modules)
    words = ", ".join(f"{k.kernel} {'has it' if k.built else 'has NOT'}" for k in kernels) or "no kernel is installed"
    observed = f"{words}; held: {held}"
    hint = apply("nvidia_driver", "installs and holds it")
    if not kernels or not kernels[-1].built:
        return fails(expected, observed, hint)
    return passes(expected, observed) if locked else warns(expected, observed, hint)


CHECKS = (
    Check("gpu", "the GPU is the one of the profile, and usable", _gpu, needs_gpu=True),
    Check("driver-on-disk", "the driver is built for every kernel, and held", _driver_on_disk, role="nvidia_driver", needs_gpu=True),
    Check("driver", "one driver version is loaded, installed and used", _driver, role="nvidia_driver", needs_gpu=True),
)
