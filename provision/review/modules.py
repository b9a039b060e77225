"""What a review says of Secure Boot and of where the driver's kernel modules come from."""

from collections.abc import Iterator
from typing import Protocol

from provision import clouds
from provision.catalog import read
from provision.launch.plan import Plan
from provision.profile.packages import system_of
from provision.review.tree import Gain, Severity

_KEY = "stack.driver_build"


class AddRisk(Protocol):
    """Adds one risk to the register."""

    def __call__(self, risk_id: str, severity: Severity, title: str, reason: str, *, narrower: str = "", key: str = "") -> None:
        """As in the register."""


def modules(add: AddRisk, plan: Plan) -> None:
    """The risks of modules that are built on the host, or of those that come signed."""
    driver = plan.lock.driver
    record = read.driver().signed_for(plan.lock.os)
    by_hand = system_of(plan.lock.os).by_hand if driver.build == "dkms" else record.by_hand if record else ""
    if by_hand:
        why = f"the set-up is refused before anything is changed until this is done: {by_hand}"
        add("by-hand", "note", "The owner of the host enables its repositories", why, key="os")
    has = plan.profile.image_has
    if has is not None:
        why = (
            f"whoever made the image installed driver {has.driver}, from where and signed by whom is not seen; gpuprov leaves it, and "
            "`verify` proves its branch and that one version is loaded, installed and used"
        )
        add("driver-of-image", "low", "The driver is the image's own", why, narrower="no `has` in `image:`", key="places.0.image.has")
        return
    if driver.build == "dkms":
        why = "the driver's kernel modules are built on the host; Secure Boot loads them only where DKMS signs with an enrolled key"
        add("secure-boot", "medium", "Secure Boot must be off", why, narrower=_narrower(plan), key="stack.driver")
        return
    for cloud in dict.fromkeys(place.cloud for place in plan.candidates if not place.secure_boot):
        why = f"{clouds.provider(cloud).secure_boot.why}; nothing checks the signatures of what is booted there"
        narrower = "`os.secure_boot: required`, which uses no such place"
        add("secure-boot-off", "low", f"Secure Boot is off on {clouds.provider(cloud).title}", why, narrower=narrower, key="os.secure_boot")
    if not plan.places:
        why = "the host exists, so only `verify` can say; the signed modules load either way"
        add("secure-boot-open", "note", "Whether Secure Boot is on is the host's", why, key="os.secure_boot")
    if record is None:
        return
    why = (
        f"{record.by} builds and signs them for its own kernels: no DKMS, compiler or headers for them, and no key to enrol; NVIDIA's "
        "other branches, exact versions of the driver, and modules that nobody signs (GPUDirect Storage, gdrcopy, GRID) are given up"
    )
    add("modules-signed", "note", f"The driver's modules come from {record.by}", why, narrower="", key=_KEY)
    if record.kernel:
        why = (
            "a kernel that came alone would boot without the driver, so unattended upgrades skip both; security fixes come with a new lock"
        )
        add("kernel-held", "low", "The kernel is not upgraded automatically", why, narrower="a new lock at regular intervals", key=_KEY)
    if record.release:
        why = f"{' and '.join(record.release)} adds a repository of signed modules and NVIDIA's own, with keys from that package"
        add("repository-added", "low", f"A package of {record.by}'s adds repositories", why, narrower="`driver_build: dkms`", key=_KEY)


def _narrower(plan: Plan) -> str:
    """The way to Secure Boot; where there is none, nothing is said here."""
    record = read.driver().signed_for(plan.lock.os)
    if record is None or not record.modules[plan.lock.driver.flavour]:
        return ""
    return f"`driver_build: signed`: {record.by} signs driver {' and '.join(record.branches) or 'releases'} for {plan.lock.os}"


def secured(plan: Plan) -> Iterator[Gain]:
    """What signed modules make safer, where Secure Boot is on."""
    titles = [clouds.provider(cloud).title for cloud in dict.fromkeys(place.cloud for place in plan.candidates if place.secure_boot)]
    if titles:
        why = f"on {' and '.join(titles)}: firmware, boot loader, kernel and the driver's modules are signed, and nothing else is loaded"
        yield Gain("Secure Boot stays on", why)
