"""Our things in a project, found by label, and their removal in the order in which they depend on one another."""

import re
from collections.abc import Sequence
from typing import Any, Final

from provision.clouds import base
from provision.clouds.gcp import os_login
from provision.clouds.gcp.answers import last, tags_of, tags_of_firewall
from provision.clouds.gcp.api import GcpProjectApi
from provision.clouds.gcp.errors import GoneError
from provision.clouds.gcp.firewall import is_ours, rules_of
from provision.clouds.gcp.requests import ATTEMPT_LABEL, LABELS, REGION_KEY, group_name, health_name, network_tag, rule_names
from provision.clouds.refusals import MachineRefusedError
from provision.concurrent import at_once
from provision.errors import CloudInvalidError
from provision.structs import Struct

# Terraform's five minutes had to be raised, and then ten (hashicorp/terraform#12298); a large group took an hour (kubernetes/kops#16720).
# What takes longer is under way all the same, and the same command goes on with it.
_REMOVED_S: Final = 1200.0
_OWN_LABELS: Final = {*LABELS.values(), ATTEMPT_LABEL}


class GcpKind(Struct):
    """How one kind of thing is listed and removed.

    Attributes:
        kind: as a `Thing` is called.
        client: of Google's library, without its last word.
        field: of the scoped list, and of the permissions.
    """

    kind: str
    client: str
    field: str


_FIREWALL: Final = GcpKind("firewall", "Firewalls", "firewalls")
_GROUP: Final = GcpKind("instance-group-manager", "RegionInstanceGroupManagers", "instanceGroupManagers")
_TEMPLATE: Final = GcpKind("instance-template", "InstanceTemplates", "instanceTemplates")
_CHECK: Final = GcpKind("health-check", "HealthChecks", "healthChecks")
# In the order of removal: a machine first, with the disks that end with it.
KINDS: Final = (
    GcpKind("instance", "Instances", "instances"),
    GcpKind("disk", "Disks", "disks"),
    _FIREWALL,
)
# A group comes before its members, which it would make anew, and its templates and its check after it, which it uses.
_ORDER: Final = (_GROUP, *KINDS[:-1], _TEMPLATE, _CHECK, _FIREWALL)
_REGION: Final = re.compile(r"[a-z0-9-]{1,63}")
_GROUP_REMOVED_S: Final = 3600.0


def label_filter(name: str | None, tag: str = base.NAME_TAG) -> str:
    """The filter for things that carry our label; with a name, that one."""
    return f'labels.{LABELS[tag]}="{name}"' if name else f"labels.{LABELS[tag]}:*"


def things(api: GcpProjectApi, name: str | None) -> list[base.Thing]:
    """Everything of ours in the project."""

    def existing(kind: GcpKind) -> list[base.Thing]:
        if kind is _FIREWALL:
            return [base.Thing.tagged(kind.kind, rule.name, "global", tags_of_firewall(rule)) for rule in rules_of(api, name)]
        scopes = api.pages(kind.client, "aggregated_list", f"compute.{kind.field}.list", filter=label_filter(name))
        raws = [(scope, raw) for scope, scoped in scopes for raw in getattr(scoped, kind.field)]
        keys = os_login.things(api, [raw for _, raw in raws]) if kind.kind == "instance" else []
        return [*(base.Thing.tagged(kind.kind, raw.name, last(scope), _labelled(raw) | tags_of(raw)) for scope, raw in raws), *keys]

    found = [thing for of_kind in at_once(existing, KINDS) for thing in of_kind]
    return [*_of_fleets(api, found), *found]


def of_fleet(api: GcpProjectApi, name: str, group: Any) -> list[base.Thing]:
    """What exists of a fleet, by its list and by the names that its group, if there is one, tells: a list may leave out what is new."""
    found, tags = things(api, name), tags_of_firewall(group) if group else {}
    links = [version.instance_template for version in group.versions] if group else []
    templates = [base.Thing.tagged(_TEMPLATE.kind, last(link), "global", tags) for link in links]
    launches = sorted({thing.launch_id for thing in (*found, *templates)} - {""})
    # Anybody may have written the description of a group, as below.
    rules = [_get(api, _FIREWALL, {"firewall": health_name(launch_id)}, none=CloudInvalidError) for launch_id in launches]
    doors = [base.Thing.tagged(_FIREWALL.kind, rule.name, "global", tags_of_firewall(rule)) for rule in rules if rule and is_ours(rule)]
    made = [known(api, base.Known(name, door.launch_id, door.owner)) for door in doors]
    return base.merged(found, _of_fleets(api, doors), templates if doors else (), doors, *made)


