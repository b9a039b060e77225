"""What the roles change on a host, as each role declares it in its `meta/changes.yml`.

Targets and conditions there are written in the words of the role's own variables, as its tasks are, and filled with what `roles.variables`
tells the role and the defaults of the role itself. The templates are ours; values of a profile are only ever filled in, and never read as
templates.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from provision.converge.roles import ROLES, variables
from provision.paths import playbooks_dir
from provision.profile.locked import Lock
from provision.profile.model import Profile

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

KINDS: Final = (
    "file",
    "module-option",
    "sysctl",
    "unit",
    "link",
    "folder",
    "environment",
    "packages",
    "hold",
    "module",
    "key",
    "login",
    "group",
    "disk",
    "command",
    "reboot",
)
_UNDONE: Final = "`gpuprov undo` puts it back"
_UNDONE_COMMAND: Final = "runs again, or in reverse, after an undo"


@dataclass(frozen=True, slots=True)
class Declared:
    """What one role says about itself.

    Attributes:
        keys: the keys of the profile that ask for the role, dotted.
        checks: the checks that observe what it sets.
        entries: its changes as they stand in the file, templates unfilled.
    """

    role: str
    keys: tuple[str, ...]
    checks: tuple[str, ...]
    entries: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that a role changes for one profile.

    Attributes:
        kind: one of KINDS.
        target: the path, the name or the command.
        says: what stands there afterwards, or what it does.
        undo: how it is taken back.
    """

    role: str
    kind: str
    target: str
    says: str
    undo: str


@functools.cache
def declared(role: str) -> Declared:
    """The declaration of a role."""
    text = (_folder(role) / "meta" / "changes.yml").read_text(encoding="utf-8")
    plain = yaml.safe_load(text)
    return Declared(role, tuple(plain["keys"]), tuple(plain["checks"]), tuple(plain["changes"]))


def changes(profile: Profile, lock: Lock, roles: Sequence[str] = ROLES) -> tuple[Change, ...]:
    """What the named roles change on a host of this profile, in the order in which they run.

    Args:
        profile: what is asked.
        lock: what that was resolved to.
        roles: those that run.
    """
    # Whose the data disk is depends on the image; apply tells it the login that it came in with.
    told = variables(profile, lock, roles) | {"storage_owner": "the login user of the image"}
    return tuple(change for role in roles for change in _of_role(role, told))


def _of_role(role: str, told: Mapping[str, Any]) -> list[Change]:
    values = {**_defaults(role), **told}
    found = []
    for entry in declared(role).entries:
        if not _evaluated(str(entry.get("when", "true")), values):
            continue
        for item in _evaluated(entry["loop"], values) if "loop" in entry else (None,):
            filled = {**values, "item": item}
            found.append(
                Change(
                    role=role,
                    kind=entry["kind"],
                    target=_filled(entry["target"], filled),
                    says=_filled(entry["says"], filled),
                    undo=entry.get("undo", _UNDONE_COMMAND if entry["kind"] == "command" else _UNDONE),
                )
            )
    return found


def _folder(role: str) -> Path:
    return playbooks_dir() / "roles" / role


@functools.cache
def _defaults(role: str) -> dict[str, Any]:
    return dict(yaml.safe_load((_folder(role) / "defaults" / "main.yml").read_text(encoding="utf-8")) or {})


@functools.cache
def _environment() -> SandboxedEnvironment:
    from jinja2 import StrictUndefined  # noqa: PLC0415 - only a review fills them in
    from jinja2.sandbox import SandboxedEnvironment  # noqa: PLC0415

    return SandboxedEnvironment(undefined=StrictUndefined, autoescape=False)


def _evaluated(expression: str, values: Mapping[str, Any]) -> Any:
    return _environment().compile_expression(expression, undefined_to_none=False)(**values)


def _filled(template: str, values: Mapping[str, Any]) -> str:
    return _environment().from_string(template).render(**values)
