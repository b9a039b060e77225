"""The product of GPU, system, component, MIG and the build of the driver's modules: `python -m tests.profile.product` prints its counts.

Every combination is locked or refused with a hint. What is locked does not contradict the metadata of its wheels: in one environment a
package has one version, and what a component requires is there. Half a minute of CPU; a test takes a sample.
"""

import datetime as dt
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from packaging.requirements import Requirement

from provision.catalog import read
from provision.errors import StackConflictError
from provision.profile import known, load
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.profile.pins import WheelPin

TODAY = dt.date(2026, 11, 22)
GPUS = {gpu.model: gpu for gpu in read.gpus().gpus}
SYSTEMS = [system.key for system in read.systems().systems]
EXTRAS = (None, "cutlass", "opencl", "tensorrt", "transformer-engine", "flash-attn")
BUILDS = ("dkms", "signed")
# The key of NVIDIA's repository for EL 10 is not known, so that nothing at all would be locked for it without a mirror.
MIRROR = {"url": "https://mirror.example.org/cuda", "key": "https://mirror.example.org/key", "fingerprint": "A" * 40}
PLAIN = load.load(load.find("t4-train")).dump()


@dataclass(frozen=True)
class Combination:
    """One point of the product."""

    gpu: str
    system: str
    build: str
    extra: str | None = None
    split: bool = False

    def profile(self) -> Profile:
        """As a profile for hosts that exist, with PyTorch and nothing else."""
        name, release = self.system.split()
        slices = GPUS[self.gpu].mig or {"1g.10gb": 1}
        gpu = {"model": self.gpu, "count": 1, **({"mig": [{"slice": next(iter(slices)), "count": 1}]} if self.split else {})}
        stack: dict[str, Any] = {
            "frameworks": {"pytorch": "auto"},
            "profilers": ["nsys", "ncu"] if self.gpu not in {"p4", "p100"} else ["nsys"],
        }
        stack |= {
            "driver": "auto",
            "driver_build": self.build,
            "cuda": "auto",
            "cudnn": "auto",
            "extras": [self.extra] if self.extra else [],
        }
        plain = PLAIN | {"places": [], "os": {"name": name, "version": release}, "gpu": gpu, "stack": stack, "verify": {}}
        plain["sources"] = {"dnf": MIRROR} if release == "10" else {}
        return Profile.model_validate(plain)


def product() -> list[Combination]:
    """All of it: each component with whole GPUs, and split ones without a component."""
    whole = (Combination(g, s, b, extra) for g, s, b, extra in itertools.product(GPUS, SYSTEMS, BUILDS, EXTRAS))
    return [*whole, *(Combination(g, s, b, split=True) for g, s, b in itertools.product(GPUS, SYSTEMS, BUILDS))]


def outcome(point: Combination) -> str:
    """`locked` or `refused`, after what must be true of the answer."""
    profile = point.profile()
    complaints = known.errors(profile, {})
    if complaints:
        assert all(complaint.instead for complaint in complaints), point
        return "refused"
    try:
        lock = build(profile, TODAY)
    except StackConflictError as refusal:
        assert refusal.hint, point
        assert refusal.reason, point
        return "refused"
    check(point, lock)
    return "locked"


def check(point: Combination, lock: Lock) -> None:
    """What a lock must hold, said without the resolver's rules."""
    capability = tuple(map(int, lock.gpu.compute_capability.split(".")))
    assert lock.driver.build == point.build, point
    assert bool(lock.gpu.mig) is point.split, point
    assert not point.split or GPUS[point.gpu].mig, point
    assert capability >= {"flash-attn": (8, 0), "transformer-engine": (8, 9), "cutlass": (7, 0)}.get(point.extra or "", (0, 0)), point
    if point.build == "signed":
        assert point.system in {"ubuntu 22.04", "ubuntu 24.04", "alma 9", "alma 10", "rhel 10"}, point
        assert not [name for names in lock.packages.values() for name in names if "dkms" in name or "kernel-devel" in name], point
    environment = dict(pins(lock))
    for requirement in required(point, lock):
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        assert name in environment, (point, str(requirement))
        assert requirement.specifier.contains(environment[name], prereleases=True), (point, str(requirement), environment[name])


def pins(lock: Lock) -> Iterator[tuple[str, str]]:
    """Package → version in PyTorch's environment; a package with two versions is an error."""
    lines = [*lock.frameworks["pytorch"].wheels, *(line for extra in lock.extras.values() for line in extra.wheels)]
    seen: dict[str, str] = {}
    for pin in filter(None, map(WheelPin.parse, lines)):
        name = re.sub(r"[-_.]+", "-", pin.name).lower()
        assert seen.setdefault(name, pin.version) == pin.version, f"{name} {seen[name]} and {pin.version}"
        yield name, pin.version


def required(point: Combination, lock: Lock) -> Iterator[Requirement]:
    """What the metadata of a component that is built from source asks for."""
    record = read.extras()[point.extra] if point.extra else None
    if record is not None and record.build is not None:
        major = (lock.frameworks["pytorch"].cuda or "").partition(".")[0]
        yield from map(Requirement, record.build.requirements.get("any") or record.build.requirements[major])


def main() -> None:
    """Print the counts."""
    counts: Counter[tuple[str, str]] = Counter()
    for point in product():
        said = outcome(point)
        for part in (
            "all",
            point.system,
            f"modules {point.build}",
            "split with MIG" if point.split else f"extras: {point.extra or 'none'}",
        ):
            counts[part, said] += 1
    named = dict.fromkeys(part for part, _ in counts)
    for part in sorted(named, key=lambda part: (part != "all", ":" in part or "MIG" in part, part.startswith("modules"))):
        print(f"{part:28} {counts[part, 'locked']:5} locked {counts[part, 'refused']:5} refused")  # noqa: T201 - the counts are asked for


if __name__ == "__main__":
    main()
