"""File systems, and the disk below the root file system."""

from typing import Annotated

from pydantic import Field

from provision.verify.facts.base import Count, Fact, FactPart


class FileSystem(FactPart):
    """One mounted file system."""

    source: str
    target: Annotated[str, Field(pattern=r"^/")]
    type: Annotated[str, Field(min_length=1)]
    size_bytes: Annotated[int, Field(gt=0, lt=2**63)]
    free_bytes: Annotated[int, Field(ge=0, lt=2**63)]
    owner: str
    mode: Count
    writable: bool
    at_boot: bool | None


class FileSystemsFacts(Fact):
    """Every mounted file system that keeps data."""

    name = "file_systems"
    bare = "mounted"
    mounted: tuple[FileSystem, ...]

    def at(self, target: str) -> FileSystem | None:
        """The file system mounted last at a path."""
        return next((fs for fs in reversed(self.mounted) if fs.target == target), None)


class Partition(FactPart):
    """The partition of the root file system: its disk, its own size, what is free behind it, and what the file system has of it."""

    disk_bytes: Annotated[int, Field(gt=0, lt=2**63)]
    size_bytes: Annotated[int, Field(gt=0, lt=2**63)]
    behind_bytes: Annotated[int, Field(ge=0, lt=2**63)]
    file_system_bytes: Annotated[int, Field(gt=0, lt=2**63)]


class RootDiskFacts(Fact):
    """What / lies on; no partition where it is not ext4 or xfs on one."""

    name = "root_disk"
    source: str
    type: Annotated[str, Field(min_length=1)]
    partition: Partition | None
