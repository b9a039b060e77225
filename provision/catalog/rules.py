"""What works together: one rule for each fact of the field, over the catalog's records, each with a sentence on why it forbids something.

Nothing else in gpuprov decides about compatibility. The figures are in `data/*.yaml`, each with its source.
"""

import datetime as dt
from typing import Final

from provision.catalog import read
from provision.catalog.records.base import version
from provision.catalog.records.gpus import GpuRecord
from provision.catalog.records.stack import Branch, CudnnRelease, ReleaseRecord, System, Toolkit
from provision.catalog.repositories import repository_rules
from provision.catalog.solve import Rule
from provision.structs import Struct

TITLES: Final = {"pytorch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX"}
SETTLED: Final = frozenset({"lts", "production"})  # designations that live long enough to be chosen by `auto`


class ClockRequest(Struct):
    """The clocks of a profile: `default`, `max`, or a `pair` in MHz."""

    kind: str
    memory_mhz: int = 0
    graphics_mhz: int = 0

    def __str__(self) -> str:
        return self.kind if self.kind != "pair" else f"{self.memory_mhz},{self.graphics_mhz} MHz"


def gcc_for(system: System, toolkit: Toolkit) -> int | None:
    """The first gcc in the system's list that the toolkit's headers accept; None when there is none."""
    return next((gcc for gcc in system.gcc if gcc <= toolkit.gcc), None)


def wheel_cudnn(gpu: GpuRecord, release: ReleaseRecord) -> str | None:
    """The cuDNN that a framework runs with on a GPU: the release's pin, or the version that its range is held to; None if it is open."""
    if release.cudnn is not None:
        return release.cudnn
    newest = max(read.cudnn().releases, key=lambda c: version(c.version))
    return None if newest.compute_capability.cover(gpu.compute_capability) else read.tensorflow().cudnn_for_volta.version


def rules(today: dt.date) -> tuple[Rule, ...]:
    """All rules on a day; the day matters because support of a driver branch ends."""
    frameworks = [rule for name, title in TITLES.items() for rule in _framework(name, title)]
    return (
        *_machine(),
        *_driver(today),
        *_toolkit(),
        *repository_rules(),
        *_libraries(),
        *frameworks,
        *_settings(),
        *_counters(),
        *_clock_pairs(),
    )


def machine_rule(flavour: str, why: str) -> Rule:
    """The advice to use the kernel modules that a machine is better off with."""
    return Rule("machine-advises-flavour", ("flavour",), lambda modules: modules == flavour, lambda _modules: why, soft=True)


def capability_text(gpu: GpuRecord) -> str:
    """The GPU with its compute capability, as part of a sentence."""
    return f"{gpu.name} is {gpu.compute_capability}"


def _machine() -> tuple[Rule, ...]:
    return (
        Rule(
            "machine-is-x86",
            ("gpu",),
            lambda gpu: gpu.machine == "x86_64",
            lambda gpu: f"{gpu.name} comes with {gpu.machine} processors only, and images and wheels here are for x86_64",
        ),
        Rule(
            "system-has-python",
            ("os",),
            lambda system: version(system.python.version) >= (3, 8),
            lambda system: f"Ansible needs Python 3.8 or later on the host, and {system.key} has {system.python.version}",
        ),
    )


