"""A team's own Python packages: the file beside a profile, read strictly, and resolved against the wheels that a framework is locked to.

A requirements file is resolved by uv against the package index; a pylock.toml is taken as it is. Nothing in either may name another place
to install from, because then the lock would not say what is installed.
"""

import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from packaging.markers import InvalidMarker, Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from provision.catalog import wheels
from provision.errors import ProfileInvalidError, StackConflictError
from provision.profile.pins import EnvironmentWheels, Resolved, WheelPin, read_own

_MOST_LINES: Final = 500
_MOST_TEXT: Final = 80  # of a line, in a complaint
_HINT: Final = "write packages of the index only, one a line, such as einops>=0.8; the index itself is sources.wheels"
_ELSEWHERE: Final = ("vcs", "directory", "archive", "sdist")


def _versions(within: EnvironmentWheels) -> dict[str, str]:
    """Package → version."""
    return {canonicalize_name(pin.name): pin.version for line in within.pins if (pin := WheelPin.parse(line))}


def resolve_requirements(path: Path, within: EnvironmentWheels) -> Resolved:
    """Resolve a requirements file against the package index, with the environment's own wheels fixed.

    Raises:
        ProfileInvalidError: a line is none that is taken.
        StackConflictError: a requirement contradicts a wheel of the environment, or no releases go together.
        IndexUnreachableError: the index gave no answer.
    """
    raw = read_own(path)
    lines = list(parse_requirements(raw, path))
    have = _versions(within)
    for number, requirement in lines:
        version = have.get(canonicalize_name(requirement.name))
        if (
            version is not None
            and _applies(requirement.marker, within.python)
            and not requirement.specifier.contains(version, prereleases=True)
        ):
            msg = f"{path.name}:{number} asks for {requirement}"
            raise _contradiction(msg, requirement.name, version, within, "requirements")
    try:
        added = wheels.resolve_beside([str(requirement) for _, requirement in lines], within.pins, within.python, path.name)
    except wheels.NoneFitError as error:
        msg = f"{path.name} does not go with the locked wheels of {within.title}: {error}"
        raise StackConflictError(msg, hint="change the requirement, or the framework's release", of="stack.python.requirements") from error
    return Resolved(path.name, hashlib.sha256(raw).hexdigest(), added)


def parse_requirements(raw: bytes, path: Path) -> Iterator[tuple[int, Requirement]]:
    """The requirements of a file, each with its line.

    Raises:
        ProfileInvalidError: a line is an option, an address, a path, or no requirement.
    """
    lines = _text(raw, path).splitlines()
    if len(lines) > _MOST_LINES:
        msg = f"{path.name} has more than {_MOST_LINES} lines"
        raise ProfileInvalidError(msg, hint="a lock of a whole environment is a pylock.toml")
    for number, line in enumerate(lines, start=1):
        text = line.partition(" #")[0].strip()
        if not text or text.startswith("#"):
            continue
        if problem := _problem(text):
            raise _refused(path, number, line, problem)
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            raise _refused(path, number, line, "this is not a requirement") from error
        if requirement.url:
            raise _refused(path, number, line, "an address is not taken")
        yield number, requirement


def _problem(text: str) -> str:
    """Why a line is not taken; empty where nothing speaks against it yet."""
    if text.startswith("-") or " -" in text:
        return "an option such as -r, -e, --index-url or --hash is not taken"
    if "://" in text:
        return "an address is not taken"
    if text.startswith((".", "/", "~", "\\")) or text.endswith((".whl", ".gz", ".zip", "\\")):
        return "a path, or a line that goes on in the next one, is not taken"
    return "" if text.isascii() and text.isprintable() else "it holds characters that no requirement has"


