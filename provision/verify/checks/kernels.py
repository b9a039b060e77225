"""Kernels that are not PyTorch's: a product of CUTLASS's headers, and a sum that OpenCL compiles. Each runs on every GPU."""

from functools import partial
from typing import Final

from provision.catalog import read
from provision.profile.model import Profile
from provision.verify.checks.base import Check, Verdict, apply, computed, fails, no_extra, not_compiled, passes, visible_gpus
from provision.verify.facts import Facts
from provision.verify.facts.kernels import CutlassFacts, OpenClFacts, OpenClRun

_ICD: Final = "/etc/OpenCL/vendors/nvidia.icd"
_ICD_LIBRARY: Final = "libnvidia-opencl.so"


def _cutlass(facts: Facts, profile: Profile) -> Verdict:
    own = f"sm_{read.gpu(profile.gpu.model).compute_capability.replace('.', '')}"
    trial = facts.read(CutlassFacts).trial
    expected = f"nvcc compiles a product of CUTLASS's for {' and '.join((trial and trial.gpus) or (own,))}, and it is right on every GPU"
    if trial is None:
        return fails(expected, "no headers of CUTLASS in any environment", apply("extras", "installs them"))
    stopped = not_compiled(expected, trial, own)
    if stopped:
        return stopped
    wrong = []
    for index, device in enumerate(trial.devices):
        if device.error or device.wrong or not device.sums:
            wrong.append(f"GPU {index}: {device.error or f'{device.wrong} of {device.sums} sums are wrong'}")
        elif device.built_for != device.capability:
            wrong.append(f"GPU {index} is {device.capability}, and code for {device.built_for} ran")
    verdict = computed(expected, trial, wrong, len(trial.devices), visible_gpus(facts, profile))
    return Verdict(verdict.outcome, verdict.expected, f"CUTLASS {trial.release}: {verdict.observed}", verdict.hint)


def _opencl(facts: Facts, profile: Profile) -> Verdict:
    expected = f"{_ICD} names NVIDIA's library, and a kernel that OpenCL compiles computes on every GPU"
    seen = facts.read(OpenClFacts)
    if not any(_ICD_LIBRARY in line for line in seen.named.values()):
        others = f", only {', '.join(sorted(seen.named))}" if seen.named else ""
        return fails(expected, f"no file in /etc/OpenCL/vendors names {_ICD_LIBRARY}{others}", apply("extras", "writes it"))
    if seen.run is not None and not seen.run.loader:
        return fails(expected, f"no loader: {seen.run.error}", apply("extras", "installs it"))
    gpus = visible_gpus(facts, profile)
    if not seen.libraries:
        return fails(
            expected, "the loader of programs finds no libnvidia-opencl", "install the driver's part for OpenCL, in its own version"
        )
    if seen.run is None:
        observed = f"the program ended with {seen.code}: {seen.message or 'without a word'}"
        return fails(expected, observed, "see the driver's messages in `dmesg`")
    return _ran(expected, seen.run, gpus)


def _ran(expected: str, run: OpenClRun, gpus: int) -> Verdict:
    """What became of the kernel."""
    if run.error:
        return fails(expected, run.error, "see the checks driver and skew")
    if not run.devices:
        platforms = ", ".join(run.platforms) or "none"
        return fails(expected, f"no GPU on NVIDIA's platform; the platforms are: {platforms}", "see the checks driver and device-nodes")
    wrong = [
        f"{device.device} ({index}): {device.error or f'{device.wrong} of {device.sums} sums are wrong'}"
        for index, device in enumerate(run.devices)
        if device.error or device.wrong or not device.sums
    ]
    if wrong:
        return fails(expected, "; ".join(wrong), "see the checks driver, skew and gpu-health")
    if len(run.devices) < gpus:
        return fails(expected, f"right on {len(run.devices)} of {gpus} GPUs", "see the checks gpu and device-nodes")
    return passes(expected, f"right on every GPU ({len(run.devices)}), {run.devices[0].device}")


_check = partial(Check, role="extras", needs_gpu=True, tier="standard")
CHECKS = (
    _check("cutlass", "a product of CUTLASS's computes on every GPU", _cutlass, unasked=no_extra("cutlass")),
    _check("opencl", "OpenCL computes on every GPU", _opencl, unasked=no_extra("opencl")),
)
