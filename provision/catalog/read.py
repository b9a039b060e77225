"""The shipped data as typed records, with what was refreshed since laid over it. Each file is read when it is first asked for."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

from provision.catalog import overlay
from provision.catalog.records.base import Source
from provision.catalog.records.gpus import GpuRecord, Gpus
from provision.catalog.records.packages import Distribution, Repositories
from provision.catalog.records.stack import (
    CudnnRecord,
    DriverRecord,
    Extra,
    ExtrasRecord,
    FrameworksRecord,
    ReleaseRecord,
    Systems,
    TensorFlowRecord,
    Toolkits,
)

BASE_DATE: Final = "2026-11-21"  # when the shipped data was last gone through
DATA: Final = Path(__file__).parent / "data"

_T = TypeVar("_T")

# An overlay is one object until another is written (it is hashed by identity), so what was merged with it is found again.
_once = functools.lru_cache(maxsize=2)


def load(path: Path, shape: type[_T]) -> _T:
    """A shipped data file as typed records.

    Args:
        path: of a YAML file that ships with gpuprov.
        shape: what it holds.
    """
    with path.open("rb") as file:
        plain: Any = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe loaders
    return msgspec.convert(plain, shape)


def _read(name: str, shape: type[_T]) -> _T:
    return load(DATA / name, shape)


def sources() -> dict[str, Source]:
    """Source id → source, those of the overlay among them."""
    return _sources(overlay.read())


@_once
def _sources(over: overlay.Overlay) -> dict[str, Source]:
    return _read("sources.yaml", dict[str, Source]) | over.sources()


@functools.cache
def gpus() -> Gpus:
    """GPU models, tensor cores, acceptance figures."""
    return _read("gpus.yaml", Gpus)


def gpu(model: str) -> GpuRecord:
    """The GPU of a model name.

    Raises:
        KeyError: there is none.
    """
    return next((g for g in gpus().gpus if g.model == model), None) or _missing(model)


def _missing(model: str) -> GpuRecord:
    raise KeyError(model)


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
def systems() -> Systems:
    """Operating systems, and OpenCV."""
    return _read("systems.yaml", Systems)


@functools.cache
def repositories() -> Repositories:
    """Where packages come from, and what they are called."""
    return _read("repositories.yaml", Repositories)


def distribution(system: str) -> Distribution | None:
    """The distribution's own packages of driver and toolkit, for a system such as `debian 12`; None where none are known."""
    return next((d for d in repositories().distributions if d.system == system), None)


def closures(name: str) -> str | None:
    """The text of a wheel set `data/wheels/NAME.txt`, the refreshed one before the shipped one; None when there is neither."""
    refreshed = overlay.read().wheels.get(name)
    if refreshed is not None:
        return refreshed
    paths = (DATA / "wheels" / f"{name}.txt", DATA / "wheels" / "extras" / f"{name}.txt")
    return next((path.read_text() for path in paths if path.is_file()), None)
