"""Rules about optional parts: nvprof, OpenCV with CUDA, and the components of `stack.extras`.

Each is a variable only in a profile that has it. Its value is its record, or None where a remedy would leave it out.
"""

from collections.abc import Callable, Iterable
from typing import Final

from provision.catalog import read
from provision.catalog.records.base import version
from provision.catalog.records.extras import Extra
from provision.catalog.records.gpus import GpuRecord
from provision.catalog.records.libraries import SourceBuild
from provision.catalog.records.stack import Branch, ReleaseRecord, System, Toolkit
from provision.catalog.rules import TITLES, capability_text
from provision.catalog.signed import SIGNED, signed_rules
from provision.catalog.solve import Rule
from provision.catalog.wheels import extra_wheels

OPENCV: Final = "opencv-cuda"


def optional_rules(names: Iterable[str]) -> tuple[Rule, ...]:
    """The rules about these optional parts."""
    own = {"nvprof": _nvprof, OPENCV: _opencv, SIGNED: signed_rules}
    return tuple(rule for name in names for rule in (own[name]() if name in own else _extra(read.extras()[name])))


def _opencv() -> tuple[Rule, ...]:
    build = read.systems().opencv.build
    newest = build.releases[-1]
    return (
        Rule(
            "opencv-builds-with-cuda",
            ("cuda", OPENCV),
            lambda toolkit, opencv: opencv is None or build.release_for(toolkit.version) is not None,
            lambda toolkit, _opencv: (
                f"the source of OpenCV {newest.version} is not known to build with CUDA {newest.cuda_below} and later ({toolkit.version})"
            ),
        ),
    )


def _nvprof() -> tuple[Rule, ...]:
    limits = read.toolkits().nvprof
    return (
        Rule(
            "nvprof-in-toolkit",
            ("cuda", "nvprof"),
            lambda toolkit, nvprof: nvprof is None or version(toolkit.version) <= version(limits.last_toolkit),
            lambda toolkit, _nvprof: f"nvprof came with CUDA up to {limits.last_toolkit}, and CUDA {toolkit.version} has none",
        ),
        Rule(
            "nvprof-traces-gpu",
            ("gpu", "nvprof"),
            lambda gpu, nvprof: nvprof is None or version(gpu.compute_capability) < version(limits.traces_below),
            lambda gpu, _nvprof: (
                f"nvprof runs on nothing from compute capability {limits.traces_below} on, and {capability_text(gpu)}; nsys and ncu do"
            ),
        ),
        Rule(
            "nvprof-reads-metrics",
            ("gpu", "nvprof"),
            lambda gpu, nvprof: nvprof is None or version(gpu.compute_capability) < version(limits.metrics_below),
            lambda gpu, _nvprof: (
                f"from {limits.metrics_below} on nvprof only traces: `nvprof -m` reads no metric on {gpu.name}, `ncu` does"
            ),
            soft=True,
        ),
    )


def _extra(extra: Extra) -> tuple[Rule, ...]:
    if extra.how == "refused":
        return (
            Rule(
                f"{extra.name}-is-installed",
                (extra.name,),
                lambda it: it is None,
                lambda _it: f"{extra.title} is not installed: {extra.why}",
            ),
        )
    rules = []
    span = extra.compute_capability
    if span is not None:
        rules.append(
            Rule(
                f"{extra.name}-serves-gpu",
                ("gpu", extra.name),
                lambda gpu, it: it is None or span.cover(gpu.compute_capability),
                lambda gpu, _it: (
                    f"{extra.title} serves compute capability {span.oldest} and later, and {capability_text(gpu)}: {extra.why}"
                ),
            )
        )
    if extra.how == "packages":
        rules.append(
            Rule(
                f"{extra.name}-in-repository",
                ("packages", extra.name),
                lambda packages, it: it is None or packages == "nvidia",
                lambda _packages, _it: f"{extra.title} is in NVIDIA's repositories and in no distribution's own",
            )
        )
    if extra.how == "framework":
        titles = " or ".join(TITLES[name] for name in extra.frameworks)
        rules.append(
            Rule(
                f"{extra.name}-comes-with-framework",
                (*extra.frameworks, extra.name),
                lambda *values: values[-1] is None or any(release is not None for release in values[:-1]),
                lambda *_values: f"{extra.title} comes with {titles}, and the profile asks for no {titles}",
            )
        )
    if extra.releases:
        rules.extend(_releases(extra))
    if extra.build:
        rules.extend(_build(extra, extra.build))
    if extra.how in {"wheels", "source"}:
        rules.append(Rule(f"{extra.name}-goes-with-pytorch", ("os", "pytorch", extra.name), _goes_with(extra), _why_not_with(extra)))
    return tuple(rules)


