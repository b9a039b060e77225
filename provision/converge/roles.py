"""Which roles there are, and which of them a host needs."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from provision.errors import RoleUnknownError
from provision.profile.fabric import has_nvswitch
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.profile.vision import DNN
from provision.verify.finding import Finding

ROLES: Final = (
    "preflight",
    "sources",
    "counters",
    "packages",
    "base",
    "storage",
    "nvidia_driver",
    "fabric_manager",
    "persistence",
    "mig",
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
    "python",
    "containers",
    "ray",
)
_LINE: Final = re.compile(r"    - \{role: (\w+), tags: \[\w+\]\}\n")

# Roles whose packages an image's own repositories do not have.
_FROM_REPOSITORIES: Final = frozenset(
    {"nvidia_driver", "fabric_manager", "cuda_toolkit", "cudnn", "cupti", "nsight", "extras", "containers"}
)

# Roles that --without-gpu leaves out.
GPU_ROLES: Final = frozenset(
    {"counters", "nvidia_driver", "fabric_manager", "persistence", "mig", "clocks"}
    | {"cuda_toolkit", "cudnn", "nsight", "pytorch", "tensorflow", "jax", "extras", "python", "containers", "ray"}
)

# Roles that have nothing to do where the driver is on the image already.
OF_THE_DRIVER: Final = frozenset({"nvidia_driver", "fabric_manager"})

# Outcomes that no role has to act on.
_AT_REST: Final = frozenset({"pass", "warn", "waived", "not-applicable"})


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """The roles of these names, each once, in the order in which they run.

    Raises:
        RoleUnknownError: there is no role of that name.
    """
    selected = set(names)
    for name in sorted(selected - set(ROLES)):
        msg = f"there is no role {name!r}"
        raise RoleUnknownError(msg, hint=f"the roles are {', '.join(ROLES)}")
    return tuple(role for role in ROLES if role in selected)


def play_of(roles: Sequence[str], shipped: str) -> str:
    """The shipped playbook without the other roles: Ansible reads the files of every role that a play names, selected or not."""
    return "".join(line for line in shipped.splitlines(keepends=True) if (match := _LINE.fullmatch(line)) is None or match[1] in roles)


def with_groundwork(names: Sequence[str], lock: Lock) -> tuple[str, ...]:
    """The roles of these names and the roles they depend on, in the order in which they run.

    preflight always runs; repositories and packages are set up where one of the roles installs packages.
    """
    if not names:
        return ()
    names = _with_the_environment_of_ray(names, lock)
    groundwork = {"preflight"}
    if any(lock.packages.get(name) for name in names):
        groundwork.add("packages")
    if any(lock.packages.get(name) for name in _FROM_REPOSITORIES & set(names)):
        groundwork.add("sources")
    if "opencv" in names and lock.opencv.source:
        groundwork |= {"sources", "cuda_toolkit"} | ({"cudnn"} if DNN in lock.opencv.parts else set())
    # It is built against PyTorch, with the toolkit.
    if "extras" in names and any(extra.build for extra in lock.extras.values()):
        groundwork |= {"sources", "packages", "cuda_toolkit", "pytorch"}
    # A new environment has lost the extras that were added to the old one.
    if "pytorch" in names and any(extra.wheels or extra.build for extra in lock.extras.values()):
        groundwork.add("extras")
    # It works with the driver's own version only, and is held with the driver's packages.
    if "fabric_manager" in names:
        groundwork.add("nvidia_driver")
    # The driver reads its options on its first load, so they must be written before it is installed. The role counters also makes the
    # group that the profile's logins join.
    if {"nvidia_driver", "fabric_manager"} & set(names) or ("base" in names and lock.counters == "group"):
        groundwork.add("counters")
    if "counters" in names and lock.counters == "group":
        groundwork.add("base")
    return in_order({*names, *groundwork, *_joined(names, lock)} - (OF_THE_DRIVER if lock.driver.build == "image" else set()))


def _with_the_environment_of_ray(names: Sequence[str], lock: Lock) -> Sequence[str]:
    """Ray is started from the environment that a team's own packages are in."""
    if "ray" in names and lock.ray is not None and lock.python is not None:
        return (*names, lock.python.environment, "python")
    return names


def _joined(names: Sequence[str], lock: Lock) -> Iterator[str]:
    """Roles that a team's own parts bring along: its packages and its Ray follow a new environment, its logins join docker's group."""
    if lock.python is not None and lock.python.environment in names:
        yield "python"
    # Its programs are those of the environment that was there when it started.
    if lock.python is not None and lock.ray is not None and {lock.python.environment, "python"} & set(names):
        yield "ray"
    if lock.containers is not None and lock.containers.engine == "docker" and "containers" in names:
        yield "base"


def roles_for(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The roles that the findings call for, in the order in which they run.

    A check that failed or is unknown names its role. The exception is an unknown check that needs a GPU: no role can put a GPU into a
    host, and gigabytes of wheels would be downloaded for a GPU that is not there.
    """
    return in_order(
        finding.role
        for finding in findings
        if finding.role is not None and finding.outcome not in _AT_REST and not (finding.needs_gpu and finding.outcome == "unknown")
    )


def all_roles(profile: Profile, *, without_gpu: bool) -> tuple[str, ...]:
    """Every role that the profile gives something to do, whatever the findings are (`--all`)."""
    stack = profile.stack
    idle = {
        "nvidia_driver": profile.image_has is not None,
        "fabric_manager": not has_nvswitch(profile) or profile.image_has is not None,
        "persistence": not profile.gpu.persistence,
        "mig": not profile.gpu.mig,
        "cudnn": stack.cudnn == "none",
        "nsight": not stack.profilers,
        "ffmpeg": not stack.ffmpeg,
        "opencv": stack.opencv == "none",
        "pytorch": stack.frameworks.pytorch is None or (stack.python is not None and stack.python.prefix is not None),
        "tensorflow": stack.frameworks.tensorflow is None,
        "jax": stack.frameworks.jax is None,
        "extras": not stack.extras,
        "python": stack.python is None or stack.python.file is None,
        "containers": stack.containers == "none",
        "ray": stack.ray is None,
    }
    return tuple(role for role in ROLES if not idle.get(role) and not (without_gpu and role in GPU_ROLES))
