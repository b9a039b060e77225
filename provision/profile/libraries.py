"""Components of `stack.extras` that depend on the rest of a stack: which release is installed, and how one is built from source."""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Final

from provision.catalog import read
from provision.catalog.records.extras import Extra
from provision.catalog.records.gpus import GpuRecord
from provision.catalog.records.libraries import LibraryRelease, SourceBuild
from provision.catalog.records.stack import ReleaseRecord, System, Toolkit
from provision.catalog.wheels import WheelSet, binding_set, build_tools
from provision.profile.locked import LockedBuild, LockedEnvironment, LockedExtra
from provision.profile.model import Profile
from provision.profile.packages import Names
from provision.structs import Struct

VENV: Final = "/opt/gpuprov/venvs/pytorch"
# The packages of TensorRT, also those that a profile does not install. They are held: an upgrade would leave the wheel behind.
RELEASED: Final = ("libnvinfer*", "libnvonnxparsers*", "python3-libnvinfer*", "tensorrt*")


def releases(profile: Profile, gpu: GpuRecord, system: System, toolkit: Toolkit, driver: str) -> dict[str, LibraryRelease]:
    """The newest release of each component of the profile that has some; the resolver's rules hold that there is one."""
    return {
        extra.name: next(
            release
            for release in extra.releases
            if release.runs(capability=gpu.compute_capability, repository=system.repository, cuda=toolkit.version, driver=driver)
        )
        for extra in (read.extras()[name] for name in profile.stack.extras)
        if extra.releases
    }


def held(chosen: Mapping[str, LibraryRelease]) -> tuple[str, ...]:
    """The patterns of their packages that nothing upgrades."""
    return RELEASED if chosen else ()


def of_release(
    extra: Extra, release: LibraryRelease, into: LockedEnvironment, resolved: Callable[[WheelSet], tuple[str, ...]]
) -> LockedExtra:
    """A component whose libraries are packages: its Python part is a wheel in PyTorch's environment."""
    wheels = resolved(binding_set(extra, release, into.python))
    name = release.requirement.partition("==")[0]
    return LockedExtra(version=release.version, environment="pytorch", package=name, unit=extra.unit or None, wheels=wheels)


class Builder(Struct):
    """What a component is built for and with: the rest of the lock."""

    names: Names
    gpu: GpuRecord
    toolkit: Toolkit
    cuda_home: str
    gcc: int

    def build(
        self,
        extra: Extra,
        record: SourceBuild,
        release: ReleaseRecord,
        into: LockedEnvironment,
        tools: Callable[[WheelSet, str], LockedEnvironment],
    ) -> LockedBuild:
        """How a component is built against a release of PyTorch."""
        where = f"{self.names.system.key} + CUDA {self.toolkit.version} + PyTorch {release.version}"
        if where not in record.built:
            done = f": it was built on {' and '.join(record.built)}" if record.built else ": nobody built it yet with gpuprov"
            self.names.notes.append(f"whether {extra.title} {record.version} builds on {where}{done}")
        cc, cxx = self.names.compilers(self.gcc)
        capability = self.gpu.compute_capability
        words = {
            "cc": cc,
            "cxx": cxx,
            "cuda_home": self.cuda_home,
            "code": record.architecture(capability),
            "capability": capability,
            "site": f"{VENV}/lib/python{into.python}/site-packages",
        }
        variables = {}
        for name, value in record.environment.items():
            for word, text in words.items():
                value = value.replace(f"<{word}>", text)  # noqa: PLW2901 - filled in, one word after the other
            variables[name] = value
        source = f"{record.name}=={record.version} --hash=sha256:{record.sha256}"
        environment = tools(build_tools(extra, record, into.python), record.version)
        torch = [line for line in into.wheels if line.startswith("torch==")]
        basis = [source, variables, self.gcc, self.toolkit.version, into.python, self.names.system.key, environment.wheels, torch]
        return LockedBuild(
            source=source,
            tools=environment,
            variables=variables,
            job_gb=record.job_gb,
            key=hashlib.sha256(json.dumps(basis).encode()).hexdigest(),
        )
