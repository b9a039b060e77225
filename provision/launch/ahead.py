"""What the machines of a profile download at their first boot, before they answer SSH."""

import itertools
from typing import Final

from provision.catalog import wheels
from provision.clouds.userdata import Downloads, PackageSource
from provision.profile import egress
from provision.profile.locked import Lock, LockedRepository
from provision.profile.model import Profile
from provision.profile.packages import system_of

# Their versions follow from the driver's branch and from pins, which the host does not have before its set-up.
_PINNED: Final = {"nvidia_driver", "fabric_manager", "extras"}
_INDEX: Final = "https://pypi.org/simple"  # pip's own, packaging.python.org/en/latest/specifications/simple-repository-api
_LEAST_PYTHON: Final = (3, 11)


def downloads(profile: Profile, lock: Lock) -> Downloads | None:
    """What can be downloaded before the set-up: the wheels of the lock and, with apt, the packages that no pin decides about.

    None where the host does not set itself up, because its Python is older than Ansible's; where a role builds a wheel from
    source, for which pip asks its index; and where the profile has an authority of its own, which a new machine does not trust yet.
    """
    system = system_of(lock.os)
    own = not any(package.startswith("python3.") for package in system.python.packages)
    old = tuple(int(part) for part in system.python.version.split(".")) < _LEAST_PYTHON
    builds = lock.opencv.source is not None or any(extra.build for extra in lock.extras.values())
    if profile.sources.ca or old or builds or not own:
        return None
    apt = system.packages == "apt"
    named = [name for role, names in lock.packages.items() if role not in _PINNED for name in names] if apt else []
    environments = [*lock.frameworks.values(), *([lock.opencv.environment] if lock.opencv.environment else [])]
    sets = [each.wheels for each in environments] + [each.wheels for each in lock.extras.values()]
    sets += [lock.python.wheels] if lock.python else []
    pinned = wheels.parse("\n".join(itertools.chain.from_iterable(sets)))
    return Downloads(
        wheels=tuple(dict.fromkeys((each.name, each.sha256[0]) for each in pinned if len(each.sha256) == 1)),  # for this platform alone
        index=lock.wheel_index or _INDEX,
        packages=tuple(dict.fromkeys(named)),
        repositories=tuple(_source(each) for each in lock.repositories if each.kind == "apt"),
        environment=tuple(egress.environment(profile.sources, "apt" if apt else "dnf").items()),
    )


def _source(each: LockedRepository) -> PackageSource:
    return PackageSource(each.name, each.url, each.suite or "/", tuple(each.components), each.keyring, each.key, each.fingerprint)
