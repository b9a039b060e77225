"""What the roles are told about one profile and its lock: one function a role, each with the variables that carry its name."""

import fnmatch
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from provision import canonical
from provision.catalog import read
from provision.profile import egress
from provision.profile.libraries import RELEASED
from provision.profile.locked import Lock, LockedClocks, LockedContainers, LockedDriver, LockedEnvironment, LockedOpenCv, environment_of
from provision.profile.model import DataDisk, Profile
from provision.profile.packages import system_of
from provision.profile.pins import PackagePin
from provision.profile.signed import provided_modules

_LEAST_FREE_GB: Final = 5
# Disk that each role takes. The shares were not measured one by one; they are chosen so that their sum is above the whole: t4-debian took
# 33 GB on a Debian 12 host, 7.5 GB of which were package caches that belong to the machine under the host (2026-11-21, `root-room` before
# and after, `du` of the caches). The shares of jax and extras follow from the size of their downloads alone.
_NEEDS_GB: Final = {
    "nvidia_driver": 2,
    "cuda_toolkit": 8,
    "nsight": 4,
    "pytorch": 9,
    "tensorflow": 9,
    "jax": 7,
    "extras": 2,
    "opencv": 1,
    "containers": 1,
    "python": 2,
}
_LIBRARY_GB: Final = 6  # of TensorRT's packages (5 GB as a recipe of others measured them), or of a build against PyTorch
_BUILD_GB: Final = 2  # of OpenCV: sdist, source, objects, wheel and tools came to 1 GB on Debian 12


def variables(profile: Profile, lock: Lock, roles: Sequence[str]) -> dict[str, Any]:
    """Everything the roles are told; a variable that is not in here stays at the role's own default.

    Args:
        profile: what the host should be.
        lock: the exact versions.
        roles: the roles that run; only their packages are installed.
    """
    environments = {**lock.frameworks, "opencv": lock.opencv.environment}
    return {
        **_preflight(profile, lock, roles),
        **_sources(lock),
        **_egress(profile, lock),
        **_counters(profile, lock.driver),
        "packages_by_role": {role: list(lock.packages[role]) for role in roles if role in lock.packages},
        **_base(profile),
        "nvidia_driver_module": lock.driver.module,
        "nvidia_driver_signer": lock.driver.signer,
        **_fabric_manager(lock, roles),
        "nvidia_driver_gsp": lock.driver.gsp == "default",
        "mig_slices": list(lock.gpu.mig),
        **_clocks(lock.clocks),
        "cuda_toolkit_home": lock.cuda.home,
        **_storage(profile.disks.data),
        **_extras(lock),
        **{
            name: value
            for framework, environment in environments.items()
            if environment is not None
            for name, value in _environment(framework, environment, lock).items()
        },
        **_containers(profile, lock.containers),
        **_python(lock),
        **_ray(profile, lock),
        **_opencv_build(lock.opencv, lock.cuda.home),
        **({"extras_index": lock.wheel_index} if lock.wheel_index else {}),
    }


def _preflight(profile: Profile, lock: Lock, roles: Sequence[str]) -> dict[str, Any]:
    build_gb = _BUILD_GB if "opencv" in roles and lock.opencv.source else 0
    if "extras" in roles:
        build_gb += _LIBRARY_GB * sum(extra.build is not None or name == "tensorrt" for name, extra in lock.extras.items())
    mirror = profile.sources.apt is not None or profile.sources.dnf is not None
    with_driver = "nvidia_driver" in roles
    return {
        "preflight_systems": [system.key for system in read.systems().systems],
        "preflight_system": lock.os,
        "preflight_free_gb": max(_LEAST_FREE_GB, sum(_NEEDS_GB.get(role, 0) for role in roles) + build_gb),
        "preflight_modules": with_driver and lock.driver.build == "dkms",
        # A mirror may have the headers, but the host does not know the mirror before the role sources has run.
        "preflight_headers": list(lock.driver.headers) if with_driver and not mirror else [],
        "preflight_repositories": [repository.model_dump(mode="json") for repository in lock.repositories] if "sources" in roles else [],
        **({"preflight_branch": lock.driver.branch, **_by_hand(lock)} if with_driver else {}),
    }


def _by_hand(lock: Lock) -> dict[str, Any]:
    """What only the owner of the host can prepare: the packages that its own repositories must have, and how."""
    system, record = system_of(lock.os), read.driver().signed_for(lock.os)
    if lock.driver.build == "signed" and record:
        return {"preflight_given": [*provided_modules(record, lock.driver)], "preflight_by_hand": record.by_hand}
    return {"preflight_given": ["dkms"] if system.by_hand else [], "preflight_by_hand": system.by_hand}


