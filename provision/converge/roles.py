"""Which roles there are, which ones a host needs, and what the profile tells them. Nothing else decides either."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from provision.errors import RoleUnknownError
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.verify.finding import Finding

__all__ = ["GPU_ROLES", "ROLES", "all_roles", "in_order", "roles_for", "variables"]

ROLES: Final = ("base", "storage", "environment", "opencv", "frameworks")

# Roles that are excused together with the GPU.
GPU_ROLES: Final = frozenset({"frameworks"})

# What has been found as it should be, or has been excused, or could not be made better by a role.
_AT_REST: Final = frozenset({"pass", "warn", "waived", "not-applicable"})


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """The named roles, each once, in the order in which they run.

    Raises:
        RoleUnknownError: there is no role of that name.
    """
    wanted = set(names)
    for name in sorted(wanted - set(ROLES)):
        msg = f"there is no role {name!r}"
        raise RoleUnknownError(msg, hint=f"the roles are {', '.join(ROLES)}")
    return tuple(role for role in ROLES if role in wanted)


def roles_for(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The roles that the findings ask for, in the order in which they run.

    A failed or unknown check names its role. The exception is a check of the GPU that is unknown: no role can put a GPU into a
    host, and gigabytes of wheels would be loaded for one that nobody has seen.
    """
    return in_order(
        finding.role
        for finding in findings
        if finding.role is not None and finding.outcome not in _AT_REST and not (finding.needs_gpu and finding.outcome == "unknown")
    )


def all_roles(profile: Profile, *, without_gpu: bool) -> tuple[str, ...]:
    """Every role that the profile gives something to do, whatever the findings say (`--all`)."""
    frameworks = profile.stack.frameworks
    idle = {
        "storage": profile.disks.data is None,
        "opencv": profile.stack.opencv == "none",
        "frameworks": frameworks.pytorch is None and frameworks.tensorflow is None,
    }
    return tuple(role for role in ROLES if not idle.get(role) and not (without_gpu and role in GPU_ROLES))


def variables(profile: Profile, lock: Lock | None = None) -> dict[str, Any]:
    """What the roles are told; a value that is not named here stays at the role's own default.

    Args:
        profile: what is asked, its open choices closed where it was locked.
        lock: the exact versions of what a profile does not name, such as the cuDNN that TensorFlow runs with.
    """
    stack, data = profile.stack, profile.disks.data
    told: dict[str, Any] = {
        "base_tools": list(stack.tools),
        "base_ffmpeg": stack.ffmpeg,
        "base_users": [{"name": user.name, "ssh_keys": list(user.ssh_keys)} for user in profile.users],
        "frameworks_pytorch_enabled": stack.frameworks.pytorch is not None,
        "frameworks_tensorflow_enabled": stack.frameworks.tensorflow is not None,
    }
    if data is not None:
        told |= {"storage_source": data.source, "storage_mount": data.mount, "storage_filesystem": data.filesystem}
    for framework in ("pytorch", "tensorflow"):
        version = getattr(stack.frameworks, framework)
        if version not in {None, "auto"}:
            told[f"frameworks_{framework}_version"] = version
    if lock is not None:
        told |= _locked(lock)
    return told


def _locked(lock: Lock) -> dict[str, Any]:
    told: dict[str, Any] = {}
    tensorflow, opencv = lock.frameworks.get("tensorflow"), lock.opencv.environment
    if tensorflow is not None and tensorflow.cudnn is not None:
        told["frameworks_tensorflow_cudnn_version"] = tensorflow.cudnn
    if opencv is not None:
        told["opencv_version"] = opencv.version
        told["opencv_numpy_version"] = opencv.wheel("numpy")
    return told
