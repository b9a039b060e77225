"""Disks: the data disk in its layers (mounted now, of its kind, mounted by the next boot, usable); a grown root disk, and room on it."""

from typing import Final

from provision.profile.model import Profile
from provision.verify.checks.base import Check, Verdict, apply, fails, not_applicable, passes, unless, warns
from provision.verify.facts import Facts
from provision.verify.facts.disk import FileSystemsFacts, RootDiskFacts

_GB = 10**9
# A file system's own structures take a few per cent; ext4 also reserves 5 % for root.
_USABLE = 0.90
# Behind the last partition: alignment, and the second copy of the partition table.
_SLACK = 0.01


_NO_DATA_DISK: Final = unless(lambda p: p.disks.data, "the profile asks for no data disk")


def _data_disk(facts: Facts, profile: Profile) -> Verdict:
    disk = profile.disks.data
    assert disk is not None  # noqa: S101 - it is asked for
    expected = f"{disk.filesystem} at {disk.mount}" + (f", {disk.size_gb} GB" if disk.size_gb else "")
    file_system = facts.read(FileSystemsFacts).at(disk.mount)
    hint = apply("storage", "sets it up")
    if file_system is None:
        return fails(expected, f"nothing is mounted at {disk.mount}", hint)
    size_gb = file_system.size_bytes / _GB
    observed = f"{file_system.source} ({file_system.type}, {size_gb:.0f} GB) at {file_system.target}, owned by {file_system.owner}"
    if file_system.type != disk.filesystem:
        return fails(expected, observed, "save its content and blank the disk: gpuprov never formats a disk that holds a file system")
    if disk.size_gb and size_gb < disk.size_gb * _USABLE:
        return fails(expected, observed, "grow the volume and its file system, or mount the right one")
    if not file_system.writable:
        return fails(expected, f"{observed}; not writable by the user of this observation", hint)
    if file_system.at_boot is None:
        return warns(expected, f"{observed}; whether the next boot mounts it could not be seen", "look for a mount unit on the host")
    if not file_system.at_boot:
        return warns(expected, f"{observed}; will not be mounted by the next boot", hint)
    return passes(expected, f"{observed}, mounted by a unit at boot")


def _root_room(facts: Facts, profile: Profile) -> Verdict:
    root = facts.read(FileSystemsFacts).at("/")
    expected = f"at least {profile.verify.min_free_gb} GB free on /"
    if root is None:
        return fails(expected, "nothing is mounted at /", "see `df -h` on the host")
    observed = f"{root.free_bytes / _GB:.1f} of {root.size_bytes / _GB:.0f} GB free"
    if root.free_bytes < profile.verify.min_free_gb * _GB:
        return fails(expected, observed, "free space, or raise disks.root.size_gb and launch again")
    return passes(expected, observed)


def _root_grown(facts: Facts, _profile: Profile) -> Verdict:
    root = facts.read(RootDiskFacts)
    part = root.partition
    if part is None:
        return not_applicable(f"/ is {root.type} on {root.source}: no partition that gpuprov would grow")
    expected = "a root partition and file system that fill their disk"
    disk_gb, part_gb, system_gb = (size / _GB for size in (part.disk_bytes, part.size_bytes, part.file_system_bytes))
    observed = f"a disk of {disk_gb:.1f} GB, the partition {part_gb:.1f}, its file system {system_gb:.1f}"
    if part.behind_bytes > part.disk_bytes * _SLACK or part.file_system_bytes < part.size_bytes * _USABLE:
        return fails(expected, observed, apply("storage", "grows it, without a reboot"))
    return passes(expected, observed)


CHECKS = (
    Check("data-disk", "the data disk is mounted, of its kind, and survives a reboot", _data_disk, role="storage", unasked=_NO_DATA_DISK),
    Check("root-grown", "the root file system fills its disk", _root_grown, role="storage"),
    Check("root-room", "the root disk has room", _root_room),
)
