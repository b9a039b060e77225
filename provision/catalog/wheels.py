"""The exact wheels of a framework: every package with its version and hashes, for one Python on x86_64 Linux.

A wheel set is text for pip's `--require-hashes`. `resolve_with_uv` made the shipped ones (`data/wheels/`) and refreshes them; nothing else
asks a package index.
"""

import itertools
import os
import shutil
import subprocess
import sysconfig
import tempfile
import tomllib
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from provision.catalog import read
from provision.catalog.records.base import version
from provision.catalog.records.extras import Extra
from provision.catalog.records.gpus import GpuRecord
from provision.catalog.records.libraries import LibraryRelease, SourceBuild
from provision.catalog.records.stack import ReleaseRecord
from provision.catalog.rules import wheel_cudnn
from provision.errors import IndexUnreachableError
from provision.structs import Struct

PLATFORM: Final = "x86_64-manylinux_2_28"  # the oldest glibc of the catalog's systems is 2.34
_TIMEOUT_S: Final = 300
# The first words of an extra's set that the index cannot resolve together with PyTorch's own wheels: that answer is kept too.
NONE_FIT: Final = "# no release of it goes with"


class WheelRecord(Struct):
    """One package of a set; it has several hashes where the index has its version for several platforms."""

    name: str
    version: str
    sha256: tuple[str, ...]


class WheelSet(Struct):
    """The wheels of one environment.

    Attributes:
        name: of its file, such as `torch-2.10.0-cp312`.
        requirements: for the package index.
        python: such as `3.12`.
        index: `default`, or the name of an index of PyTorch's.
        within: the set that this one extends without changing its versions; its text has the additions only.
    """

    name: str
    requirements: tuple[str, ...]
    python: str
    index: str = "default"
    within: str | None = None

    def text(self) -> str | None:
        """The wheels as pip takes them, refreshed or shipped; None when the set was never resolved."""
        return read.closures(self.name)


def set_for(framework: str, release: ReleaseRecord, gpu: GpuRecord, python: str) -> WheelSet:
    """The wheel set of a framework on a GPU; a range of cuDNN is held to one version where the GPU needs that."""
    tag = f"cp{python.replace('.', '')}"
    if framework == "pytorch":
        return WheelSet(f"torch-{release.version}-{tag}", (f"torch=={release.version}",), python, release.index)
    requirement = f"{ {'tensorflow': 'tensorflow[and-cuda]', 'jax': 'jax[cuda12]'}[framework] }=={release.version}"
    cudnn = wheel_cudnn(gpu, release) if release.cudnn is None else None
    if cudnn is None:
        return WheelSet(f"{framework}-{release.version}-{tag}", (requirement,), python)
    return WheelSet(f"{framework}-{release.version}-cudnn-{cudnn}-{tag}", (requirement, f"nvidia-cudnn-cu12=={cudnn}"), python)


def extra_set(extra: Extra, release: ReleaseRecord, python: str) -> WheelSet | None:
    """What an extra adds to PyTorch's environment; None where it has no wheels for that release's CUDA."""
    if extra.build:
        requirements = tuple(extra.build.of_major(release.cuda))
    else:
        requirements = tuple(filter(None, [extra.of_major(extra.requirement, release.cuda)]))
    old = extra.build is not None and version(release.cudnn or "0") < version(extra.build.cudnn_from)
    if not requirements or release.index != "default" or old:
        return None
    within = f"torch-{release.version}-cp{python.replace('.', '')}"
    return WheelSet(f"{within}-{extra.name}", requirements, python, within=within)


def extra_wheels(extra: Extra, release: ReleaseRecord, python: str) -> tuple[str, ...]:
    """The lines that an extra adds to PyTorch's own; none where no release fits them, or where the set was never resolved."""
    wheels = extra_set(extra, release, python)
    text = (wheels.text() if wheels else None) or ""
    return tuple(line for line in text.splitlines() if not line.startswith("#"))


def binding_set(extra: Extra, release: LibraryRelease, python: str) -> WheelSet:
    """The Python part of a component whose libraries are packages; it depends on no other wheel."""
    return WheelSet(f"{extra.name}-{release.version}-cp{python.replace('.', '')}", (release.requirement,), python)


def build_tools(extra: Extra, build: SourceBuild, python: str) -> WheelSet:
    """The tools that a component is built with; PyTorch itself is used from its environment."""
    return WheelSet(f"{extra.name}-build-{build.version}-cp{python.replace('.', '')}", tuple(sorted(build.tools)), python)


def opencv_set(python: str) -> WheelSet:
    """OpenCV without CUDA, and its NumPy."""
    wheel = read.systems().opencv.wheel_for(python)
    return WheelSet(
        f"{wheel.name}-{wheel.version}-cp{python.replace('.', '')}", (f"{wheel.name}=={wheel.version}", f"numpy=={wheel.numpy}"), python
    )


def opencv_decoder(python: str) -> WheelSet:
    """NVIDIA's library for the GPU's video decoder, beside an OpenCV that is built with CUDA."""
    decoder = read.systems().opencv.decoder
    return WheelSet(f"{decoder.name}-{decoder.version}-cp{python.replace('.', '')}", (f"{decoder.name}=={decoder.version}",), python)


def opencv_tools(python: str) -> WheelSet:
    """The tools that OpenCV is built with, including its own build requirements."""
    build = read.systems().opencv.build
    by_python = next(it.tools for it in build.by_python if version(python) <= version(it.upto))
    return WheelSet(
        f"opencv-build-{build.releases[0].version}-cp{python.replace('.', '')}", tuple(sorted([*build.tools, *by_python])), python
    )


