"""A team's own packages: the whole environment that they were added to has the versions of the lock."""

import re

from provision.profile.model import Profile
from provision.profile.pins import WheelPin
from provision.verify.checks.base import Check, Verdict, apply, fails, passes, unknown, unless
from provision.verify.facts import Facts
from provision.verify.facts.stack import ExtrasFacts

_MOST_NAMED = 3


def _file(profile: Profile) -> str | None:
    return profile.stack.python.file if profile.stack.python else None


def _packages(facts: Facts, profile: Profile) -> Verdict:
    frameworks, file = profile.stack.frameworks, _file(profile)
    name = next((each for each in ("pytorch", "tensorflow", "jax") if getattr(frameworks, each) is not None), "pytorch")
    pins = [pin for line in profile.locked_wheels if (pin := WheelPin.parse(line))]
    if not pins:
        expected = f"the packages of {file} in the environment of {name}, at locked versions"
        return unknown(expected, "the lock has none of them", "`gpuprov lock` resolves the file; then verify with that lock")
    expected = f"the packages of the environment {name} ({len(pins)} with {file}), each at its locked version"
    environment = facts.read(ExtrasFacts).environments.get(name)
    if environment is None:
        return fails(expected, "no such environment", apply(name, "makes it"))
    wrong = []
    for pin in pins:
        version = environment.get(re.sub(r"[-_.]+", "-", pin.name).lower())
        if version != pin.version:
            wrong.append(f"{pin.name} {version or 'not installed'} instead of {pin.version}")
    if wrong:
        more = f" and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
        return fails(expected, ", ".join(wrong[:_MOST_NAMED]) + more, f"{apply(name, 'makes the environment again')}, with these packages")
    return passes(expected, f"packages: {len(pins)}")


CHECKS = (
    Check(
        "python-packages",
        "the profile's own packages are there",
        _packages,
        role="python",
        needs_gpu=True,
        unasked=unless(_file, "the profile names no packages of its own"),
    ),
)