def _driver(today: dt.date) -> tuple[Rule, ...]:
    flavours = read.driver().flavours

    def flavour_fits(gpu: GpuRecord, flavour: str) -> bool:
        capability = version(gpu.compute_capability)
        if flavour == "open":
            return capability >= version(flavours.open_from)
        return capability < version(flavours.open_only_from)

    def alive(branch: Branch) -> bool:
        return branch.designation in SETTLED and (branch.end_of_life is None or branch.end_of_life >= today)

    def why_not_alive(branch: Branch) -> str:
        if branch.end_of_life is not None and branch.end_of_life < today:
            return f"driver {branch.branch}: its support ended on {branch.end_of_life}"
        if branch.designation == "unknown":
            return f"driver {branch.branch}: no page of NVIDIA's says how long it is supported"
        return f"driver {branch.branch} is {'a new-feature branch' if branch.designation == 'feature' else 'no longer supported'}"

    return (
        Rule(
            "driver-drives-gpu",
            ("gpu", "driver"),
            lambda gpu, branch: branch.compute_capability.cover(gpu.compute_capability),
            lambda gpu, branch: (
                f"driver {branch.branch} drives compute capability {branch.compute_capability.oldest} to "
                f"{branch.compute_capability.newest}, and {capability_text(gpu)}"
            ),
        ),
        Rule(
            "driver-has-flavour",
            ("driver", "flavour"),
            lambda branch, flavour: flavour in branch.flavours,
            lambda branch, flavour: f"driver {branch.branch} is offered with {' and '.join(branch.flavours)} kernel modules, not {flavour}",
        ),
        Rule(
            "modules-fit-gpu",
            ("gpu", "flavour"),
            flavour_fits,
            lambda gpu, flavour: (
                f"the open kernel modules need a GSP, which GPUs have from {flavours.open_from} on, and {capability_text(gpu)}"
                if flavour == "open"
                else f"{capability_text(gpu)}, and from {flavours.open_only_from} on there are no proprietary kernel modules"
            ),
        ),
        Rule("driver-is-supported", ("driver",), alive, why_not_alive, soft=True),
    )


def _toolkit() -> tuple[Rule, ...]:
    floors = {floor.major: floor.driver for floor in read.toolkits().driver_floors}

    def profiled(ncu: str, gpu: GpuRecord, toolkit: Toolkit) -> bool:
        if ncu == "no":
            return True
        if toolkit.ncu is None:  # an unknown release is judged like the newest known one
            return read.toolkits().profilers[-1].compute_capability.cover(gpu.compute_capability)
        era = version(toolkit.ncu)[:2]
        span = next(p.compute_capability for p in read.toolkits().profilers if p.tool == "ncu" and era <= version(p.upto))
        return span.cover(gpu.compute_capability)

    return (
        Rule(
            "toolkit-compiles-for-gpu",
            ("gpu", "cuda"),
            lambda gpu, toolkit: toolkit.compute_capability.cover(gpu.compute_capability),
            lambda gpu, toolkit: (
                f"nvcc of CUDA {toolkit.version} compiles for compute capability {toolkit.compute_capability.oldest} to "
                f"{toolkit.compute_capability.newest}, and {capability_text(gpu)}"
            ),
        ),
        Rule(
            "driver-runs-toolkit",
            ("driver", "cuda"),
            lambda branch, toolkit: version(branch.branch) >= version(floors[toolkit.major]),
            lambda branch, toolkit: f"CUDA {toolkit.major} needs driver {floors[toolkit.major]} or later, not {branch.branch}",
        ),
        Rule(
            "driver-is-not-older-than-toolkit",
            ("driver", "cuda"),
            lambda branch, toolkit: version(branch.branch) >= version(toolkit.driver)[:1],
            lambda branch, toolkit: (
                f"CUDA {toolkit.version} came with driver {toolkit.driver}; "
                f"driver {branch.branch} runs it without that driver's newer features"
            ),
            soft=True,
        ),
        Rule(
            "toolkit-accepts-gcc",
            ("os", "cuda"),
            lambda system, toolkit: gcc_for(system, toolkit) is not None,
            lambda system, toolkit: f"CUDA {toolkit.version} accepts gcc up to {toolkit.gcc}, and {system.key} has {_list(system.gcc)}",
        ),
        Rule(
            "ncu-profiles-gpu",
            ("ncu", "gpu", "cuda"),
            profiled,
            lambda _ncu, gpu, toolkit: (
                f"Nsight Compute {toolkit.ncu or 'of that release'}, of CUDA {toolkit.version}, does not profile compute capability "
                f"{gpu.compute_capability} ({gpu.name})"
            ),
        ),
    )


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def _libraries() -> tuple[Rule, ...]:
    return (
        Rule(
            "cudnn-runs-on-gpu",
            ("gpu", "cudnn"),
            lambda gpu, cudnn: cudnn is None or cudnn.compute_capability.cover(gpu.compute_capability),
            lambda gpu, cudnn: (
                f"cuDNN {cudnn.version} is for compute capability {cudnn.compute_capability.oldest} to "
                f"{cudnn.compute_capability.newest}, and {capability_text(gpu)}"
            ),
        ),
        Rule(
            "cudnn-built-for-cuda",
            ("cuda", "cudnn"),
            lambda toolkit, cudnn: cudnn is None or toolkit.major in cudnn.cuda_majors,
            lambda toolkit, cudnn: (
                f"cuDNN {cudnn.version} is built for CUDA {' and '.join(map(str, cudnn.cuda_majors))}, not {toolkit.major}"
            ),
        ),
    )


