"""Rules about optional parts: nvprof, OpenCV with CUDA, and the components of `stack.extras`.

Each is a variable only in a profile that has it. Its value is its record, or None where a remedy would leave it out.
"""

from collections.abc import Callable, Iterable
from typing import Final

from provision.catalog import read
from provision.catalog.records.base import version
from provision.catalog.records.stack import Extra, ReleaseRecord, System
from provision.catalog.rules import TITLES, capability_text
from provision.catalog.solve import Rule
from provision.catalog.wheels import extra_wheels

OPENCV: Final = "opencv-cuda"


def optional_rules(names: Iterable[str]) -> tuple[Rule, ...]:
    """The rules about these optional parts."""
    own = {"nvprof": _nvprof, OPENCV: _opencv}
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
    if extra.how == "wheels":
        rules.append(Rule(f"{extra.name}-goes-with-pytorch", ("os", "pytorch", extra.name), _goes_with(extra), _why_not_with(extra)))
    return tuple(rules)


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
