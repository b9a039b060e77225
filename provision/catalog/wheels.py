"""The exact wheels of a framework: every package with its version and hashes, for one Python on x86_64 Linux.

A wheel set is text that pip takes with `--require-hashes`. The shipped ones (`data/wheels/`) were made by `resolve_with_uv`, which is also
what refreshes them; nothing is asked of an index anywhere else.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from provision.catalog import read
from provision.catalog.records.base import version
from provision.catalog.records.gpus import GpuRecord
from provision.catalog.records.stack import Extra, ReleaseRecord
from provision.catalog.rules import wheel_cudnn
from provision.errors import IndexUnreachableError

_PLATFORM: Final = "x86_64-manylinux_2_28"  # the oldest glibc of the catalogue's systems is 2.34
_TIMEOUT_S: Final = 300
# The whole text of an extra's set that the index cannot make beside PyTorch's own wheels: that is an answer too, and worth keeping.
NONE_FIT: Final = "# no release of it goes with"


@dataclass(frozen=True, slots=True)
class WheelRecord:
    """One package of a set; several hashes where the index has the same version for several platforms."""

    name: str
    version: str
    sha256: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WheelSet:
    """What is installed into one environment.

    Attributes:
        name: of its file, as `torch-2.10.0-cp312`.
        requirements: what is asked of the index.
        python: as `3.12`.
        index: `default`, or the name of an index of PyTorch's.
        within: the set that this one adds to, whose versions it keeps; its text has only what comes on top.
    """

    name: str
    requirements: tuple[str, ...]
    python: str
    index: str = "default"
    within: str | None = None

    def text(self) -> str | None:
        """The set's wheels as pip takes them, refreshed or shipped; None when nobody resolved it yet."""
        return read.closures(self.name)


def set_for(framework: str, release: ReleaseRecord, gpu: GpuRecord, python: str) -> WheelSet:
    """The wheel set of a framework on a GPU: TensorFlow's range of cuDNN is held where the GPU needs it."""
    tag = f"cp{python.replace('.', '')}"
    if framework == "pytorch":
        return WheelSet(f"torch-{release.version}-{tag}", (f"torch=={release.version}",), python, release.index)
    asked = f"{ {'tensorflow': 'tensorflow[and-cuda]', 'jax': 'jax[cuda12]'}[framework] }=={release.version}"
    held = wheel_cudnn(gpu, release) if release.cudnn is None else None
    if held is None:
        return WheelSet(f"{framework}-{release.version}-{tag}", (asked,), python)
    return WheelSet(f"{framework}-{release.version}-cudnn-{held}-{tag}", (asked, f"nvidia-cudnn-cu12=={held}"), python)


def extra_set(extra: Extra, release: ReleaseRecord, python: str) -> WheelSet | None:
    """What an extra adds to PyTorch's environment; None where it has no wheels for that release's CUDA."""
    asked = extra.of_major(extra.requirement, release.cuda)
    if asked is None or release.index != "default":
        return None
    within = f"torch-{release.version}-cp{python.replace('.', '')}"
    return WheelSet(f"{within}-{extra.name}", (asked,), python, within=within)


def extra_wheels(extra: Extra, release: ReleaseRecord, python: str) -> tuple[str, ...]:
    """The lines that an extra adds to PyTorch's own; none where no release of it goes with them, or nobody asked the index yet."""
    made = extra_set(extra, release, python)
    text = (made.text() if made else None) or ""
    return tuple(line for line in text.splitlines() if not line.startswith("#"))


def opencv_set(python: str) -> WheelSet:
    """OpenCV without CUDA, and its NumPy."""
    wheel = read.systems().opencv.wheel
    return WheelSet(
        f"{wheel.name}-{wheel.version}-cp{python.replace('.', '')}", (f"{wheel.name}=={wheel.version}", f"numpy=={wheel.numpy}"), python
    )


