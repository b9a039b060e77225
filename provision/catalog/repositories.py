"""Rules about repositories: what NVIDIA's have for a system, and what a distribution packages itself."""

from collections.abc import Iterable
from typing import Any

from provision.catalog import read
from provision.catalog.records.base import version
from provision.catalog.records.stack import Branch, System
from provision.catalog.solve import Rule


def _own(system: System, part: str) -> Any:
    """What a distribution itself packages of a part; None where the catalog has nothing of it."""
    return getattr(read.distribution(system.key), part, None)


def _not_own(system: System, title: str, versions: Iterable[str], other: str) -> str:
    own = " and ".join(versions)
    if not own:
        return f"what {system.key} itself packages of NVIDIA's software is not in the catalog"
    return f"{system.key} itself packages {title} {own}, not {other}"


def _stays(system: System, branch: Branch) -> bool:
    return branch.branch not in (_own(system, "passing") or ())


def repository_rules() -> tuple[Rule, ...]:
    """The rules on where toolkits, drivers and cuDNN come from."""
    return (*_of_nvidia(), *_of_distributions())


def _of_nvidia() -> tuple[Rule, ...]:
    return (
        Rule(
            "toolkit-in-repository",
            ("os", "cuda", "packages"),
            lambda system, toolkit, packages: packages != "nvidia" or version(toolkit.version) >= version(system.toolkits_from),
            lambda system, toolkit, _packages: (
                f"NVIDIA's repository for {system.key} begins with CUDA {system.toolkits_from} and has no {toolkit.version}"
            ),
        ),
        Rule(
            "driver-in-repository",
            ("os", "driver", "packages"),
            lambda system, branch, packages: (
                packages != "nvidia" or system.drivers_from is None or version(branch.branch) >= version(system.drivers_from)
            ),
            lambda system, branch, _packages: (
                f"NVIDIA's repository for {system.key} begins with driver {system.drivers_from} and has no {branch.branch}"
            ),
        ),
        Rule(
            "cudnn-in-repository",
            ("os", "cudnn", "packages"),
            lambda system, cudnn, packages: (
                cudnn is None or packages != "nvidia" or system.cudnn_from is None or version(cudnn.version) >= version(system.cudnn_from)
            ),
            lambda system, cudnn, _packages: (
                f"NVIDIA's repository for {system.key} begins with cuDNN {system.cudnn_from} and has no {cudnn.version}"
            ),
        ),
    )


def _of_distributions() -> tuple[Rule, ...]:
    return (
        Rule(
            "toolkit-in-distribution",
            ("os", "cuda", "packages"),
            lambda system, toolkit, packages: packages == "nvidia" or _own(system, "cuda") == toolkit.version,
            lambda system, toolkit, _packages: _not_own(system, "CUDA", filter(None, [_own(system, "cuda")]), toolkit.version),
        ),
        Rule(
            "driver-in-distribution",
            ("os", "driver", "packages"),
            lambda system, branch, packages: packages == "nvidia" or branch.branch in (_own(system, "drivers") or ()),
            lambda system, branch, _packages: _not_own(system, "driver", _own(system, "drivers") or (), branch.branch),
        ),
        Rule(
            "driver-stays-in-distribution",
            ("os", "driver", "packages"),
            lambda system, branch, packages: packages == "nvidia" or _stays(system, branch),
            lambda system, branch, _packages: (
                f"{system.key}'s driver {branch.branch} becomes an empty package that depends on the next branch, so no lock of it lasts"
            ),
        ),
        Rule(
            "flavour-in-distribution",
            ("os", "flavour", "packages"),
            lambda system, flavour, packages: packages == "nvidia" or bool(_own(system, flavour)),
            lambda system, flavour, _packages: (
                f"{system.key} itself packages no {flavour} kernel modules that can be installed"
                if _own(system, "drivers")
                else _not_own(system, "", (), "")
            ),
        ),
    )
