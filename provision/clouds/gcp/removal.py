"""What is ours in a project, by label, and removing it in the order in which things depend on one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from provision.clouds import base
from provision.clouds.gcp import firewall
from provision.clouds.gcp.answers import tags_of, tags_of_firewall
from provision.clouds.gcp.api import GcpApi, at_once
from provision.clouds.gcp.errors import GoneError
from provision.clouds.gcp.requests import LABELS

_REMOVED_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class GcpKind:
    """How one kind of thing is listed and removed.

    Attributes:
        kind: what a `Thing` is called.
        client: of Google's library, without its last word.
        field: of the scoped list, and of the permissions.
    """

    kind: str
    client: str
    field: str


# In the order of removal: a machine first, with the disks that end with it.
KINDS: Final = (
    GcpKind("instance", "Instances", "instances"),
    GcpKind("disk", "Disks", "disks"),
    GcpKind("address", "Addresses", "addresses"),
)


def labelled(name: str | None, tag: str = base.NAME_TAG) -> str:
    """The filter for what carries our label: with a name, that one."""
    return f'labels.{LABELS[tag]}="{name}"' if name else f"labels.{LABELS[tag]}:*"


def things(api: GcpApi, name: str | None) -> list[base.Thing]:
    """Everything of ours in the project."""

    def of(kind: GcpKind | None) -> list[base.Thing]:
        if kind is None:
            return [_thing("firewall", rule, "global", tags_of_firewall(rule)) for rule in firewall.listed(api, name)]
        found = api.pages(kind.client, "aggregated_list", f"compute.{kind.field}.list", filter=labelled(name))
        return [
            _thing(kind.kind, raw, scope.rpartition("/")[2], tags_of(raw)) for scope, scoped in found for raw in getattr(scoped, kind.field)
        ]

    return [thing for listed in at_once(of, [*KINDS, None]) for thing in listed]


def _thing(kind: str, raw: Any, where: str, tags: dict[str, str]) -> base.Thing:
    return base.Thing(
        kind=kind,
        id=raw.name,
        group=tags.get(base.NAME_TAG, ""),
        launch_id=tags.get(base.LAUNCH_TAG, ""),
        owner=tags.get(base.OWNER_TAG, ""),
        where=where,
    )


def remove(api: GcpApi, things: Sequence[base.Thing], *, on_step: base.Step) -> list[str]:
    """Remove them kind by kind, those of one kind at the same time, and wait until they are gone."""
    removed = []
    ended: set[str] = set()  # launches whose machines were removed, and with them the disks that end with a machine
    for kind in (*KINDS, GcpKind("firewall", "Firewalls", "firewalls")):
        wanted = [thing for thing in things if thing.kind == kind.kind]
        if not wanted:
            continue
        on_step(f"removing {', '.join(str(thing) for thing in wanted)}")
        gone = at_once(lambda thing, kind=kind: _removed(api, kind, thing), wanted)  # type: ignore[misc]  # bound at once
        ended |= {thing.launch_id for thing in wanted if kind.kind == "instance"}
        removed += [str(thing) for thing, was_there in zip(wanted, gone, strict=True) if was_there or thing.launch_id in ended]
    return removed


def _removed(api: GcpApi, kind: GcpKind, thing: base.Thing) -> bool:
    """Whether it was there to be removed."""
    scope = {} if thing.where == "global" else {"region" if kind.kind == "address" else "zone": thing.where}
    request = {kind.kind: thing.id, **scope}
    action = f"compute.{kind.field}.delete"
    try:
        api.done(kind.client, "delete_unary", action, timeout_s=_REMOVED_S, where=thing.where, **request)
    except GoneError:
        return False
    return True
