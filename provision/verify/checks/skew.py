"""Whether what is installed works together: driver, toolkit, cuDNN and frameworks under the catalogue's own rules, as they were observed.

The resolver asks the same rules what it may choose (`provision.catalog.rules`); here they are asked about what somebody chose.
"""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any, Final

from provision.catalog import read
from provision.catalog.records.stack import CudnnRelease, ReleaseRecord
from provision.catalog.rules import TITLES, rules
from provision.profile.model import Profile
from provision.verify.checks.base import Check, Verdict, dotted, failed, passed, require_gpu, unknown, warned
from provision.verify.facts import Facts
from provision.verify.facts.gpu import DriverFacts
from provision.verify.facts.stack import CudnnFacts, FrameworkBuild, JaxFacts, NvccFacts, PyTorchFacts, TensorFlowFacts

__all__ = ["CHECKS"]

# What is about choosing, not about working: how long a branch is supported, who could look into an index, a repository's beginning.
_PARTS: Final = frozenset({"gpu", "driver", "cuda", "cudnn", *TITLES})
_CHOOSING: Final = frozenset({"machine-is-x86", "driver-is-supported", *(f"{name}-is-measured" for name in TITLES)})
# No rule that is left here looks at the day.
_RULES: Final = tuple(rule for rule in rules(dt.date.min) if set(rule.over) <= _PARTS and rule.id not in _CHOOSING)


def _skew(facts: Facts, profile: Profile) -> Verdict:
    expected = "driver, toolkit, cuDNN and frameworks that work together on this GPU"
    require_gpu(facts)
    installed = _installed(facts)
    parts: dict[str, list[Any]] = {"gpu": [read.gpu(profile.gpu.model)], **{name: known for name, _, known in installed if known}}
    foreign = [f"{words} is not in the catalogue" for _, words, known in installed if not known]
    conflicts: list[str] = []
    limits: list[str] = []
    for rule in _RULES:
        if set(rule.over) <= set(parts):
            choices = list(itertools.product(*(parts[name] for name in rule.over)))
            broken = [rule.says(*values) for values in choices if not rule.holds(*values)]
            if len(broken) == len(choices):
                (limits if rule.soft else conflicts).append(broken[0])
            elif broken and not rule.soft:
                foreign.append(f"the catalogue does not say of this version: {broken[0]}")
    observed = ", ".join(words for _, words, _ in installed) or "nothing"
    hint = "`gpuprov explain PROFILE` says which versions work together"
    if conflicts:
        return failed(expected, f"{observed}: {'; '.join(conflicts + limits)}", hint)
    if "driver" not in parts or foreign:
        return unknown(expected, f"{observed}: {'; '.join(foreign) or 'no driver'}", "`gpuprov catalog` shows what it knows")
    if limits:
        return warned(expected, f"{observed}: {'; '.join(limits)}", hint)
    return passed(expected, observed)


def _installed(facts: Facts) -> list[tuple[str, str, list[Any]]]:
    """The parts that are there: the rules' name, words for a reader, and the catalogue's records that it may be; none where it has none."""
    driver, nvcc, cudnn = facts.read(DriverFacts), facts.read(NvccFacts).compiler, facts.read(CudnnFacts)
    parts: list[tuple[str, str, list[Any]]] = []
    running = driver.loaded or driver.installed
    if running:
        parts.append(("driver", f"driver {running}", [b for b in read.driver().branches if b.branch == running.partition(".")[0]]))
    if nvcc is not None:
        parts.append(("cuda", f"CUDA {nvcc.version}", [t for t in read.toolkits().toolkits if t.version == nvcc.version]))
    if cudnn.library is not None:
        # The encoding changed with cuDNN 9: docs/sources/verification.md, "CUDA, cuDNN and CUPTI".
        unit = 10_000 if cudnn.library >= 90_000 else 1_000  # noqa: PLR2004
        found = (cudnn.library // unit, cudnn.library % unit // 100, cudnn.library % 100)
        parts.append(("cudnn", f"cuDNN {'.'.join(map(str, found))}", _around(found)))
    used: dict[str, FrameworkBuild | None] = {
        "pytorch": facts.read(PyTorchFacts).build,
        "tensorflow": facts.read(TensorFlowFacts).build,
        "jax": facts.read(JaxFacts).build,
    }
    for name, framework in used.items():
        if framework is not None and framework.version:
            parts.append((name, f"{TITLES[name]} {framework.version}", _builds(name, framework)))
    return parts


def _builds(name: str, used: FrameworkBuild) -> list[ReleaseRecord]:
    """The catalogue's builds that it may be: of its number, and of its CUDA. The part behind a plus says no more than that CUDA does."""
    number, _, local = used.version.partition("+")
    same = [known for known in read.frameworks()[name] if known.version.partition("+")[0] == number]
    built = [known for known in same if f"{used.cuda}.".startswith(f"{known.cuda}.")]
    return built if built or local else same


def _around(found: tuple[int, ...]) -> list[CudnnRelease]:
    """The catalogue's release of that version; else its neighbours of the same major release, which must agree for a rule to tell."""
    known = sorted((c for c in read.cudnn().releases if dotted(c.version)[0] == found[0]), key=lambda c: dotted(c.version))
    same = [c for c in known if dotted(c.version)[:3] == found]
    return same or [c for c in known if dotted(c.version)[:3] < found][-1:] + [c for c in known if dotted(c.version)[:3] > found][:1]


CHECKS = (Check("skew", "driver, CUDA, cuDNN and frameworks work together", _skew, needs_gpu=True, tier="standard"),)