def opencv_tools(python: str) -> WheelSet:
    """What OpenCV's source is built with, its own build requirements among it."""
    build = read.systems().opencv.build
    own = next(it.tools for it in build.by_python if version(python) <= version(it.upto))
    return WheelSet(f"opencv-build-{build.version}-cp{python.replace('.', '')}", tuple(sorted([*build.tools, *own])), python)


def all_sets() -> list[WheelSet]:
    """Every set that a resolution can name and that the default index can make."""
    pythons = sorted({s.python.version for s in read.systems().systems}, key=version)
    gpus = [g for g in read.gpus().gpus if g.machine == "x86_64"]
    frameworks = [(name, release) for name, releases in read.frameworks().items() for release in releases]
    sets = {
        made.name: made
        for (framework, release), gpu, python in itertools.product(frameworks, gpus, pythons)
        if release.index == "default" and release.python.cover(python) and release.runs_on(gpu.compute_capability)
        for made in [set_for(framework, release, gpu, python)]
    }
    return [*sets.values(), *_extra_sets(pythons), *(made(python) for python in pythons for made in (opencv_set, opencv_tools))]


def _extra_sets(pythons: Sequence[str]) -> Iterable[WheelSet]:
    for extra, release, python in itertools.product(read.extras().values(), read.pytorch(), pythons):
        made = extra_set(extra, release, python) if release.python.cover(python) else None
        if made is not None:
            yield made


def parse(text: str) -> list[WheelRecord]:
    """The wheels of a set's text."""
    wheels = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            pin, *hashes = line.split(" --hash=sha256:")
            name, _, pinned = pin.partition("==")
            wheels.append(WheelRecord(name, pinned, tuple(hashes)))
    return wheels


def resolve_with_uv(wanted: WheelSet) -> str:
    """Ask the package index for a set, as it is now.

    The index is the one that uv and the environment are configured for; nothing is downloaded but metadata.

    Raises:
        IndexUnreachableError: no answer, or the set cannot be made.
    """
    with tempfile.TemporaryDirectory() as folder:
        asked, answer = Path(folder) / "requirements.in", Path(folder) / "pylock.toml"
        kept = parse(read.closures(wanted.within) or "") if wanted.within else []
        asked.write_text("\n".join([*wanted.requirements, *(f"{wheel.name}=={wheel.version}" for wheel in kept)]) + "\n")
        command = [_uv(), "pip", "compile", "--quiet", "--no-header", "--no-build", "--format", "pylock.toml"]
        command += ["--python-version", wanted.python, "--python-platform", _PLATFORM, str(asked), "--output-file", str(answer)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=_environment())
        except subprocess.TimeoutExpired as error:
            msg = f"the package index did not settle {wanted.name} in {_TIMEOUT_S} s"
            raise IndexUnreachableError(msg, hint="try again later; the shipped wheel sets stay in use") from error
        if done.returncode != 0 and wanted.within and "No solution found" in done.stderr:
            return f"{NONE_FIT} what {wanted.within} holds\n"
        if done.returncode != 0:
            msg = f"the package index gave no wheels for {wanted.name}"
            raise IndexUnreachableError(msg, hint="see --verbose; the shipped wheel sets stay in use", detail=done.stderr.strip())
        locked = tomllib.loads(answer.read_text())
    lines = []
    there = {wheel.name for wheel in kept}
    for package in (p for p in locked["packages"] if p["name"] not in there):
        hashes = sorted({wheel["hashes"]["sha256"] for wheel in package["wheels"]})
        lines.append(f"{package['name']}=={package['version']}" + "".join(f" --hash=sha256:{digest}" for digest in hashes))
    return "\n".join(lines) + "\n"


def _uv() -> str:
    beside = Path(sysconfig.get_path("scripts")) / "uv"
    return str(beside) if beside.exists() else shutil.which("uv") or "uv"


def _environment() -> dict[str, str]:
    """The user's, so that her index, proxy and certificates count; nothing of uv's project discovery."""
    return {name: value for name, value in os.environ.items() if name not in {"UV_PROJECT", "VIRTUAL_ENV"}}
