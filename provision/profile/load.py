"""YAML file → Profile. Every complaint has the file, line and key, and says what to write instead.

Only plain YAML is accepted (`provision.profile.plain`).
"""

import difflib
import errno
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from provision import canonical, clouds, paths
from provision.catalog import read
from provision.catalog.refused import refused_system
from provision.errors import ProfileInvalidError, ProfileNotFoundError
from provision.profile import plain
from provision.profile.model import Profile
from provision.profile.plain import Complaint
from provision.profile.suggest import complaints_of

MAX_BYTES: Final = 64 * 1024  # the shipped profiles are under 4 KiB
_BOUNDS: Final = plain.Bounds(size=MAX_BYTES, depth=12, nodes=5_000)  # the schema is five deep
_SUFFIXES: Final = (".yml", ".yaml")

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """A profile that `--profile NAME` finds. `problem` is empty for a valid one; otherwise `profile` is None."""

    name: str
    path: Path
    purpose: str
    problem: str
    profile: Profile | None = None


def find(name_or_path: str) -> Path:
    """The file of a profile given by name or by path.

    A bare name is looked up in `./profiles`, then among the shipped ones; anything with a slash or a YAML suffix is a path.

    Raises:
        ProfileNotFoundError: there is none; the hint has the nearest name.
    """
    if "/" in name_or_path or name_or_path.endswith(_SUFFIXES):
        path = Path(name_or_path)
        if path.is_file():
            return path
        msg = f"no profile file {name_or_path!r}"
        raise ProfileNotFoundError(msg, hint="use the path of a YAML file, or a name from `gpuprov profile list`")
    files = _files()
    if name_or_path in files:
        return files[name_or_path]
    near = difflib.get_close_matches(name_or_path, files, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    msg = f"no profile called {name_or_path!r}"
    raise ProfileNotFoundError(msg, hint=f"{hint}`gpuprov profile list` lists all profiles; the path of a YAML file works too")


def _files() -> dict[str, Path]:
    """Name → file, the user's own `./profiles` before the shipped ones."""
    files: dict[str, Path] = {}
    for folder in (Path("profiles"), paths.profiles_dir()):
        for path in sorted(folder.glob("*.y*ml")) if folder.is_dir() else ():
            if not path.stem.endswith(".lock"):
                files.setdefault(path.stem, path)
    return files


def list_profiles() -> list[ProfileEntry]:
    """Every profile with a name, in alphabetical order; an invalid one has its problem."""
    entries = []
    for name, path in sorted(_files().items()):
        try:
            profile = load(path)
            entries.append(ProfileEntry(name, path, profile.purpose, "", profile))
        except ProfileInvalidError as error:
            entries.append(ProfileEntry(name, path, "", error.message.splitlines()[0]))
    return entries


def load(path: Path) -> Profile:
    """Read and validate one profile.

    Raises:
        ProfileNotFoundError: the file cannot be read.
        ProfileInvalidError: its message has all complaints, one per line, as `file:line: key: what; what to write instead`.
    """
    try:
        raw = paths.read_bounded(path, MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise _invalid(
                path, [Complaint(1, "", f"larger than {MAX_BYTES // 1024} KiB", "a profile is one purpose; split it")]
            ) from error
        msg = f"cannot read {path}: {error.strerror}"
        raise ProfileNotFoundError(msg, hint="check the path and its permissions") from error
    return parse(raw, path)


def parse(raw: bytes, path: Path) -> Profile:
    """Validate the bytes of a profile; complaints refer to them as `path`.

    Raises:
        ProfileInvalidError: as `load` does.
    """
    profile, lines, problems = typed(raw, Profile, "profile")
    if profile is not None:
        problems = _catalog_complaints(profile, lines)
        if not problems:
            return profile
    raise _invalid(path, problems)


def typed(raw: bytes, model: type[Model], what: str) -> tuple[Model | None, plain.Lines, list[Complaint]]:
    """Validate plain YAML.

    Args:
        raw: the file's bytes.
        model: the shape that they should have.
        what: the word for the model, which is also the command that prints its schema.

    Returns:
        The model, or None and complaints; and the line of every key.
    """
    file = plain.read(raw, _BOUNDS, what)
    if file.complaints:
        return None, file.lines, file.complaints
    try:
        return model.model_validate(file.data), file.lines, []
    except ValidationError as error:
        return None, file.lines, complaints_of(error, file, model, what)


def lines(raw: bytes) -> dict[str, int]:
    """Map each key of a file, such as `places.0.regions.1`, to its line, from 1. Text that is not YAML has no keys."""
    return {plain.dotted(at): line for at, line in plain.read(raw, _BOUNDS, "profile").lines.items() if at}


def digest(profile: Profile) -> str:
    """SHA-256 of a profile's canonical JSON, in hexadecimal: equal for two files with equal values."""
    return canonical.digest(profile.dump())


def schema() -> dict[str, Any]:
    """The JSON Schema of a profile, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Profile.model_json_schema(by_alias=True)}


def _invalid(path: Path, problems: list[Complaint]) -> ProfileInvalidError:
    return ProfileInvalidError(
        plain.listed(f"{path} does not hold a profile", problems, path),
        hint="correct the lines above; `gpuprov profile schema` describes every key, `gpuprov profile show t4-train` is an example",
    )


def _catalog_complaints(profile: Profile, lines: plain.Lines) -> list[Complaint]:
    """Complaints about regions and systems that do not exist in the catalog."""
    problems = []
    for number, place in enumerate(profile.places):
        provider = clouds.provider(place.cloud)
        for index, location in enumerate(() if place.zonal else place.locations):
            if location not in provider.regions():
                near = difflib.get_close_matches(location, provider.regions(), n=1, cutoff=0.6)
                where: plain.KeyPath = ("places", number, place.locations_key, index)
                instead = f"did you mean {near[0]!r}?" if near else "see the regions of your account"
                problem = f"{location!r} is not a region of {provider.title}"
                problems.append(Complaint(lines.get(where, 1), plain.dotted(where), problem, instead))
    system_problem = _system_problem(profile)
    if system_problem:
        problems.append(Complaint(lines.get(("os",), 1), "os", *system_problem))
    return problems


def _system_problem(profile: Profile) -> tuple[str, str] | None:
    """What is wrong with the system, and what to write; None when it is supported."""
    system, data = (profile.os.name, profile.os.version), read.systems()
    exclusion = refused_system(*system)
    if exclusion:
        return exclusion.why, exclusion.instead
    if system not in {(s.name, s.version) for s in data.systems}:
        return f"{' '.join(system)} is not supported", f"write one of: {', '.join(s.key for s in data.systems)}"
    for cloud in dict.fromkeys(place.cloud for place in profile.places):
        provider = clouds.provider(cloud)
        if provider.needs_known_image and system not in provider.image_systems():
            offered = ", ".join(f"{name} {version}" for name, version in provider.image_systems())
            return f"no image of {' '.join(system)} can be launched on {provider.title} yet", f"write one of: {offered}"
    return None
