"""What surrounds the stack: variables, the boot image, upgrades."""

from typing import Annotated

from pydantic import Field

from provision.verify.facts.base import Fact, FactPart


class LibraryFolder(FactPart):
    """A folder in LD_LIBRARY_PATH: where it really is, whether the loader looks there anyway, and its libraries of CUDA's.

    `files` are the names of the files, which end in versions; None where they were not seen.
    """

    place: str
    own: bool
    files: tuple[str, ...] | None


class VariablesFacts(Fact):
    """What each kind of session and /etc/environment set of the variables that change what CUDA does; None: not seen.

    Attributes:
        files: path → what it sets, for the files that PAM and systemd read, and the shells' own where no login shell was seen.
        unread: the files of these that the probe may not read.
        by_files: `login` and `service`, where only files told of them.
        libraries: what is in each folder of LD_LIBRARY_PATH.
    """

    name = "variables"
    login: dict[str, str] | None
    ssh: dict[str, str] | None
    service: dict[str, str] | None
    system: dict[str, str]
    files: dict[str, dict[str, str]] = Field(default_factory=dict)
    unread: tuple[str, ...] = ()
    by_files: tuple[str, ...] = ()
    libraries: dict[str, LibraryFolder] = Field(default_factory=dict)


class BootFile(FactPart):
    """A file that the next boot reads, and when it was written, in seconds of the epoch."""

    path: Annotated[str, Field(pattern=r"^/")]
    changed: float


class InitramfsFacts(Fact):
    """The file that decides on the counters, None where none does; and the running kernel's initramfs, None where none was found."""

    name = "initramfs"
    option: BootFile | None
    image: BootFile | None


class UpgradesFacts(Fact):
    """Packages of the driver, whether upgrades are installed unattended, and which patterns they leave out."""

    name = "upgrades"
    packages: tuple[str, ...]
    unattended: bool
    excluded: tuple[str, ...]
