"""Disks: the data disk in its layers (mounted now, of its kind, mounted by the next boot, usable); a grown root disk, and room on it."""

from __future__ import annotations

from provision.profile.model import Profile
from provision.verify.checks.base import Check, Verdict, failed, not_asked, passed, warned
from provision.verify.facts import Facts
from provision.verify.facts.disk import FileSystemsFacts, RootDiskFacts

__all__ = ["CHECKS"]

_GB = 10**9
# A file system's own structures take a few per cent; ext4 also keeps 5 % for root.
_USABLE = 0.90
# Behind the last partition: alignment, and the second copy of the partition table.
_SLACK = 0.01
_ROLE = "`gpuprov apply HOST --role storage` sets it up"


def _data_disk(facts: Facts, profile: Profile) -> Verdict:
    asked = profile.disks.data
    if asked is None:
        return not_asked("the profile asks for no data disk")
    expected = f"{asked.filesystem} at {asked.mount}" + (f", {asked.size_gb} GB" if asked.size_gb else "")
    found = facts.read(FileSystemsFacts).at(asked.mount)
    if found is None:
        return failed(expected, f"nothing is mounted at {asked.mount}", _ROLE)
    size_gb = found.size_bytes / _GB
    observed = f"{found.source} ({found.type}, {size_gb:.0f} GB) at {found.target}, owned by {found.owner}"
    if found.type != asked.filesystem:
        return failed(expected, observed, "save what is on it and blank the disk: gpuprov never formats a disk that holds a file system")
    if asked.size_gb and size_gb < asked.size_gb * _USABLE:
        return failed(expected, observed, "grow the volume and its file system, or mount the right one")
    if not found.writable:
        return failed(expected, f"{observed}; not writable by the user who looked", _ROLE)
    if found.at_boot is None:
        return warned(expected, f"{observed}; whether the next boot mounts it could not be seen", "look for a mount unit on the host")
    if not found.at_boot:
        return warned(expected, f"{observed}; will not be mounted by the next boot", _ROLE)
    return passed(expected, f"{observed}, mounted by a unit at boot")


def _root_room(facts: Facts, profile: Profile) -> Verdict:
    found = facts.read(FileSystemsFacts).at("/")
    expected = f"at least {profile.verify.min_free_gb} GB free on /"
    if found is None:
        return failed(expected, "nothing is mounted at /", "see `df -h` on the host")
    observed = f"{found.free_bytes / _GB:.1f} of {found.size_bytes / _GB:.0f} GB free"
    if found.free_bytes < profile.verify.min_free_gb * _GB:
        return failed(expected, observed, "free space, or raise disks.root.size_gb and launch again")
    return passed(expected, observed)


def _root_grown(facts: Facts, _profile: Profile) -> Verdict:
    found = facts.read(RootDiskFacts)
    expected = "a root partition and file system that fill their disk"
    if found.partition is None:
        return not_asked(f"/ is {found.type} on {found.source}: no partition that gpuprov would grow")
    disk, part, system = (
        size / _GB for size in (found.partition.disk_bytes, found.partition.size_bytes, found.partition.file_system_bytes)
    )
    observed = f"a disk of {disk:.1f} GB, the partition {part:.1f}, its file system {system:.1f}"
    if found.partition.behind_bytes > found.partition.disk_bytes * _SLACK or system < part * _USABLE:
        return failed(expected, observed, "`gpuprov apply HOST --role storage` grows it, without a reboot")
    return passed(expected, observed)


CHECKS = (
    Check("data-disk", "the data disk is mounted, of its kind, and survives a reboot", _data_disk, role="storage"),
    Check("root-grown", "the root file system fills its disk", _root_grown, role="storage"),
    Check("root-room", "the root disk has room", _root_room),
)