def _framework(name: str, title: str) -> tuple[Rule, ...]:
    floors = {floor.major: floor.driver for floor in read.toolkits().driver_floors}
    cudnns = sorted(read.cudnn().releases, key=lambda c: version(c.version))

    def floor(release: ReleaseRecord) -> str:
        return floors[version(release.cuda)[0]]

    def cudnn_fits(gpu: GpuRecord, release: ReleaseRecord | None) -> bool:
        pin = wheel_cudnn(gpu, release) if release else None
        return pin is None or _nearest(pin).compute_capability.cover(gpu.compute_capability)

    def _nearest(pin: str) -> CudnnRelease:
        """The catalog's newest release up to this one, or else its oldest: patch releases serve the same GPUs."""
        return next((c for c in reversed(cudnns) if version(c.version) <= version(pin)), cudnns[0])

    return (
        Rule(
            f"{name}-has-kernels",
            ("gpu", name),
            lambda gpu, release: release is None or release.runs_on(gpu.compute_capability),
            lambda gpu, release: (
                f"{title} {release.version} has kernels for {', '.join(f'sm_{arch}' for arch in release.sass)} and none for "
                f"{gpu.name} (sm_{gpu.compute_capability.replace('.', '')})"
            ),
        ),
        Rule(
            f"{name}-driver",
            ("driver", name),
            lambda branch, release: release is None or version(branch.branch) >= version(floor(release)),
            lambda branch, release: (
                f"{title} {release.version} is built with CUDA {release.cuda}, which needs driver {floor(release)} or later, "
                f"not {branch.branch}"
            ),
        ),
        Rule(
            f"{name}-python",
            ("os", name),
            lambda system, release: release is None or release.python.cover(system.python.version),
            lambda system, release: (
                f"{title} {release.version} has wheels for Python {release.python.oldest} to {release.python.newest}, "
                f"and {system.key} has {system.python.version}"
            ),
        ),
        Rule(
            f"{name}-cudnn",
            ("gpu", name),
            cudnn_fits,
            lambda gpu, release: (
                f"{title} {release.version} brings cuDNN {wheel_cudnn(gpu, release)}, which does not serve {gpu.name} "
                f"({gpu.compute_capability})"
            ),
        ),
        Rule(
            f"{name}-is-measured",
            (name,),
            lambda release: release is None or release.index == "default",
            lambda release: f"{title} {release.version} comes from the index {release.index}, whose wheels are not in the catalog",
            soft=True,
        ),
    )