def _releases(extra: Extra) -> tuple[Rule, ...]:
    """A component with releases of its own: some release serves the GPU, is in the system's repository, and fits CUDA and driver."""
    releases, oldest = extra.releases, min((r.compute_capability.oldest for r in extra.releases), key=version)

    def on_system(gpu: GpuRecord, system: System, it: Extra | None) -> bool:
        return it is None or any(r.runs(capability=gpu.compute_capability, repository=system.repository) for r in releases)

    def why_not_on_system(gpu: GpuRecord, system: System, _it: Extra | None) -> str:
        fitting = [r for r in releases if r.runs(capability=gpu.compute_capability)]
        if not fitting:
            return f"{extra.title} serves compute capability {oldest} and later, and {capability_text(gpu)}"
        if not any(r.runs(repository=system.repository) for r in releases):
            return f"NVIDIA's repository for {system.key} has no packages of {extra.title}"
        newest = f"the last release of {extra.title} for compute capability {gpu.compute_capability} is {fitting[0].version}"
        return f"{newest}, whose packages are in NVIDIA's repositories {' and '.join(fitting[0].repositories)}, not in {system.repository}"

    def with_cuda(gpu: GpuRecord, system: System, toolkit: Toolkit, it: Extra | None) -> bool:
        if it is None or not on_system(gpu, system, it):
            return True
        return any(r.runs(capability=gpu.compute_capability, repository=system.repository, cuda=toolkit.version) for r in releases)

    def why_not_with_cuda(gpu: GpuRecord, system: System, toolkit: Toolkit, _it: Extra | None) -> str:
        fitting = [r for r in releases if r.runs(capability=gpu.compute_capability, repository=system.repository)]
        listed = " and ".join(f"{r.version} for CUDA {version(r.cuda)[0]}" for r in fitting)
        return f"{extra.title} for {gpu.name} on {system.key} is {listed}, and the toolkit is CUDA {toolkit.version}"

    return (
        Rule(f"{extra.name}-has-release", ("gpu", "os", extra.name), on_system, why_not_on_system),
        Rule(f"{extra.name}-goes-with-cuda", ("gpu", "os", "cuda", extra.name), with_cuda, why_not_with_cuda),
        Rule(
            f"{extra.name}-goes-with-driver",
            ("driver", "cuda", extra.name),
            lambda branch, toolkit, it: it is None or not _driver_too_old(extra, branch, toolkit),
            lambda branch, toolkit, _it: (
                f"{extra.title} for CUDA {version(toolkit.version)[0]} needs driver {_driver_too_old(extra, branch, toolkit)} or later, "
                f"and {branch.branch} is older"
            ),
        ),
        Rule(
            f"{extra.name}-needs-pytorch",
            ("pytorch", extra.name),
            lambda release, it: it is None or release is not None,
            lambda _release, _it: (
                f"the Python part of {extra.title} goes into PyTorch's environment, where it is proven, and the profile asks for no PyTorch"
            ),
        ),
    )


def _driver_too_old(extra: Extra, branch: Branch, toolkit: Toolkit) -> str:
    """The oldest driver for a component under a toolkit, where a branch is older than that; otherwise nothing."""
    fitting = [r for r in extra.releases if r.runs(cuda=toolkit.version)]
    return fitting[0].driver if fitting and not fitting[0].runs(driver=branch.branch) else ""


def _build(extra: Extra, build: SourceBuild) -> tuple[Rule, ...]:
    """A component that is built against PyTorch: nvcc and PyTorch are of one major release, and PyTorch's cuDNN is new enough."""
    return (
        Rule(
            f"{extra.name}-is-built-with-cuda-of-pytorch",
            ("cuda", "pytorch", extra.name),
            lambda toolkit, release, it: it is None or release is None or version(release.cuda)[0] == version(toolkit.version)[0],
            lambda toolkit, release, _it: (
                f"{extra.title} is built against PyTorch {release.version}, whose CUDA is {release.cuda}, "
                f"and the toolkit is CUDA {toolkit.version}"
            ),
        ),
        Rule(
            f"{extra.name}-goes-with-cudnn",
            ("pytorch", extra.name),
            lambda release, it: it is None or release is None or version(release.cudnn or "0") >= version(build.cudnn_from),
            lambda release, _it: (
                f"{extra.title} {build.version} needs cuDNN {build.cudnn_from} or later, "
                f"and PyTorch {release.version} brings {release.cudnn}"
            ),
        ),
        Rule(
            f"{extra.name}-is-built-with-nvidias-toolkit",
            ("packages", extra.name),
            lambda packages, it: it is None or packages == "nvidia",
            lambda _packages, _it: f"{extra.title} is built with NVIDIA's own toolkit, which the distribution's repositories do not have",
        ),
    )


def _goes_with(extra: Extra) -> Callable[..., bool]:
    def goes(system: System, release: ReleaseRecord | None, it: Extra | None) -> bool:
        return it is None or (release is not None and bool(extra_wheels(extra, release, system.python.version)))

    return goes


def _why_not_with(extra: Extra) -> Callable[..., str]:
    def why(system: System, release: ReleaseRecord | None, _it: Extra | None) -> str:
        if release is None:
            return f"{extra.title} is installed into PyTorch's environment, and the profile asks for no PyTorch"
        return f"no release of {extra.title} goes with the wheels of PyTorch {release.version} for Python {system.python.version}"

    return why
