"""The organisation's rules about what a machine starts from: its image, and the kernel modules of its driver.

Each yields the key of the profile, the reason, and whether it is certain that the rule is broken.
"""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from provision.launch.plan import PlannedPlace
from provision.profile.locked import Lock
from provision.profile.plain import KeyPath

Finding = tuple[KeyPath, str, bool]


def images(lock: Lock, locations: Iterator[tuple[KeyPath, PlannedPlace]], allowed: Sequence[str]) -> Iterator[Finding]:
    """The locations whose image, as the lock names it, is on no list. An image that the lock does not name is not known to be on one."""
    # A lock has one entry for each location of the profile; two places in one region may start from different images.
    entries = {(p.cloud, p.region, p.instance_type, p.market): (p.image, p.image_id) for p in lock.places}
    for key, planned in locations:
        place = planned.place
        names = entries.get((planned.cloud, planned.location, place.instance_type, place.market), ("", None))
        known = [name for name in names if name]
        if not known:
            yield key, f"the lock does not name the image of {planned.location}; allowed: {', '.join(allowed)}", False
        elif not any(_fits(name, allowed) for name in known):
            yield key, f"the image {known[-1]} of {planned.location}; allowed: {', '.join(allowed)}", True


def _fits(name: str, globs: Sequence[str]) -> bool:
    """Whether a name fits. A name may be a pattern itself, whose * stands for more than the one character of a ?."""
    return any(fnmatchcase(name, glob) and not ("*" in name and "?" in glob) for glob in globs)


def modules(lock: Lock) -> Iterator[Finding]:
    """The driver, where its modules are built on the host, so that nobody else has signed them."""
    if lock.driver.build != "signed":
        reason = "the driver's kernel modules are built on the host; only modules that the distribution has signed are allowed"
        yield ("stack", "driver_build"), reason, True
