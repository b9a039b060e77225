"""The shipped data as typed records, overlaid with refreshed data. Each file is read on first use."""

import functools
import hashlib
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import msgspec
import yaml

from provision.catalog import overlay
from provision.catalog.records.base import Source, typed
from provision.catalog.records.bench import BenchRecord
from provision.catalog.records.containers import ContainersRecord
from provision.catalog.records.extras import Extra, ExtrasRecord
from provision.catalog.records.gpus import GpuRecord, Gpus
from provision.catalog.records.packages import Distribution, Repositories
from provision.catalog.records.refused import RefusedNames
from provision.catalog.records.stack import (
    CudnnRecord,
    DriverRecord,
    FrameworksRecord,
    ReleaseRecord,
    Systems,
    TensorFlowRecord,
    Toolkits,
)

BASE_DATE: Final = "2026-11-27"  # the day of the last review of the shipped data
DATA: Final = Path(__file__).parent / "data"
PARSED: Final = "parsed.json"  # beside the YAML files of a folder

_T = TypeVar("_T")

# An overlay is hashed by identity and stays one object until another is written, so a merge with it can be cached.
_once = functools.lru_cache(maxsize=2)


def load(path: Path, shape: type[_T]) -> _T:
    """A shipped data file as typed records.

    Args:
        path: of a YAML or JSON file that ships with gpuprov.
        shape: what it holds.
    """
    content = path.read_bytes()
    if path.suffix == ".json":
        return typed(msgspec.json.decode(content), shape)
    parsed = _parsed(path.parent).get(path.name)
    if parsed and parsed["sha256"] == hashlib.sha256(content).hexdigest():
        return typed(parsed["data"], shape, str_keys=True)
    return typed(yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), shape)  # noqa: S506 - both are safe loaders


@functools.cache
def _parsed(folder: Path) -> dict[str, dict[str, Any]]:
    """The YAML files of a folder as `make data` parsed them, each with the SHA-256 of its bytes; none where it did not."""
    file = folder / PARSED
    return cast("dict[str, dict[str, Any]]", msgspec.json.decode(file.read_bytes())) if file.is_file() else {}


def _read(name: str, shape: type[_T]) -> _T:
    return load(DATA / name, shape)


def sources() -> dict[str, Source]:
    """Source id → source, including those of the overlay."""
    return _sources(overlay.read())


@_once
def _sources(over: overlay.Overlay) -> dict[str, Source]:
    return _read("sources.yaml", dict[str, Source]) | over.sources()


@functools.cache
def gpus() -> Gpus:
    """GPU models, tensor cores, acceptance figures."""
    return _read("gpus.yaml", Gpus)


@functools.cache
def gpu(model: str) -> GpuRecord:
    """The GPU of a model name.

    Raises:
        KeyError: there is none.
    """
    return {g.model: g for g in gpus().gpus}[model]


@functools.cache
def bench() -> BenchRecord:
    """What the figures of `gpuprov bench` are compared with."""
    return _read("bench.yaml", BenchRecord)


@functools.cache
def driver() -> DriverRecord:
    """Driver branches and how they are packaged."""
    return _read("driver.yaml", DriverRecord)


@functools.cache
def toolkits() -> Toolkits:
    """CUDA toolkits and their profilers."""
    return _read("cuda.yaml", Toolkits)


@functools.cache
def cudnn() -> CudnnRecord:
    """Releases of cuDNN."""
    return _read("cudnn.yaml", CudnnRecord)


@functools.cache
def pytorch() -> list[ReleaseRecord]:
    """PyTorch wheels."""
    return _read("pytorch.yaml", FrameworksRecord).releases


@functools.cache
def tensorflow() -> TensorFlowRecord:
    """TensorFlow wheels."""
    return _read("tensorflow.yaml", TensorFlowRecord)


@functools.cache
def frameworks() -> dict[str, list[ReleaseRecord]]:
    """Framework → its releases, oldest first; the names are those of `stack.frameworks`."""
    return {"pytorch": pytorch(), "tensorflow": tensorflow().releases, "jax": _read("jax.yaml", FrameworksRecord).releases}


@functools.cache
def extras() -> dict[str, Extra]:
    """What `stack.extras` may name."""
    return {extra.name: extra for extra in _read("extras.yaml", ExtrasRecord).extras}


@functools.cache
def containers() -> ContainersRecord:
    """The container toolkit, and the engines that `stack.containers` may name."""
    return _read("containers.yaml", ContainersRecord)


@functools.cache
def refused() -> RefusedNames:
    """Names that the catalog knows and refuses."""
    return _read("refused.yaml", RefusedNames)


@functools.cache
def systems() -> Systems:
    """Operating systems, and OpenCV."""
    return _read("systems.yaml", Systems)


@functools.cache
def repositories() -> Repositories:
    """Package repositories, and the names of packages."""
    return _read("repositories.yaml", Repositories)


def distribution(system: str) -> Distribution | None:
    """The distribution's own packages of driver and toolkit, for a system such as `debian 12`; None where the catalog has none."""
    return next((d for d in repositories().distributions if d.system == system), None)


def closures(name: str) -> str | None:
    """The text of a wheel set (`data/wheels/NAME.txt`), refreshed or else shipped; None when there is neither."""
    refreshed = overlay.read().wheels.get(name)
    if refreshed is not None:
        return refreshed
    kept = same_wheels(DATA / "wheels").get(name, name)
    paths = (DATA / folder / f"{kept}.txt" for folder in ("wheels", "wheels/extras"))
    return next((path.read_text() for path in paths if path.is_file()), None)


@functools.cache
def same_wheels(folder: Path) -> dict[str, str]:
    """Wheel set → the one whose file has the same text, by the file `same.list`: a line for each file with the names that it serves too."""
    lines = (folder / "same.list").read_text().splitlines() if (folder / "same.list").is_file() else []
    return {name: kept for kept, _, names in (line.partition(": ") for line in lines) for name in names.split()}