def all_sets() -> list[WheelSet]:
    """Every set that a stack can need and that the default index can resolve."""
    pythons = sorted({s.python.version for s in read.systems().systems}, key=version)
    gpus = [g for g in read.gpus().gpus if g.machine == "x86_64"]
    releases = [(name, release) for name, releases in read.frameworks().items() for release in releases]
    frameworks = [
        set_for(name, release, gpu, python)
        for (name, release), gpu, python in itertools.product(releases, gpus, pythons)
        if release.index == "default" and release.python.cover(python) and release.runs_on(gpu.compute_capability)
    ]
    extras = [
        extra_set(extra, release, python)
        for extra, release, python in itertools.product(read.extras().values(), read.pytorch(), pythons)
        if release.python.cover(python)
    ]
    extras += [
        binding_set(extra, release, system.python.version)
        for extra, system in itertools.product(read.extras().values(), read.systems().systems)
        for release in extra.releases
        if release.runs(repository=system.repository)
    ]
    extras += [build_tools(extra, extra.build, python) for extra in read.extras().values() if extra.build for python in pythons]
    opencv = [make(python) for python in pythons for make in (opencv_set, opencv_decoder, opencv_tools)]
    return list({wheels.name: wheels for wheels in (*frameworks, *extras, *opencv) if wheels is not None}.values())


def parse(text: str) -> list[WheelRecord]:
    """The wheels of a set's text."""
    wheels = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            pin, *hashes = line.split(" --hash=sha256:")
            name, _, release = pin.partition("==")
            wheels.append(WheelRecord(name, release, tuple(hashes)))
    return wheels


class NoneFitError(Exception):
    """No releases go together; the text is uv's own explanation."""


def resolve_with_uv(wheels: WheelSet) -> str:
    """Resolve a set against the package index as it is now, and return its text.

    The index is the one that uv and the environment are configured for. Only metadata is downloaded.

    Raises:
        IndexUnreachableError: no answer, or the set cannot be resolved.
    """
    base = parse(read.closures(wheels.within) or "") if wheels.within else []
    pins = [f"{wheel.name}=={wheel.version}" for wheel in base]
    try:
        packages = _compile([*wheels.requirements, *pins], wheels.python, wheels.name)
    except NoneFitError as error:
        if wheels.within:
            return f"{NONE_FIT} what {wheels.within} holds\n"
        msg = f"the package index gave no wheels for {wheels.name}"
        raise IndexUnreachableError(msg, hint="see --verbose; the shipped wheel sets stay in use", detail=str(error)) from error
    return "\n".join(_lines(packages, {wheel.name for wheel in base})) + "\n"


def resolve_beside(requirements: Sequence[str], pins: Sequence[str], python: str, name: str) -> tuple[str, ...]:
    """The wheels that requirements add to an environment whose own pins stay as they are.

    Args:
        requirements: as uv takes them.
        pins: the environment's wheels, as pip takes them.
        python: such as `3.12`.
        name: what they are called in an error.

    Raises:
        NoneFitError: no releases go together.
        IndexUnreachableError: no answer.
    """
    base = parse("\n".join(pins))
    packages = _compile([*requirements, *(f"{wheel.name}=={wheel.version}" for wheel in base)], python, name)
    return tuple(_lines(packages, {wheel.name for wheel in base}))


def _compile(requirements: Sequence[str], python: str, name: str) -> list[dict[str, Any]]:
    """What uv resolves requirements to, as the packages of a pylock.toml."""
    with tempfile.TemporaryDirectory() as folder:
        source, lockfile = Path(folder) / "requirements.in", Path(folder) / "pylock.toml"
        source.write_text("\n".join(requirements) + "\n")
        command = [uv_program(), "pip", "compile", "--quiet", "--no-header", "--no-build", "--format", "pylock.toml"]
        command += ["--python-version", python, "--python-platform", PLATFORM, str(source), "--output-file", str(lockfile)]
        try:
            uv = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=uv_environment())
        except subprocess.TimeoutExpired as error:
            msg = f"the package index did not resolve {name} in {_TIMEOUT_S} s"
            raise IndexUnreachableError(msg, hint="try again later; the shipped wheel sets stay in use") from error
        if uv.returncode != 0 and "No solution found" in uv.stderr:
            raise NoneFitError(" ".join(uv.stderr.split()))
        if uv.returncode != 0:
            msg = f"the package index gave no wheels for {name}"
            raise IndexUnreachableError(msg, hint="see --verbose; the shipped wheel sets stay in use", detail=uv.stderr.strip())
        packages: list[dict[str, Any]] = tomllib.loads(lockfile.read_text())["packages"]
    return packages


def _lines(packages: Iterable[dict[str, Any]], but: Container[str]) -> Iterator[str]:
    """Resolved packages as pip takes them, without those that are there already."""
    for package in packages:
        if package["name"] not in but:
            hashes = sorted({wheel["hashes"]["sha256"] for wheel in package["wheels"]})
            yield f"{package['name']}=={package['version']}" + "".join(f" --hash=sha256:{digest}" for digest in hashes)


def uv_program() -> str:
    """uv, as it is installed beside this interpreter, or the one of PATH."""
    beside = Path(sysconfig.get_path("scripts")) / "uv"
    return str(beside) if beside.exists() else shutil.which("uv") or "uv"


def uv_environment() -> dict[str, str]:
    """The user's environment, so that her index, proxy and certificates apply, but without uv's project discovery.

    Wheels are resolved and unpacked for a Python that need not be here; uv would fetch it from GitHub.
    """
    kept = {name: value for name, value in os.environ.items() if name not in {"UV_PROJECT", "VIRTUAL_ENV"}}
    return kept | {"UV_PYTHON_DOWNLOADS": "never"}
