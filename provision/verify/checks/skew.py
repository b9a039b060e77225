"""Whether the parts of the stack work together: driver, toolkit, cuDNN and frameworks, as observed, by the rules of the catalog.

The resolver uses the same rules to choose versions (`provision.catalog.rules`). This subject has no facts of its own.
"""

import datetime as dt
import itertools
from typing import Any, Final

from provision.catalog import read
from provision.catalog.records.stack import CudnnRelease, ReleaseRecord
from provision.catalog.rules import TITLES, rules
from provision.profile.model import Profile
from provision.verify.checks.base import Check, Verdict, dotted, fails, passes, unknown, warns
from provision.verify.facts import Facts
from provision.verify.facts.gpu import DriverFacts, require_gpu
from provision.verify.facts.stack import CudnnFacts, FrameworkBuildFacts, FrameworkFacts, NvccFacts

# Some rules are about choosing, not about working: how long a branch is supported, which index was measured, a repository's beginning.
_PARTS: Final = frozenset({"gpu", "driver", "cuda", "cudnn", *TITLES})
_CHOOSING: Final = frozenset({"machine-is-x86", "driver-is-supported", *(f"{name}-is-measured" for name in TITLES)})
# None of the remaining rules depends on the day.
_RULES: Final = tuple(rule for rule in rules(dt.date.min) if set(rule.over) <= _PARTS and rule.id not in _CHOOSING)


def _skew(facts: Facts, profile: Profile) -> Verdict:
    expected = "driver, toolkit, cuDNN and frameworks that work together on this GPU"
    require_gpu(facts)
    stack = _stack(facts)
    parts: dict[str, list[Any]] = {"gpu": [read.gpu(profile.gpu.model)], **{name: records for name, _, records in stack if records}}
    foreign = [f"{words} is not in the catalog" for _, words, records in stack if not records]
    conflicts: list[str] = []
    limits: list[str] = []
    for rule in _RULES:
        if set(rule.over) <= set(parts):
            choices = list(itertools.product(*(parts[name] for name in rule.over)))
            broken = [rule.says(*values) for values in choices if not rule.holds(*values)]
            if len(broken) == len(choices):
                (limits if rule.soft else conflicts).append(broken[0])
            elif broken and not rule.soft:
                foreign.append(f"it may be another build: {broken[0]}")
    observed = ", ".join(words for _, words, _ in stack) or "nothing"
    hint = "`gpuprov explain PROFILE` says which versions work together"
    if conflicts:
        return fails(expected, f"{observed}: {'; '.join(conflicts + limits)}", hint)
    if "driver" not in parts or foreign:
        return unknown(expected, f"{observed}: {'; '.join(foreign) or 'no driver'}", "`gpuprov catalog` shows what it knows")
    if limits:
        return warns(expected, f"{observed}: {'; '.join(limits)}", hint)
    return passes(expected, observed)


def _stack(facts: Facts) -> list[tuple[str, str, list[Any]]]:
    """The installed parts: the rules' name, words for a reader, and the catalogue's records that it may be; none where it has none."""
    driver, compiler, cudnn = facts.read(DriverFacts), facts.read(NvccFacts).compiler, facts.read(CudnnFacts).version
    parts: list[tuple[str, str, list[Any]]] = []
    running = driver.loaded or driver.installed
    if running:
        parts.append(("driver", f"driver {running}", [b for b in read.driver().branches if b.branch == running.partition(".")[0]]))
    if compiler is not None:
        parts.append(("cuda", f"CUDA {compiler.version}", [t for t in read.toolkits().toolkits if t.version == compiler.version]))
    if cudnn is not None:
        parts.append(("cudnn", f"cuDNN {'.'.join(map(str, cudnn))}", _same_cudnn(cudnn)))
    for name, title in TITLES.items():
        build = facts.read(FrameworkFacts, name).build
        if build is not None and build.version:
            parts.append((name, f"{title} {build.version}", _releases(name, build)))
    return parts


def _releases(name: str, build: FrameworkBuildFacts) -> list[ReleaseRecord]:
    """The catalogue's releases that a build may be: of its number, and of its CUDA. What follows a plus only repeats the CUDA version."""
    number, _, local = build.version.partition("+")
    same = [release for release in read.frameworks()[name] if release.version.partition("+")[0] == number]
    same_cuda = [release for release in same if f"{build.cuda}.".startswith(f"{release.cuda}.")]
    return same_cuda if same_cuda or local else same


def _same_cudnn(observed: tuple[int, ...]) -> list[CudnnRelease]:
    """The catalogue's release of an observed version, which has three parts; none where it has none: a neighbour is another version."""
    return [release for release in read.cudnn().releases if dotted(release.version)[:3] == observed]


CHECKS = (Check("skew", "driver, CUDA, cuDNN and frameworks work together", _skew, needs_gpu=True, tier="standard"),)