def _settings() -> tuple[Rule, ...]:
    clocks = read.driver().clocks
    graphics_from = version(clocks.locked_graphics_from["compute_capability"])
    memory_from = version(clocks.locked_memory_from["compute_capability"])

    def mode_fits(gpu: GpuRecord, request: ClockRequest, mode: str) -> bool:
        if request.kind == "default":
            return mode == "none"
        capability = version(gpu.compute_capability)
        if capability >= memory_from:
            return mode == "locked"
        if mode == "locked-graphics":
            return capability >= graphics_from and memory_is_highest(gpu, request)
        return mode == "application"

    def memory_is_highest(gpu: GpuRecord, request: ClockRequest) -> bool:
        """Whether the memory clock is the one that the card has under load by itself, so that only the other has to be held."""
        return request.kind == "max" or (gpu.clocks is not None and request.memory_mhz == gpu.clocks.memory_mhz)

    def why_not(gpu: GpuRecord, request: ClockRequest, _mode: str) -> str:
        if request.kind == "default":
            return "clocks that are left at their default need no mode"
        if version(gpu.compute_capability) >= memory_from:
            return f"{gpu.name} ({gpu.compute_capability}) can lock both clocks, which takes the place of application clocks"
        if memory_is_highest(gpu, request):
            return f"{gpu.name} ({gpu.compute_capability}) keeps such clocks as application clocks, or with its graphics clock locked"
        return (
            f"memory clocks can be locked from {clocks.locked_memory_from['compute_capability']} on and {capability_text(gpu)}, "
            f"so the pair {request} needs application clocks"
        )

    return (
        Rule("clocks-mode", ("gpu", "clocks", "clock_mode"), mode_fits, why_not),
        Rule(
            "application-clocks-are-deprecated",
            ("gpu", "driver", "clock_mode"),
            lambda gpu, branch, mode: (
                mode != "application"
                or version(branch.branch) < version(clocks.deprecated_from_branch["branch"])
                or version(gpu.compute_capability) < graphics_from
            ),
            lambda gpu, branch, _mode: (
                f"driver {branch.branch} calls application clocks deprecated, and {gpu.name} can lock the graphics clock"
            ),
            soft=True,
        ),
        Rule(
            "driver-has-application-clocks",
            ("driver", "clock_mode"),
            lambda branch, mode: mode != "application" or branch.application_clocks,
            lambda branch, _mode: f"driver {branch.branch} is said to have dropped application clocks",
        ),
    )


def _counters() -> tuple[Rule, ...]:
    group = read.driver().counters_for_group
    return (
        Rule(
            "group-counters",
            ("counters", "driver", "flavour"),
            lambda counters, branch, flavour: (
                counters != "group" or (flavour == group.flavour and version(branch.branch) >= version(group.from_branch))
            ),
            lambda _counters, branch, flavour: (
                f"counters for a group need CAP_PERFMON, which the {group.flavour} kernel modules know from driver {group.from_branch} "
                f"on; these are the {flavour} ones of {branch.branch}"
            ),
        ),
    )


def _clock_pairs() -> tuple[Rule, ...]:
    def in_reach(gpu: GpuRecord, request: ClockRequest) -> bool:
        """A card has few memory clocks, and another card's is none of them; its graphics clock goes down from the highest in steps."""
        top = gpu.clocks
        return request.kind != "pair" or top is None or (request.memory_mhz == top.memory_mhz and request.graphics_mhz <= top.graphics_mhz)

    def listed(gpu: GpuRecord, request: ClockRequest) -> bool:
        pair = (request.memory_mhz, request.graphics_mhz)
        return request.kind != "pair" or (gpu.clocks is not None and pair == (gpu.clocks.memory_mhz, gpu.clocks.graphics_mhz))

    def why_not_listed(gpu: GpuRecord, request: ClockRequest) -> str:
        pairs = f"{gpu.clocks.memory_mhz},{gpu.clocks.graphics_mhz} MHz" if gpu.clocks else "no pair"
        return f"the catalog lists {pairs} for {gpu.name}; `nvidia-smi -q -d SUPPORTED_CLOCKS` on the host says whether it has {request}"

    return (
        Rule(
            "clocks-in-reach",
            ("gpu", "clocks"),
            in_reach,
            lambda gpu, request: (
                f"{gpu.name} has no clocks {request}: the catalog lists {gpu.clocks.memory_mhz},{gpu.clocks.graphics_mhz} MHz for it, "
                "and graphics clocks below"
            ),
        ),
        Rule("clocks-are-listed", ("gpu", "clocks"), listed, why_not_listed, soft=True),
    )