def _sources(lock: Lock) -> dict[str, Any]:
    repositories = [repository.model_dump(mode="json") for repository in lock.repositories]
    dnf = [repository for repository in repositories if repository["kind"] == "dnf"]
    # A package may carry its version in its name; the pin is for every version of the branch.
    names = {name.partition("=")[0] for name in lock.driver.packages}
    return {
        "sources_apt": [repository for repository in repositories if repository["kind"] == "apt"],
        "sources_dnf": dnf,
        "sources_branch": lock.driver.branch,
        # A package of signed modules has the kernel's version.
        "sources_pinned": sorted(
            name for name in names if ("nvidia" in name or name.startswith("libcuda1")) and not name.startswith("linux-modules-")
        ),
        **_signed_sources(lock),
        "sources_hold": list(lock.hold),
        "sources_releases": [] if dnf else [{"packages": list(patterns), "version": version} for patterns, version in _releases(lock)],
        "sources_stream": lock.driver.stream or "",
        "sources_locked": [*lock.driver.pin, *(f"{name}-{_upstream(v)}*" for names, v in _releases(lock) for name in names)] if dnf else [],
    }


def _egress(profile: Profile, lock: Lock) -> dict[str, Any]:
    """The files that lead to the profile's proxy and authority, and the same for what runs meanwhile."""
    manager: egress.Manager = "apt" if system_of(lock.os).packages == "apt" else "dnf"
    own = egress.environment(profile.sources, manager)
    return {
        "sources_egress": [{"path": path, "content": content} for path, content in egress.files(profile.sources, manager).items()],
        "sources_ca": profile.sources.ca or "",
        "sources_ca_path": egress.ca_path(manager),
        "sources_ca_mark": egress.ca_mark(manager),
        "sources_proxy": profile.sources.proxy or "",
        **({"play_environment": own} if own else {}),
    }


def _signed_sources(lock: Lock) -> dict[str, Any]:
    """What a driver with signed modules must not take from the repositories that are added, and the packages that add its own."""
    record = read.driver().signed_for(lock.os) if lock.driver.build == "signed" else None
    epel = system_of(lock.os).epel
    hosts = {urlsplit(repository.url).hostname or "" for repository in lock.repositories if repository.kind == "apt" and repository.key}
    return {
        "sources_withheld": " ".join(record.withheld) if record else "",
        "sources_withheld_from": sorted(hosts - {""}) if record and record.withheld else [],
        "sources_release": [*record.release] if record else [],
        "sources_epel": [epel] if epel else [],
    }


def _releases(lock: Lock) -> list[tuple[tuple[str, ...], str]]:
    """The patterns of packages that are all of one version, and that version: those of TensorRT."""
    pins = [PackagePin.parse(package) for package in lock.packages.get("extras", ())]
    versions = {pin.version for pin in pins if pin.version and any(fnmatch.fnmatchcase(pin.name, held) for held in RELEASED)}
    return [(RELEASED, version) for version in versions]


def _upstream(version: str) -> str:
    return version.rpartition(":")[2].partition("-")[0]


def _counters(profile: Profile, driver: LockedDriver) -> dict[str, Any]:
    return {
        "counters_open": profile.gpu.counters == "all-users",
        "counters_group": profile.gpu.counters == "group",
        # Debian's packages call the module nvidia-current. Its name is nvidia again once somebody installs NVIDIA's own packages.
        "counters_modules": list(dict.fromkeys([driver.module, "nvidia"])),
    }


def _fabric_manager(lock: Lock, roles: Sequence[str]) -> dict[str, Any]:
    """The fabric manager is installed at the version of the driver's packages, and held with them."""
    packages = lock.packages.get("fabric_manager", ()) if "fabric_manager" in roles else ()
    record = read.driver().signed_for(lock.os) if lock.driver.build == "signed" else None
    held = [name for name in lock.driver.packages if record is None or name not in provided_modules(record, lock.driver)]
    manager = {package: PackagePin.parse(package) for package in packages[:1]}
    return {
        "nvidia_driver_packages": [*held, *(pin.name for pin in manager.values())],
        "packages_driver": lock.driver.packages[0] if lock.driver.packages else "",
        # A lock with exact versions has the same one for both.
        "packages_of_the_driver": {package: pin.name for package, pin in manager.items() if pin.version and "*" in pin.version},
        "fabric_manager_units": [{"name": read.driver().fabric.unit, "optional": True}] if manager else [],
        "fabric_manager_module": read.driver().fabric.nvlink5.module if len(packages) > 1 else "",
    }


