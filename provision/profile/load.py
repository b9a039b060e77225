"""YAML file → Profile. Every complaint has the file, line and key, and says what to write instead.

Only plain YAML is accepted (`provision.profile.plain`).
"""

import errno
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from provision import canonical, paths
from provision.errors import ProfileInvalidError, ProfileNotFoundError
from provision.nearest import meant
from provision.profile import known, plain
from provision.profile.model import Profile
from provision.profile.plain import Complaint, ComplaintKind
from provision.profile.suggest import complaints_of
from provision.structs import Struct, replace

MAX_BYTES: Final = 64 * 1024  # the shipped profiles are under 4 KiB
_BOUNDS: Final = plain.Bounds(size=MAX_BYTES, depth=12, nodes=5_000)  # the schema is five deep
_SUFFIXES: Final = (".yml", ".yaml")

Model = TypeVar("Model", bound=BaseModel)


class ProfileEntry(Struct):
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
    files = _files()
    if "/" in name_or_path or name_or_path.endswith(_SUFFIXES):
        path = Path(name_or_path)
        if path.is_file():
            return path
        msg = f"no profile file {name_or_path!r}"
        named = files.get(path.stem)
        hint = f"did you mean {path.stem!r}, which is {named}? " if named else ""
        raise ProfileNotFoundError(msg, hint=f"{hint}use the path of a YAML file, or a name from `gpuprov profile list`")
    if name_or_path in files:
        return files[name_or_path]
    near = meant(name_or_path, files)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
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


def origin(path: Path) -> str:
    """Whose a profile is: its path where it is one's own."""
    return "shipped with gpuprov" if is_shipped(path) else str(path)


def is_shipped(path: Path) -> bool:
    """Whether a profile ships with gpuprov."""
    return path.resolve().parent == paths.profiles_dir().resolve()


def ships(name: str) -> bool:
    """Whether a profile of this name ships with gpuprov."""
    return (paths.profiles_dir() / f"{name}.yml").is_file()


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
    return parse(raw_of(path), path)


def raw_of(path: Path) -> bytes:
    """The bytes of a profile's file.

    Raises:
        ProfileNotFoundError: the file cannot be read.
        ProfileInvalidError: it is too large for a profile.
    """
    try:
        return paths.read_bounded(path, MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise invalid(path, [Complaint(1, "", f"larger than {MAX_BYTES // 1024} KiB", "a profile is one purpose; split it")]) from error
        msg = f"cannot read {path}: {error.strerror}"
        raise ProfileNotFoundError(msg, hint="check the path and its permissions") from error


def parse(raw: bytes, path: Path) -> Profile:
    """Validate the bytes of a profile; complaints refer to them as `path`.

    Raises:
        ProfileInvalidError: as `load` does.
    """
    profile, lines, problems = typed(raw, Profile, "profile")
    if profile is not None:
        problems = known.errors(profile, lines)
        if not problems:
            return profile
    raise invalid(path, problems)


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
    if {("catalogue",), ("profile", "sha256")} <= file.lines.keys():
        return None, file.lines, [Complaint(1, "", "this is a lock", "name the profile that it belongs to, beside it without `.lock`")]
    if file.complaints:
        return None, file.lines, _in_the_shape(file, model, what)
    try:
        return model.model_validate(file.data), file.lines, []
    except ValidationError as error:
        return None, file.lines, complaints_of(error, file, model, what)


def _in_the_shape(file: plain.PlainFile, model: type[Model], what: str) -> list[Complaint]:
    """The complaints about a file; for a value with two readings, what its key takes is better advice than its quotes."""
    if any(complaint.kind is not ComplaintKind.AMBIGUOUS for complaint in file.complaints):
        return file.complaints
    advice: dict[str, str] = {}
    try:
        model.model_validate(file.data)
    except ValidationError as error:
        advice = {complaint.key: complaint.instead for complaint in complaints_of(error, file, model, what)}
    return [replace(each, instead=advice.get(each.key, each.instead)) for each in file.complaints]


def lines(raw: bytes) -> dict[str, int]:
    """Map each key of a file, such as `places.0.regions.1`, to its line, from 1. Text that is not YAML has no keys."""
    return {plain.dotted(at): line for at, line in plain.read(raw, _BOUNDS, "profile").lines.items() if at}


def digest(profile: Profile) -> str:
    """SHA-256 of a profile's canonical JSON, in hexadecimal: equal for two files with equal values."""
    return canonical.digest(profile.dump())


def invalid(path: Path, problems: Sequence[Complaint]) -> ProfileInvalidError:
    """The error that lists complaints about a file."""
    error = ProfileInvalidError(
        plain.listed(f"{path} is not a valid profile", problems, path),
        hint="correct the lines above; `gpuprov profile schema` describes every key, `gpuprov profile show t4-train` is an example",
    )
    error.complaints = tuple(problems)
    return error


def line_of(key: str, lines: Mapping[str, int]) -> tuple[int | None, bool]:
    """The line of a dotted key, or of the nearest key above it that is in the file; and whether the key itself is there."""
    parts = key.split(".")
    for length in range(len(parts), 0, -1):
        if line := lines.get(".".join(parts[:length])):
            return line, length == len(parts)
    return None, False
