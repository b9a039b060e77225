"""The shipped data as typed records, with what was refreshed since laid over it. Each file is read when it is first asked for."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

from provision.catalog import overlay, records

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


def sources() -> dict[str, records.Source]:
    """Source id → source, those of the overlay among them."""
    return _sources(overlay.read())


@_once
def _sources(over: overlay.Overlay) -> dict[str, records.Source]:
    return _read("sources.yaml", dict[str, records.Source]) | over.sources()


@functools.cache
def gpus() -> records.Gpus:
    """GPU models, tensor cores, acceptance figures."""
    return _read("gpus.yaml", records.Gpus)


def gpu(model: str) -> records.Gpu:
    """The GPU of a model name.

    Raises:
        KeyError: there is none.
    """
    return next((g for g in gpus().gpus if g.model == model), None) or _missing(model)


def _missing(model: str) -> records.Gpu:
    raise KeyError(model)


@functools.cache
def driver() -> records.Driver:
    """Driver branches and how they are packaged."""
    return _read("driver.yaml", records.Driver)


@functools.cache
def toolkits() -> records.Toolkits:
    """CUDA toolkits and their profilers."""
    return _read("cuda.yaml", records.Toolkits)


@functools.cache
def cudnn() -> records.Cudnn:
    """Releases of cuDNN."""
    return _read("cudnn.yaml", records.Cudnn)


@functools.cache
def pytorch() -> list[records.Release]:
    """PyTorch wheels."""
    return _read("pytorch.yaml", records.Frameworks).releases


@functools.cache
def tensorflow() -> records.TensorFlow:
    """TensorFlow wheels."""
    return _read("tensorflow.yaml", records.TensorFlow)


@functools.cache
def frameworks() -> dict[str, list[records.Release]]:
    """Framework → its releases, oldest first; the names are those of `stack.frameworks`."""
    return {"pytorch": pytorch(), "tensorflow": tensorflow().releases, "jax": _read("jax.yaml", records.Frameworks).releases}


@functools.cache
def extras() -> dict[str, records.Extra]:
    """What `stack.extras` may name."""
    return {extra.name: extra for extra in _read("extras.yaml", records.Extras).extras}


@functools.cache
def systems() -> records.Systems:
    """Operating systems, and OpenCV."""
    return _read("systems.yaml", records.Systems)


@functools.cache
def repositories() -> records.Repositories:
    """Where packages come from, and what they are called."""
    return _read("repositories.yaml", records.Repositories)


def distribution(system: str) -> records.Distribution | None:
    """The distribution's own packages of driver and toolkit, for a system such as `debian 12`; None where none are known."""
    return next((d for d in repositories().distributions if d.system == system), None)


def closures(name: str) -> str | None:
    """The text of a wheel set `data/wheels/NAME.txt`, the refreshed one before the shipped one; None when there is neither."""
    refreshed = overlay.read().wheels.get(name)
    if refreshed is not None:
        return refreshed
    paths = (DATA / "wheels" / f"{name}.txt", DATA / "wheels" / "extras" / f"{name}.txt")
    return next((path.read_text() for path in paths if path.is_file()), None)
