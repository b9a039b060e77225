"""What the roles change on a host, as each role declares it in its `meta/changes.yml`.

Targets and conditions there are Jinja templates over the role's own variables, like its tasks; the values come from the role's defaults and
from `variables`. The templates are ours: values from a profile are only filled in, and never read as templates.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml
from jinja2 import StrictUndefined, Template
from jinja2.environment import TemplateExpression
from jinja2.sandbox import SandboxedEnvironment

from provision.converge.roles import ROLES
from provision.converge.variables import variables
from provision.paths import playbooks_dir
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.structs import Struct

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
_UNDO: Final = "`gpuprov undo` puts it back"
_UNDO_OF_A_COMMAND: Final = "runs again, or in reverse, after an undo"
_JINJA: Final = SandboxedEnvironment(undefined=StrictUndefined, autoescape=False)


class RoleDeclaration(Struct):
    """What one role declares about itself.

    Attributes:
        keys: the keys of the profile that call for the role, dotted.
        checks: the checks that observe what the role sets.
        entries: its changes as the file has them, templates not yet filled.
    """

    role: str
    keys: tuple[str, ...]
    checks: tuple[str, ...]
    entries: tuple[Mapping[str, Any], ...]


class Change(Struct):
    """One thing that a role changes for one profile.

    Attributes:
        kind: one of KINDS.
        target: the path, the name or the command.
        says: the content or state afterwards, or what the command does.
        undo: how it is taken back.
        stays: whether an undo leaves it as it is.
    """

    role: str
    kind: str
    target: str
    says: str
    undo: str
    stays: bool = False


@functools.cache
def declaration(role: str) -> RoleDeclaration:
    """The declaration of a role."""
    plain = _yaml(role, "meta/changes.yml")
    return RoleDeclaration(role, tuple(plain["keys"]), tuple(plain["checks"]), tuple(plain["changes"]))


def changes(profile: Profile, lock: Lock, roles: Sequence[str] = ROLES) -> tuple[Change, ...]:
    """What these roles change on a host of this profile, in the order in which they run.

    Args:
        profile: what the host should be.
        lock: the exact versions.
        roles: the roles that run.
    """
    # The owner of the data disk depends on the image: `apply` learns the login when it connects.
    values = variables(profile, lock, roles) | {"storage_owner": "the login user of the image"}
    return tuple(change for role in roles for change in _changes_of(role, values))


def _changes_of(role: str, values: Mapping[str, Any]) -> Iterator[Change]:
    values = {**_defaults(role), **values}
    for entry in declaration(role).entries:
        if not _evaluate(str(entry.get("when", "true")), values):
            continue
        for item in _evaluate(entry["loop"], values) if "loop" in entry else (None,):
            yield Change(
                role=role,
                kind=entry["kind"],
                target=_fill(entry["target"], {**values, "item": item}),
                says=_fill(entry["says"], {**values, "item": item}),
                undo=entry.get("undo", _UNDO_OF_A_COMMAND if entry["kind"] == "command" else _UNDO),
                stays=entry.get("stays", False),
            )


@functools.cache
def _defaults(role: str) -> dict[str, Any]:
    return _yaml(role, "defaults/main.yml")


def _yaml(role: str, path: str) -> dict[str, Any]:
    return yaml.safe_load((playbooks_dir() / "roles" / role / path).read_text(encoding="utf-8")) or {}


@functools.cache
def _compiled(expression: str) -> TemplateExpression:
    return _JINJA.compile_expression(expression, undefined_to_none=False)


def _evaluate(expression: str, values: Mapping[str, Any]) -> Any:
    return _compiled(expression)(**values)


@functools.cache
def _template(text: str) -> Template:
    return _JINJA.from_string(text)


def _fill(template: str, values: Mapping[str, Any]) -> str:
    return _template(template).render(**values)
