"""Whether a profile wants signed kernel modules, which Secure Boot needs, and the driver that comes with them."""

from typing import TYPE_CHECKING, Literal

from provision import clouds
from provision.catalog.records.signed import SignedModules
from provision.clouds.offline import PlaceBase
from provision.errors import StackConflictError
from provision.profile.locked import LockedDriver
from provision.profile.pins import PackagePin

if TYPE_CHECKING:
    from provision.profile.model import Profile


def wants_signed(profile: "Profile") -> bool:
    """Whether the kernel modules must be signed: the profile says so, or leaves it open and requires Secure Boot."""
    build, required = profile.stack.driver_build, profile.os.secure_boot == "required"
    return build == "signed" or (build == "auto" and required)


def no_secure_boot(profile: "Profile", place: PlaceBase) -> str:
    """Why a place cannot have the Secure Boot that the profile requires; empty where it can, or need not."""
    support = clouds.provider(place.cloud).secure_boot
    return "" if support.available or profile.os.secure_boot != "required" else support.why


def signed_driver(
    record: SignedModules, branch: str, flavour: Literal["open", "proprietary"], kernels: list[str], *, video: bool
) -> LockedDriver:
    """The driver with signed modules: its user space first, then the modules.

    Args:
        record: whose modules.
        branch: of the driver.
        flavour: of its modules.
        kernels: the kernels of the profile's places.
        video: whether encoding and decoding are needed.

    Raises:
        StackConflictError: a host would get the modules, and with them the kernel, of another cloud.
    """
    if any("<flavour>" in name for name in record.modules[flavour]) and len(kernels) > 1:
        msg = f"signed modules belong to one kernel each, and the places have {' and '.join(kernels)}"
        raise StackConflictError(msg, hint="write one profile for each cloud, or set stack.driver_build to dkms", of="places")
    names = [*record.user_space, *(record.video if video else ()), *record.modules[flavour]]
    return LockedDriver(
        branch=branch,
        flavour=flavour,
        packages=tuple(name.replace("<branch>", branch).replace("<flavour>", kernels[0]) for name in names),
        stream=None,
        pin=(),
        headers=(),
        module="nvidia",
        build="signed",
        signer=record.signer,
    )


def signed_packages(record: SignedModules, driver: LockedDriver, manager: Literal["apt", "dnf"]) -> list[str]:
    """The packages of a signed driver as the package manager takes them.

    An archive keeps one version of each, the one with its last update. Names of apt hold the branch; with dnf it stands in the version.
    What a package only provides has no version that dnf would match; user space requires the module of its own version.
    """
    if manager == "apt":
        return [*driver.packages]
    free = provided_modules(record, driver)
    return [name if name in free else PackagePin(name, f"{driver.branch}.*").text(manager) for name in driver.packages]


def provided_modules(record: SignedModules, driver: LockedDriver) -> tuple[str, ...]:
    """The names of modules that are not a package's own name, so that nothing can be held by them."""
    return tuple(record.modules[driver.flavour]) if record.provided else ()