def known(api: GcpProjectApi, launch: base.Known) -> list[base.Thing]:
    """What exists of a launch, asked for by name: a list may leave out what was just made."""
    named = {(zone, thing_id) for thing_id, zone in launch.machines if zone}
    named |= {(zone, f"gpuprov-{host}") for _, zone, hosts in launch.attempts if zone for host in hosts}
    rules = [
        raw for raw in at_once(lambda name: _get(api, _FIREWALL, {"firewall": name}), rule_names(launch.name, launch.launch_id)) if raw
    ]
    raws = at_once(lambda pair: (pair[0], machine(api, *pair)), sorted(named))
    mine = [(zone, raw) for zone, raw in raws if raw and tags_of(raw).get(base.LAUNCH_TAG) == launch.launch_id]
    keys = os_login.things(api, [raw for _, raw in mine])
    return [
        *(launch.thing(KINDS[0].kind, raw.name, zone) for zone, raw in mine),
        *keys,
        *(launch.thing(_FIREWALL.kind, rule.name, "global") for rule in rules if is_ours(rule, launch.launch_id)),
    ]


def _of_fleets(api: GcpProjectApi, found: Sequence[base.Thing]) -> list[base.Thing]:
    """What belongs to fleets: asked for where there is a rule for their health checks, which is made first and removed last."""
    result = []
    for rule in found:
        if rule.kind != _FIREWALL.kind or rule.id != health_name(rule.launch_id):
            continue
        tags = {base.NAME_TAG: rule.group, base.LAUNCH_TAG: rule.launch_id, base.OWNER_TAG: rule.owner}
        region = dict(rule.tags).get(REGION_KEY, "")
        group, check = group_name(rule.group), health_name(rule.launch_id)
        # Anybody may have written them, and they are a path. A region that there is not is an invalid value to GCE, and has no group.
        fleet = base.NAME.fullmatch(rule.group) and _REGION.fullmatch(region)
        if fleet and _get(api, _GROUP, {"region": region, "instance_group_manager": group}, none=CloudInvalidError):
            result.append(base.Thing.tagged(_GROUP.kind, group, region, tags))
        names = f'name eq "{network_tag(rule.launch_id)}-.*"'
        templates = api.pages("InstanceTemplates", "list", "compute.instanceTemplates.list", filter=names)
        result += [base.Thing.tagged(_TEMPLATE.kind, each.name, "global", tags) for each in templates]
        if _get(api, _CHECK, {"health_check": check}):
            result.append(base.Thing.tagged(_CHECK.kind, check, "global", tags))
    return result


def machine(api: GcpProjectApi, zone: str, name: str) -> Any:
    """The machine of this name in a zone; None where there is none."""
    return _get(api, KINDS[0], {"zone": zone, "instance": name})


def _get(api: GcpProjectApi, kind: GcpKind, target: dict[str, str], none: type[CloudInvalidError] = GoneError) -> Any:
    """What has this name; None where nothing has it, which the cloud says by an error."""
    try:
        return api.call(kind.client, "get", f"compute.{kind.field}.get", **target)
    except none:
        return None


def _labelled(raw: Any) -> dict[str, str]:
    """The labels that a profile's own tags became; an instance has the tags themselves in its metadata."""
    return {} if hasattr(raw, "metadata") else {key: value for key, value in raw.labels.items() if key not in _OWN_LABELS}


def remove(api: GcpProjectApi, things: Sequence[base.Thing], *, on_step: base.Step) -> list[str]:
    """Remove them kind by kind, those of one kind at the same time, and wait until they are gone."""
    # The keys come first: each is found by its machine.
    phrases = os_login.take_back(api, [thing for thing in things if thing.kind == os_login.KIND], on_step)
    ended: set[str] = set()  # launches whose machines were removed, and with them the disks that end with a machine
    for kind in _ORDER:
        of_kind = [thing for thing in things if thing.kind == kind.kind]
        if not of_kind:
            continue
        on_step(f"removing {', '.join(map(str, of_kind))}")
        existing = at_once(lambda pair: _remove(api, *pair), [(kind, thing) for thing in of_kind])
        if kind.kind == "instance":
            ended = {thing.launch_id for thing in of_kind}
        phrases += [str(thing) for thing, here in zip(of_kind, existing, strict=True) if here or thing.launch_id in ended]
    return phrases


def _remove(api: GcpProjectApi, kind: GcpKind, thing: base.Thing) -> bool:
    """Remove a thing and return whether it still existed."""
    scope = {} if thing.where == "global" else {"region" if kind is _GROUP else "zone": thing.where}
    action, target = f"compute.{kind.field}.delete", {kind.kind.replace("-", "_"): thing.id, **scope}
    longest_s = _GROUP_REMOVED_S if kind is _GROUP else _REMOVED_S
    try:
        api.run(kind.client, "delete_unary", action, timeout_s=longest_s, where=thing.where, **target)
    except GoneError:
        return False
    except MachineRefusedError as error:
        change = f"gcloud compute instances update {thing.id} --zone {thing.where} --no-deletion-protection"
        error.hint = f"it runs on: `{change}` takes the protection off; then run the same command again"
        raise
    return True
