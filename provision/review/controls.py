"""From a key of the profile to the check that proves it: key → role → check → report, linked by the check's id."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from provision.converge.declared import Change, declaration
from provision.converge.roles import ROLES, all_roles
from provision.profile import load
from provision.profile.model import Profile
from provision.profile.signed import wants_signed
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
# Where the profile alone says that a check has nothing to judge; for other checks the hardware may say it.
_CONDITIONS: Final[Mapping[str, tuple[Callable[[Profile], bool], str]]] = {
    "data-disk": (lambda p: p.disks.data is not None, "the profile has no data disk"),
    "users": (lambda p: bool(p.users), "the profile has no logins"),
    "nvenc": (lambda p: p.stack.ffmpeg, "the profile does not ask for ffmpeg"),
    "opencv-cuda": (lambda p: p.stack.opencv == "cuda", "the profile does not ask for OpenCV with CUDA"),
    "gcc": (lambda p: "gcc" in p.stack.tools, "the profile does not ask for gcc"),
    "tmux": (lambda p: "tmux" in p.stack.tools, "the profile does not ask for tmux"),
    "clocks-at-boot": (lambda p: p.gpu.application_clocks != "default", "the clocks stay at the card's default"),
    "application-clocks": (lambda p: p.gpu.application_clocks != "default", "the clocks stay at the card's default"),
    "counters": (
        lambda p: p.gpu.counters != "all-users" or p.verify.tier != "quick",
        "needs `--tier standard`, because only a profiler shows what an ordinary user gets",
    ),
    "secure-boot": (wants_signed, "the profile asks for modules that are built on the host"),
    "signed-modules": (wants_signed, "the profile asks for modules that are built on the host"),
    "all-reduce": (lambda p: p.gpu.count > 1, "there is only one GPU"),
    "data-parallel": (lambda p: p.gpu.count > 1, "there is only one GPU"),
    "amp": (lambda p: p.stack.frameworks.pytorch is not None, "the profile does not ask for PyTorch"),
    "python-packages": (
        lambda p: p.stack.python is not None and p.stack.python.file is not None,
        "the profile names no packages of its own",
    ),
    "containers-installed": (lambda p: p.stack.containers != "none", "the profile asks for no containers"),
    "containers": (lambda p: p.stack.containers != "none", "the profile asks for no containers"),
    "ray": (lambda p: p.stack.ray is not None, "the profile asks for no Ray cluster"),
    "triton": (lambda p: "triton" in p.stack.extras, "the profile does not ask for Triton"),
    "tensorrt": (lambda p: "tensorrt" in p.stack.extras, "the profile does not ask for TensorRT"),
    "transformer-engine": (lambda p: "transformer-engine" in p.stack.extras, "the profile does not ask for Transformer Engine"),
    "flash-attention": (lambda p: "flash-attn" in p.stack.extras, "the profile does not ask for FlashAttention"),
    "cutlass": (lambda p: "cutlass" in p.stack.extras, "the profile does not ask for CUTLASS"),
    "opencl": (lambda p: "opencl" in p.stack.extras, "the profile does not ask for OpenCL"),
    "egress": (lambda p: bool(p.sources.proxy or p.sources.ca), "the profile names neither a proxy nor an authority"),
    "bench": (lambda p: bool(p.verify.bench), "the profile demands no measurement"),
    "clocks-held": (lambda p: p.gpu.application_clocks != "default", "the clocks stay at the card's default"),
}


def controls(profile: Profile, lines: Mapping[str, int], changes: Sequence[Change]) -> tuple[ControlItem, ...]:
    """Every check in the order of the reports, with the keys, the role and the changes behind it."""
    roles = set(all_roles(profile, without_gpu=False))
    return tuple(_control(check, profile, lines, changes, roles) for check in CHECKS)


def _control(check: Check, profile: Profile, lines: Mapping[str, int], changes: Sequence[Change], roles: set[str]) -> ControlItem:
    declarations = [declaration(role) for role in ROLES if check.id in declaration(role).checks]
    keys = KEYS.get(check.id) or tuple(dict.fromkeys(key for each in declarations for key in each.keys))
    role = check.role or next((each.role for each in declarations if each.entries), None)
    why = _why_not(check, profile, roles)
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


def _why_not(check: Check, profile: Profile, roles: set[str]) -> str:
    """Why `verify` at the profile's tier will not judge a check; empty when it will."""
    if check.id in _CONDITIONS and not _CONDITIONS[check.id][0](profile):
        return _CONDITIONS[check.id][1]
    if check.whole_gpus and profile.gpu.mig:
        return SPLIT
    if check.role is not None and check.role not in roles:
        return f"the profile does not need the role {check.role}"
    if TIERS.index(check.tier) > TIERS.index(profile.verify.tier):
        return f"needs `--tier {check.tier}`"
    return ""