def take_pylock(path: Path, within: EnvironmentWheels) -> Resolved:
    """The wheels of a pylock.toml that an environment does not have yet.

    Raises:
        ProfileInvalidError: it is not such a file, or a package is taken from elsewhere than an index.
        StackConflictError: a package has another version than in the environment.
    """
    raw = read_own(path)
    try:
        data = tomllib.loads(_text(raw, path))
    except tomllib.TOMLDecodeError as error:
        msg = f"{path.name} is not TOML: {error}"
        raise ProfileInvalidError(msg, hint="`uv pip compile --format pylock.toml` writes one") from error
    if data.get("lock-version") != "1.0" or not isinstance(data.get("packages"), list):
        msg = f"{path.name} is not a pylock.toml of version 1.0"
        raise ProfileInvalidError(msg, hint="`uv pip compile --format pylock.toml` writes one")
    have, added = _versions(within), []
    for number, package in enumerate(data["packages"], start=1):
        name, version, line = _locked_package(package, f"package {number}", path, within.python)
        if line is None:
            continue
        if name not in have:
            added.append(line)
        elif have[name] != version:
            msg = f"{path.name} has {name} {version}"
            raise _contradiction(msg, name, have[name], within, "pylock")
    return Resolved(path.name, hashlib.sha256(raw).hexdigest(), tuple(sorted(added)))


def _locked_package(package: object, where: str, path: Path, python: str) -> tuple[str, str, str | None]:
    """The name, the version and the pin of one package of a pylock; no pin where it does not apply to the environment."""
    if not isinstance(package, Mapping) or not isinstance(package.get("name"), str):
        msg = f"{path.name}: {where} has no name"
        raise ProfileInvalidError(msg, hint=_HINT)
    name = canonicalize_name(package["name"])
    elsewhere = [key for key in _ELSEWHERE if key in package and (key != "sdist" or not package.get("wheels"))]
    if elsewhere:
        msg = f"{path.name}: {name} comes from a {elsewhere[0]}, and only wheels of an index are installed"
        raise ProfileInvalidError(msg, hint=_HINT)
    if isinstance(package.get("marker"), str) and not _marked(package["marker"], name, path, python):
        return name, "", None
    version, hashes = str(package.get("version", "")), sorted(_hashes(package.get("wheels")))
    pin = f"{name}=={version}" + "".join(f" --hash=sha256:{each}" for each in hashes)
    if WheelPin.parse(pin) is None:
        msg = f"{path.name}: {name} has no version, or no wheel with its sha256"
        raise ProfileInvalidError(msg, hint="write the file again with uv or pip")
    return name, version, pin


def _hashes(files: object) -> Iterator[str]:
    for file in files if isinstance(files, list) else ():
        hashes: Any = file.get("hashes") if isinstance(file, Mapping) else None
        if isinstance(hashes, Mapping) and isinstance(hashes.get("sha256"), str):
            yield hashes["sha256"]


def _marked(marker: str, name: str, path: Path, python: str) -> bool:
    try:
        return _applies(Marker(marker), python)
    except InvalidMarker as error:
        msg = f"{path.name}: the marker of {name} cannot be read: {marker[:_MOST_TEXT]}"
        raise ProfileInvalidError(msg, hint=_HINT) from error


def _applies(marker: Marker | None, python: str) -> bool:
    """Whether a marker holds on the hosts: CPython on x86_64 Linux."""
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": "",
    }
    return marker is None or marker.evaluate(environment)


def _text(raw: bytes, path: Path) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        msg = f"{path.name} is not UTF-8 text"
        raise ProfileInvalidError(msg, hint=_HINT) from error


def _refused(path: Path, number: int, line: str, problem: str) -> ProfileInvalidError:
    shown = "".join(character if character.isprintable() else "?" for character in line.strip())[:_MOST_TEXT]
    return ProfileInvalidError(f"{path.name}:{number}: {shown}: {problem}", hint=_HINT)


def _contradiction(asks: str, name: str, version: str, within: EnvironmentWheels, key: str) -> StackConflictError:
    msg = f"{asks}, and the locked wheels of {within.title} have {canonicalize_name(name)} {version}"
    return StackConflictError(msg, hint="change the file, or choose another release of the framework", of=f"stack.python.{key}")
