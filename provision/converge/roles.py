"""Which roles there are, which ones a host needs, and what the lock tells them. Nothing else decides either."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from provision.catalog import read
from provision.errors import RoleUnknownError
from provision.paths import cache_dir
from provision.profile.locked import Lock, LockedEnvironment
from provision.profile.model import Profile
from provision.verify.finding import Finding

ROLES: Final = (
    "preflight",
    "sources",
    "counters",
    "packages",
    "base",
    "storage",
    "nvidia_driver",
    "persistence",
    "clocks",
    "cuda_toolkit",
    "cudnn",
    "cupti",
    "nsight",
    "ffmpeg",
    "opencv",
    "pytorch",
    "tensorflow",
    "jax",
    "extras",
)
# Their packages are not in the repositories that an image already knows.
_FROM_REPOSITORIES: Final = frozenset({"nvidia_driver", "cuda_toolkit", "cudnn", "cupti", "nsight", "extras"})

# Roles that are excused together with the GPU.
GPU_ROLES: Final = frozenset(
    {"counters", "nvidia_driver", "persistence", "clocks", "cuda_toolkit", "cudnn", "nsight", "pytorch", "tensorflow", "jax", "extras"}
)

# What has been found as it should be, or has been excused, or could not be made better by a role.
_AT_REST: Final = frozenset({"pass", "warn", "waived", "not-applicable"})
_LEAST_FREE_GB: Final = 5
# Shares that were not measured one by one, chosen so that their sum is above the whole: t4-debian on a Debian 12 host took 33 GB of the
# disk, of it 7.5 GB the packages' caches of the machine that holds the host (2026-11-21, `root-room` before and after, `du` of the caches).
# Those of jax and extras go by the size of their downloads alone.
_NEEDS_GB: Final = {"nvidia_driver": 2, "cuda_toolkit": 8, "nsight": 4, "pytorch": 9, "tensorflow": 9, "jax": 7, "extras": 2, "opencv": 1}
_BUILD_GB: Final = 2  # of OpenCV: sdist, source, objects, wheel and tools came to 1 GB on Debian 12


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


def with_groundwork(names: Sequence[str], lock: Lock) -> tuple[str, ...]:
    """The named roles and what they stand on: preflight always, repositories and packages where one of them needs packages."""
    if not names:
        return ()
    needed = {"preflight"}
    if any(lock.packages.get(name) for name in names):
        needed.add("packages")
    if any(lock.packages.get(name) for name in _FROM_REPOSITORIES & set(names)):
        needed.add("sources")
    if "opencv" in names and lock.opencv.source:
        needed |= {"sources", "cuda_toolkit"}
    # An environment that is made anew has nothing of what was added to it.
    if "pytorch" in names and any(extra.wheels for extra in lock.extras.values()):
        needed.add("extras")
    # The driver reads its options when it is loaded first: they must be there before it is.
    # The logins belong to the group that it makes.
    if "nvidia_driver" in names or ("base" in names and lock.counters == "group"):
        needed.add("counters")
    if "counters" in names and lock.counters == "group":
        needed.add("base")
    return in_order({*names, *needed})


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
    stack = profile.stack
    idle = {
        "persistence": not profile.gpu.persistence,
        "cudnn": stack.cudnn == "none",
        "nsight": not stack.profilers,
        "ffmpeg": not stack.ffmpeg,
        "opencv": stack.opencv == "none",
        "pytorch": stack.frameworks.pytorch is None,
        "tensorflow": stack.frameworks.tensorflow is None,
        "jax": stack.frameworks.jax is None,
        "extras": not stack.extras,
    }
    return tuple(role for role in ROLES if not idle.get(role) and not (without_gpu and role in GPU_ROLES))


def variables(profile: Profile, lock: Lock, roles: Sequence[str]) -> dict[str, Any]:
    """What the roles are told; a value that is not named here stays at the role's own default.

    Args:
        profile: what is asked.
        lock: what that was resolved to.
        roles: those that run; their packages are installed, and no others.
    """
    data, clocks, driver = profile.disks.data, lock.clocks, lock.driver
    nvidia = [r.model_dump(mode="json") for r in lock.repositories]
    dnf = [r for r in nvidia if r["kind"] == "dnf"]
    mirrored = profile.sources.apt is not None or profile.sources.dnf is not None
    builds = _BUILD_GB if "opencv" in roles and lock.opencv.source else 0
    told: dict[str, Any] = {
        "preflight_systems": [system.key for system in read.systems().systems],
        "preflight_system": lock.os,
        "preflight_free_gb": max(_LEAST_FREE_GB, sum(_NEEDS_GB.get(role, 0) for role in roles) + builds),
        "preflight_modules": "nvidia_driver" in roles,
        # A mirror may have them, and is not known to the host before the role sources.
        "preflight_headers": list(driver.headers) if "nvidia_driver" in roles and not mirrored else [],
        "sources_apt": [r for r in nvidia if r["kind"] == "apt"],
        "sources_dnf": dnf,
        "sources_branch": driver.branch,
        "sources_pinned": _patterns(driver.packages),
        "sources_hold": list(lock.hold),
        "sources_stream": driver.stream or "",
        "sources_locked": list(driver.pin) if dnf else [],
        "counters_open": profile.gpu.counters == "all-users",
        "counters_group": profile.gpu.counters == "group",
        # Debian's packages call the module nvidia-current; whoever replaces them by NVIDIA's has the other name.
        "counters_modules": list(dict.fromkeys([driver.module, "nvidia"])),
        "packages_by_role": {role: list(lock.packages[role]) for role in roles if role in lock.packages},
        "base_users": [{"name": user.name, "ssh_keys": list(user.ssh_keys)} for user in profile.users],
        "base_groups": ["gpuprov-counters"] if profile.gpu.counters == "group" else [],
        "nvidia_driver_module": driver.module,
        "nvidia_driver_packages": list(driver.packages),
        "clocks_mode": clocks.mode,
        "clocks_memory_mhz": clocks.memory_mhz or 0,
        "clocks_graphics_mhz": clocks.graphics_mhz or 0,
        "cuda_toolkit_home": lock.cuda.home,
    }
    if data is not None:
        told |= {"storage_source": data.source, "storage_mount": data.mount, "storage_filesystem": data.filesystem}
    told |= {
        "extras_wheels": sorted({line for extra in lock.extras.values() for line in extra.wheels}),
        "extras_packages": [extra.package for extra in lock.extras.values() if extra.wheels and extra.package],
        "extras_units": [{"name": extra.unit, "optional": True} for extra in lock.extras.values() if extra.unit],
    }
    environments = {**lock.frameworks, "opencv": lock.opencv.environment}
    for name, environment in environments.items():
        if environment is not None:
            told |= _environment(name, environment, lock)
    told |= _built(lock)
    return told | ({"extras_index": lock.wheel_index} if lock.wheel_index else {})


def _built(lock: Lock) -> dict[str, Any]:
    """How OpenCV is built; nothing where it is not."""
    made = lock.opencv
    if made.source is None or made.tools is None:
        return {}
    return {
        "opencv_source": made.source,
        "opencv_flags": list(made.build_flags),
        "opencv_tools": list(made.tools.wheels),
        "opencv_key": made.key,
        "opencv_cuda_home": lock.cuda.home,
        "opencv_cache": str(cache_dir() / "opencv"),
    }


def _environment(name: str, environment: LockedEnvironment, lock: Lock) -> dict[str, Any]:
    packages = lock.packages.get(name, ())
    # EL's newer Pythons come as packages of that name; elsewhere python3 is the version that the wheels are for.
    python = next((f"/usr/bin/{package}" for package in packages if package.startswith("python3.")), "/usr/bin/python3")
    told = {f"{name}_wheels": list(environment.wheels), f"{name}_python": python}
    return told | ({f"{name}_index": lock.wheel_index} if lock.wheel_index else {})


def _patterns(packages: Sequence[str]) -> list[str]:
    """What is pinned to the driver's branch: its own packages, without the versions that some of them carry in their names."""
    return sorted({name.partition("=")[0] for name in packages if "nvidia" in name or name.startswith("libcuda1")})
