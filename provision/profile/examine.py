"""Everything that can be said about a profile's file without a network: its form, the catalog, and the stack that `lock` would write."""

import datetime as dt
from pathlib import Path
from typing import Any

from provision.catalog.resolve import key_of, resolve
from provision.errors import StackConflictError
from provision.profile import known, load
from provision.profile.lock import build, stack_request
from provision.profile.model import Profile
from provision.profile.plain import Complaint, ComplaintKind, KeyPath, Lines
from provision.structs import Struct


class Examination(Struct):
    """A profile's file, and what there is to say about it.

    Attributes:
        profile: None where the file does not hold one.
        complaints: in the order of their lines.
    """

    path: Path
    profile: Profile | None
    complaints: tuple[Complaint, ...]

    @property
    def errors(self) -> tuple[Complaint, ...]:
        """Why the profile is refused."""
        return tuple(complaint for complaint in self.complaints if complaint.is_error)

    @property
    def warnings(self) -> tuple[Complaint, ...]:
        """What its author should know."""
        return tuple(complaint for complaint in self.complaints if not complaint.is_error)

    def as_dict(self) -> dict[str, Any]:
        """The examination as JSON-compatible data; a profile that is refused has neither name nor digest."""
        valid = self.profile if self.profile is not None and not self.errors else None
        data: dict[str, Any] = {
            "path": str(self.path),
            "name": valid.name if valid else None,
            "sha256": load.digest(valid) if valid else None,
            "errors": len(self.errors),
            "warnings": len(self.warnings),
            "findings": [complaint.as_dict() for complaint in self.complaints],
        }
        if self.errors:
            error = load.invalid(self.path, self.errors)
            data["error"] = {"code": error.code, "message": error.message, "hint": error.hint}
        return data


def examine(path: Path, today: dt.date) -> Examination:
    """Examine a file on a day.

    Raises:
        ProfileNotFoundError: the file cannot be read.
    """
    profile, lines, complaints = load.typed(load.raw_of(path), Profile, "profile")
    if profile is not None:
        complaints = known.errors(profile, lines)
        if not complaints:
            complaints = [*known.warnings(profile, lines, today), *_stack(profile, lines, today)]
    return Examination(path, profile, tuple(sorted(complaints, key=lambda complaint: complaint.line)))


def _stack(profile: Profile, lines: Lines, today: dt.date) -> list[Complaint]:
    """What the resolver says: why it refuses the demands, or which advice they go against."""
    try:
        build(profile, today)
        advice = resolve(stack_request(profile), today, explain=False).advice
    except StackConflictError as error:
        key = next((key for key in error.keys if _path(key) in lines), "")
        return [Complaint(lines.get(_path(key), 1), key, error.reason, error.hint, ComplaintKind.STACK)]
    instead = "`gpuprov explain` says why this stack was chosen"
    keys = [(each, key_of(each.part)) for each in advice]
    return [Complaint(lines.get(_path(key), 1), key, each.text, instead, ComplaintKind.ADVICE) for each, key in keys]


def _path(key: str) -> KeyPath:
    return tuple(key.split("."))
