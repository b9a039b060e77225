"""Programs that the host's PyTorch compiles or speeds up, run on every GPU by tier perf: mixed precision, and a kernel of Triton's."""

from functools import partial
from typing import Final

from provision.catalog import read
from provision.catalog.records.base import version
from provision.profile.model import Profile
from provision.verify.checks.base import (
    AGAIN,
    BROKEN,
    COMPARE,
    MEASURE,
    Check,
    Verdict,
    apply,
    fails,
    no_extra,
    over_all,
    passes,
    unknown,
)
from provision.verify.facts import Facts
from provision.verify.facts.gpu import require_gpu
from provision.verify.facts.perf import PerfFacts

_TENSOR_CORES_FROM: Final = (7, 0)
_MIXED_OFF: Final = 0.02  # a step in bf16 is off by 0.0036 on an H100 (tests/data/facts/h100-perf.json)


def _no_amp(profile: Profile) -> str:
    card = read.gpu(profile.gpu.model)
    if profile.stack.frameworks.pytorch is None:
        return "the profile does not ask for PyTorch"
    return f"{card.name} has no tensor cores" if version(card.compute_capability) < _TENSOR_CORES_FROM else ""


def _amp(facts: Facts, profile: Profile) -> Verdict:
    """Mixed precision with `torch.autocast`, which took the place of Apex."""
    require_gpu(facts)
    perf = facts.read(PerfFacts)
    results = []
    for number, device in perf.numbered.items():
        part, name = device.amp, f"GPU {number}"
        if part.speed_up is None:
            results.append(unknown("", f"{name} not measured, {part.reason}: {part.unknown}", MEASURE))
        elif part.error is None or part.error > _MIXED_OFF:
            results.append(fails("", f"{name}: WRONG result", BROKEN))
        elif device.others.users:
            results.append(unknown("", f"{name}: {part.speed_up:g} x, also used by {device.others.users}", AGAIN))
        else:
            verdict = passes if part.speed_up > 1 else partial(fails, hint=COMPARE)
            results.append(verdict("", f"{name}: {part.speed_up:g} x in {part.precision}"))
    return over_all(facts, perf, profile, "a training step in mixed precision, faster than in FP32 and with its result", results)


def _triton(facts: Facts, profile: Profile) -> Verdict:
    require_gpu(facts)
    perf = facts.read(PerfFacts)
    results = []
    for number, device in perf.numbered.items():
        part, name = device.triton, f"GPU {number}"
        if part.right is None and part.reason in {"missing", "failed"}:
            results.append(fails("", f"{name}: {part.unknown}", apply("pytorch", "installs a compiler and Python's headers")))
        elif part.right is None:
            results.append(unknown("", f"{name} not tried, {part.reason}: {part.unknown}", MEASURE))
        elif not part.right:
            results.append(fails("", f"{name}: WRONG sum", BROKEN))
        else:
            results.append(passes("", f"{name}: right, with Triton {part.version}"))
    return over_all(facts, perf, profile, "a kernel that Triton compiles on the host computes correctly on every GPU", results)


_check = partial(Check, needs_gpu=True, whole_gpus=True, tier="perf", role="pytorch")
CHECKS = (
    _check("amp", "mixed precision makes training faster", _amp, unasked=_no_amp),
    _check("triton", "Triton compiles a kernel that computes", _triton, unasked=no_extra("triton")),
)
