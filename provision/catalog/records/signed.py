"""Signed kernel modules of the driver, and why some systems have none."""

from provision.catalog.records.base import CatalogRecord


class SignedModules(CatalogRecord, frozen=True):
    """Who signs kernel modules for some systems, and the packages that bring them.

    Attributes:
        signer: how the signer's name begins, as `modinfo -F signer` prints it.
        branches: empty where the repository's own choice counts.
        modules: flavour → packages; empty where it is not signed.
        fabric: the fabric manager of the same origin.
        kernel: patterns of the kernel's packages, which stay with the modules.
        withheld: patterns of packages that must not come from NVIDIA's repository.
        release: packages that add the repository.
        provided: whether the names of the modules are what packages provide, one for each kernel and driver; such a name takes no version.
        by_hand: what the owner of the host does first, since nobody else can.
    """

    systems: list[str]
    by: str
    signer: str
    branches: list[str]
    user_space: list[str]
    modules: dict[str, list[str]]
    video: list[str]
    fabric: str
    kernel: list[str]
    withheld: list[str]
    release: list[str]
    source: str
    provided: bool = False
    by_hand: str = ""


class UnsignedModules(CatalogRecord, frozen=True):
    """Why nobody's signed kernel modules load on some systems without a hand at the console."""

    systems: list[str]
    why: str
    source: str