def _base(profile: Profile) -> dict[str, Any]:
    return {
        "base_users": [{"name": user.name, "ssh_keys": list(user.ssh_keys)} for user in profile.users],
        "base_groups": ["gpuprov-counters"] if profile.gpu.counters == "group" else [],
    }


def _clocks(clocks: LockedClocks) -> dict[str, Any]:
    return {
        "clocks_mode": clocks.mode,
        "clocks_memory_mhz": clocks.memory_mhz or 0,
        "clocks_graphics_mhz": clocks.graphics_mhz or 0,
    }


def _storage(disk: DataDisk | None) -> dict[str, Any]:
    if disk is None:
        return {}
    return {"storage_source": disk.source, "storage_mount": disk.mount, "storage_filesystem": disk.filesystem}


def _extras(lock: Lock) -> dict[str, Any]:
    extras = lock.extras.values()
    builds = [(name, extra.build) for name, extra in lock.extras.items() if extra.build]
    return {
        "extras_wheels": sorted({line for extra in extras for line in extra.wheels}),
        "extras_packages": [extra.package for extra in extras if (extra.wheels or extra.build) and extra.package],
        "extras_units": [{"name": extra.unit, "optional": True} for extra in extras if extra.unit],
        "extras_python": lock.frameworks["pytorch"].python if "tensorrt" in lock.extras else "",
        "extras_builds": [
            {
                "name": name,
                "source": build.source,
                "key": build.key,
                "tools": list(build.tools.wheels),
                "job_gb": build.job_gb,
                "variables": build.variables,
            }
            for name, build in builds
        ],
        **({"extras_cuda_home": lock.cuda.home} if builds else {}),
        "extras_files": [{"path": path, "content": f"{line}\n"} for extra in extras for path, line in extra.files.items()],
    }


def _containers(profile: Profile, containers: LockedContainers | None) -> dict[str, Any]:
    if containers is None:
        return {}
    docker = containers.engine == "docker"
    return {
        "containers_docker": docker,
        "containers_cdi": containers.gpus == "cdi",
        "containers_members": [user.name for user in profile.users] if docker else [],
        # Without a GPU there is nothing to list.
        "containers_units": [{"name": name, "optional": True} for name in read.containers().toolkit.units],
    }


def _python(lock: Lock) -> dict[str, Any]:
    own = lock.python
    if own is None:
        return {}
    return {
        "python_file": own.file,
        "python_venv": f"/opt/gpuprov/venvs/{own.environment}",
        "python_wheels": list(own.wheels),
        "python_locked": bool(own.sha256),
        **({"python_index": lock.wheel_index} if lock.wheel_index else {}),
    }


def _ray(profile: Profile, lock: Lock) -> dict[str, Any]:
    """How Ray is started, and in which environment: another one needs another start."""
    asked, own = profile.stack.ray, lock.python
    if asked is None or own is None:
        return {}
    return {
        "ray_arguments": list(asked.arguments),
        "ray_port": asked.port,
        "ray_venv": f"/opt/gpuprov/venvs/{own.environment}",
        "ray_wheels_sha256": canonical.digest(list(environment_of(lock))),
    }


def _environment(name: str, environment: LockedEnvironment, lock: Lock) -> dict[str, Any]:
    # On EL a newer Python is a package such as python3.12; elsewhere python3 is already the version the wheels are for.
    interpreters = (f"/usr/bin/{package}" for package in lock.packages.get(name, ()) if package.startswith("python3."))
    return {
        f"{name}_wheels": list(environment.wheels),
        f"{name}_python": next(interpreters, "/usr/bin/python3"),
        **({f"{name}_index": lock.wheel_index} if lock.wheel_index else {}),
    }


def _opencv_build(opencv: LockedOpenCv, cuda_home: str) -> dict[str, Any]:
    """How OpenCV is built from source; nothing where its wheel is installed."""
    if opencv.source is None or opencv.tools is None:
        return {}
    return {
        "opencv_source": opencv.source,
        "opencv_flags": list(opencv.build_flags),
        "opencv_tools": list(opencv.tools.wheels),
        "opencv_key": opencv.key,
        "opencv_cuda_home": cuda_home,
    }
