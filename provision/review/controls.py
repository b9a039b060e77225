"""The thread from a key of the profile to the check that proves it: key → role → check → report, by the check's id."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from provision.converge.declared import Change, declared
from provision.converge.roles import ROLES, all_roles
from provision.profile.model import Profile
from provision.review.tree import ControlItem
from provision.verify.checks import CHECKS, Check

__all__ = ["KEYS", "controls", "line_of"]

_TIERS: Final = ("quick", "standard", "perf")
# What asks for the checks that no role's declaration names, or more exactly than it says; a test holds that every check has a key.
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "python3": ("os",),
    "gcc": ("stack.tools",),
    "build-tools": ("stack.tools",),
    "tmux": ("stack.tools",),
    "users": ("users",),
    "data-disk": ("disks.data",),
    "root-grown": ("disks.root.size_gb",),
    "root-room": ("verify.min_free_gb", "disks.root.size_gb"),
    "gpu": ("gpu.model", "gpu.count"),
    "gpu-health": ("gpu.model",),
    "xid": ("gpu.model",),
    "throttling": ("gpu.model",),
    "device-nodes": ("gpu.model",),
    "pcie": ("gpu.model",),
    "nvlink": ("gpu.model", "gpu.count"),
    "fabric": ("gpu.model", "gpu.count"),
    "skew": ("stack",),
    "environment": ("stack",),
    "pynvml": ("stack",),
    "gemm": ("gpu.model",),
    "memory-bandwidth": ("gpu.model",),
    "host-copies": ("gpu.model",),
    "all-reduce": ("gpu.count",),
}
# Where the profile alone says that a check has nothing to judge; the hardware may say it of others.
_ASKED: Final[Mapping[str, tuple[Callable[[Profile], bool], str]]] = {
    "data-disk": (lambda p: p.disks.data is not None, "no data disk is asked for"),
    "users": (lambda p: bool(p.users), "no login is asked for"),
    "nvenc": (lambda p: p.stack.ffmpeg, "ffmpeg is not asked for"),
    "opencv-cuda": (lambda p: p.stack.opencv == "cuda", "OpenCV with CUDA is not asked for"),
    "gcc": (lambda p: "gcc" in p.stack.tools, "gcc is not asked for"),
    "tmux": (lambda p: "tmux" in p.stack.tools, "tmux is not asked for"),
    "clocks-at-boot": (lambda p: p.gpu.application_clocks != "default", "the clocks are left to the card"),
    "application-clocks": (lambda p: p.gpu.application_clocks != "default", "the clocks are left to the card"),
    "counters": (
        lambda p: p.gpu.counters != "all-users" or p.verify.tier != "quick",
        "needs `--tier standard`: what an ordinary user gets takes a profiler to see",
    ),
    "all-reduce": (lambda p: p.gpu.count > 1, "there is one GPU"),
}


def line_of(key: str, lines: Mapping[str, int]) -> tuple[int | None, bool]:
    """Where a key, or the nearest above it that is written, stands; and whether it is that very key."""
    parts = key.split(".")
    for length in range(len(parts), 0, -1):
        if found := lines.get(".".join(parts[:length])):
            return found, length == len(parts)
    return None, False


def controls(profile: Profile, lines: Mapping[str, int], changed: Sequence[Change]) -> tuple[ControlItem, ...]:
    """Every check, in the order of reports, with what leads to it."""
    roles = set(all_roles(profile, without_gpu=False))
    return tuple(_control(check, profile, lines, changed, roles) for check in CHECKS)


def _control(check: Check, profile: Profile, lines: Mapping[str, int], changed: Sequence[Change], roles: set[str]) -> ControlItem:
    naming = [declared(role) for role in ROLES if check.id in declared(role).checks]
    keys = KEYS.get(check.id) or tuple(dict.fromkeys(key for each in naming for key in each.keys))
    role = check.role or next((each.role for each in naming if each.entries), None)
    why = _why_not(check, profile, roles)
    waived = next((w.expires.isoformat() for w in profile.verify.waivers if w.check == check.id), "")
    return ControlItem(
        check=check.id,
        title=check.title,
        keys=keys,
        lines=tuple(line_of(key, lines)[0] for key in keys),
        role=role,
        tasks=sum(change.role == role for change in changed),
        tier=check.tier,
        applies=not why,
        why=why,
        waived=waived,
    )


def _why_not(check: Check, profile: Profile, roles: set[str]) -> str:
    """Why `verify` at the profile's tier will not judge a check; empty when it will."""
    if check.id in _ASKED and not _ASKED[check.id][0](profile):
        return _ASKED[check.id][1]
    if check.role is not None and check.role not in roles:
        return f"nothing asks for the role {check.role}"
    if _TIERS.index(check.tier) > _TIERS.index(profile.verify.tier):
        return f"needs `--tier {check.tier}`"
    return ""
