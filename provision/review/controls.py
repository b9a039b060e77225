"""From a key of the profile to the check that proves it: key → role → check → report, linked by the check's id."""

from collections.abc import Mapping, Sequence
from typing import Final

from provision.converge.declared import Change, declaration
from provision.converge.roles import ROLES
from provision.profile import load
from provision.profile.model import Profile
from provision.review.tree import ControlItem
from provision.verify.checks import CHECKS, Check
from provision.verify.checks.base import SPLIT, TIERS

# The keys behind checks that no role declares, or that a role declares less exactly; a test holds that every check has a key.
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
    "secure-boot": ("os.secure_boot", "stack.driver_build"),
    "gpu-health": ("gpu.model",),
    "xid": ("gpu.model",),
    "gsp": ("stack.driver_flavour", "gpu.model"),
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
    "data-parallel": ("gpu.count",),
    "amp": ("stack.frameworks.pytorch", "gpu.model"),
    "triton": ("stack.extras",),
    "tensorrt": ("stack.extras", "gpu.model"),
    "transformer-engine": ("stack.extras", "gpu.model"),
    "flash-attention": ("stack.extras", "gpu.model"),
    "cutlass": ("stack.extras",),
    "opencl": ("stack.extras",),
    "bench": ("verify.bench", "verify.bench_days"),
    "egress": ("sources.proxy", "sources.no_proxy", "sources.ca"),
}


def controls(profile: Profile, lines: Mapping[str, int], changes: Sequence[Change]) -> tuple[ControlItem, ...]:
    """Every check in the order of the reports, with the keys, the role and the changes behind it."""
    return tuple(_control(check, profile, lines, changes) for check in CHECKS)


def _control(check: Check, profile: Profile, lines: Mapping[str, int], changes: Sequence[Change]) -> ControlItem:
    declarations = [declaration(role) for role in ROLES if check.id in declaration(role).checks]
    keys = KEYS.get(check.id) or tuple(dict.fromkeys(key for each in declarations for key in each.keys))
    role = check.role or next((each.role for each in declarations if each.entries), None)
    why = _why_not(check, profile)
    return ControlItem(
        check=check.id,
        title=check.title,
        keys=keys,
        lines=tuple(load.line_of(key, lines)[0] for key in keys),
        role=role,
        tasks=sum(change.role == role for change in changes),
        tier=check.tier,
        applies=not why,
        why=why,
        waived=next((waiver.expires.isoformat() for waiver in profile.verify.waivers if waiver.check == check.id), ""),
    )


def _why_not(check: Check, profile: Profile) -> str:
    """Why `verify` at the profile's tier will not judge a check; empty when it will."""
    if why := check.unasked(profile):
        return why
    if check.whole_gpus and profile.gpu.mig:
        return SPLIT
    if TIERS.index(check.tier) > TIERS.index(profile.verify.tier):
        return f"needs `--tier {check.tier}`"
    return ""
