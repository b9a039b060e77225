"""Containers: the engine and NVIDIA's toolkit are there, and a program in a container of an ordinary user computes on every GPU."""

from functools import partial
from typing import Final

from provision.catalog import read
from provision.profile.model import Profile
from provision.verify.checks.base import Check, Verdict, apply, fails, passes, unknown, unless, warns
from provision.verify.facts import Facts
from provision.verify.facts.containers import ContainerProgram, ContainerRunFacts, ContainersFacts
from provision.verify.facts.gpu import require_gpu

_NOT_THERE: Final = 127  # a shell's exit code for a program that is not there
_ADDED: Final = 65535 * 65536 // 2  # each of the probe's 65536 threads adds its number
_UNASKED: Final = unless(lambda p: p.stack.containers != "none", "the profile asks for no containers")
_SHARED: Final = ", with the host's process ids, because this host mounts no /proc for others"

# https://github.com/NVIDIA/nvidia-container-toolkit/issues/48; auto is no longer legacy from 1.18 on.
_LEGACY: Final = (
    "a container loses its GPUs when systemd reloads its units: "
    "`sudo nvidia-ctk config --in-place --set nvidia-container-runtime.mode=auto`, and start the containers again"
)


def _installed(facts: Facts, profile: Profile) -> Verdict:
    engine = profile.stack.containers
    toolkit = read.containers().toolkit
    expected = f"{engine}, NVIDIA's Container Toolkit {toolkit.release}, and its list of GPUs at boot"
    containers = facts.read(ContainersFacts)
    version, ours = containers.engines.get(engine), containers.toolkit
    observed = f"{engine} {version or 'not installed'}, toolkit {ours or 'not installed'}"
    if version is None or ours is None or not f"{ours}.".startswith(f"{toolkit.release}."):
        return fails(expected, observed, apply("containers", "installs it"))
    idle = [name for name in toolkit.units if name not in containers.refresh or not containers.refresh[name].enabled]
    if idle:
        return fails(expected, f"{observed}, {' and '.join(idle)} not enabled", apply("containers", "enables it"))
    if engine == "docker" and (containers.docker is None or "nvidia" not in containers.docker.runtimes):
        return fails(expected, f"{observed}, and docker does not know the runtime nvidia", apply("containers", "tells it"))
    if engine == "docker" and containers.docker and containers.docker.systemd and containers.runtime_mode == "legacy":
        return warns(expected, f"{observed}; NVIDIA's runtime in legacy mode, and systemd has the cgroups", _LEGACY)
    return passes(expected, observed)


def _runs(facts: Facts, profile: Profile) -> Verdict:
    engine = profile.stack.containers
    opened = profile.gpu.counters == "all-users"
    expected = "a CUDA program in an ordinary user's container computes right on every GPU" + (", and reads counters" if opened else "")
    run = facts.read(ContainerRunFacts)
    if run.engine != engine:
        return unknown(expected, f"the facts are of {run.engine}", "verify the host again with this profile")
    if run.code == _NOT_THERE:
        return fails(expected, run.message, apply("containers", "installs it"))
    if run.program is None:
        return fails(expected, f"{engine} ended with {run.code}: {run.message or 'without a word'}", _engine_hint(engine))
    without = "" if run.own_pids else _SHARED
    if run.way == "none":
        msg = f"no NVIDIA GPU; a container of {engine} runs a program as an ordinary user{without}"
        return unknown(expected, msg, "verify on a host with the GPU, or excuse the GPU part with --without-gpu")
    verdict = _sums(expected, run.program, max(1, len(require_gpu(facts).nodes)), f"{engine}, by {run.way}{without}")
    return _counters(expected, run, verdict) if opened and verdict.outcome == "pass" else verdict


def _engine_hint(engine: str) -> str:
    if engine == "docker":
        return "see `journalctl -u docker`, and `docker run --rm --runtime=nvidia` of an image of yours"
    return "see `nvidia-ctk cdi list`, and `podman run --rm --device nvidia.com/gpu=all` of an image of yours"


def _sums(expected: str, program: ContainerProgram, gpus: int, how: str) -> Verdict:
    """What became of the program on the GPUs."""
    if not program.library:
        hint = "the toolkit put no driver library into the container: start nvidia-cdi-refresh.service, and see `nvidia-ctk cdi list`"
        return fails(expected, f"{how}: {program.error}", hint)
    if program.error:
        return fails(
            expected, f"{how}: {program.error}", "see the checks driver, fabric and device-nodes: the driver refuses the container"
        )
    wrong = [
        f"GPU {index}: {device.error or f'the sum is {device.sum}, not {_ADDED}'}"
        for index, device in enumerate(program.devices)
        if device.error or device.sum != _ADDED
    ]
    if wrong:
        return fails(expected, f"{how}: {'; '.join(wrong)}", "see the checks driver and gpu-health")
    if len(program.devices) < gpus:
        return fails(expected, f"{how}: right on {len(program.devices)} of {gpus} GPUs", "see `nvidia-ctk cdi list`: a GPU is missing")
    return passes(expected, f"{how}: right on every GPU ({len(program.devices)})")


def _counters(expected: str, run: ContainerRunFacts, verdict: Verdict) -> Verdict:
    """A program that computes, and what ncu said beside it."""
    if run.counters is None:
        return unknown(expected, f"{verdict.observed}, counters not tried", "install ncu on the host: stack.profilers")
    observed = f"{verdict.observed}, counters {run.counters.outcome}"
    if run.counters.outcome == "refused":
        return fails(expected, observed, "the driver refuses containers: see the check counters")
    if run.counters.outcome != "open":
        return unknown(expected, f"{observed} ({run.counters.message})", "run ncu in a container by hand")
    return passes(expected, observed)


_check = partial(Check, role="containers", needs_gpu=True, unasked=_UNASKED)
_BY_HAND: Final = "`gpuprov verify` asks for it; the probe by hand starts no container"
CHECKS = (
    _check("containers-installed", "the container engine and NVIDIA's toolkit are there", _installed),
    _check("containers", "a container of an ordinary user computes on every GPU", _runs, tier="standard", unknown_hint=_BY_HAND),
)
