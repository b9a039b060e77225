"""The files of the package index that a lock names, each with its hashes."""

from collections.abc import Container, Iterator

from provision.catalog.wheels import WheelRecord, parse
from provision.profile.locked import Lock
from provision.structs import Struct


class IndexPin(Struct):
    """One package of an environment: its name, version and hashes; `python` is the version that its wheels are for."""

    name: str
    version: str
    sha256: tuple[str, ...]
    python: str
    is_source: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def pins(lock: Lock) -> tuple[IndexPin, ...]:
    """Every package that pip installs, or builds from, for a lock; each once for each Python."""
    return tuple(dict.fromkeys(_every(lock)))


def missing(lock: Lock, digests: Container[str]) -> list[str]:
    """The packages of which no file has one of these digests."""
    return [str(pin) for pin in pins(lock) if not any(each in digests for each in pin.sha256)]


def strangers(lock: Lock, digests: Iterator[str] | dict[str, str]) -> list[str]:
    """The digests that the lock does not have."""
    named = {each for pin in pins(lock) for each in pin.sha256}
    return [each for each in digests if each not in named]


def _every(lock: Lock) -> Iterator[IndexPin]:
    environments = [*lock.frameworks.values(), lock.opencv.environment, lock.opencv.tools]
    for environment in environments:
        if environment is not None:
            yield from _pins(environment.wheels, environment.python)
    opencv = lock.opencv.environment
    if lock.opencv.source and opencv:
        yield from _pins([lock.opencv.source], opencv.python, is_source=True)
    for extra in lock.extras.values():
        python = lock.frameworks[extra.environment].python if extra.environment else _first_python(lock)
        yield from _pins(extra.wheels, python)
        if extra.build:
            yield from _pins(extra.build.tools.wheels, extra.build.tools.python)
            yield from _pins([extra.build.source], extra.build.tools.python, is_source=True)
    if lock.python:
        yield from _pins(lock.python.wheels, lock.frameworks[lock.python.environment].python)


def _first_python(lock: Lock) -> str:
    return next((environment.python for environment in lock.frameworks.values()), "")


def _pins(lines: tuple[str, ...] | list[str], python: str, *, is_source: bool = False) -> Iterator[IndexPin]:
    for record in parse("\n".join(lines)):
        yield _pin(record, python, is_source=is_source)


def _pin(record: WheelRecord, python: str, *, is_source: bool) -> IndexPin:
    return IndexPin(record.name, record.version, record.sha256, python, is_source)
