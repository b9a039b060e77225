"""What a managed instance group of the embedded GCP does by itself: its size, its versions, and its members that end or are not healthy.

The states are those of the schema ManagedInstance in Google's document. That a repaired member has its own template unless
forceUpdateOnRepair is YES: docs.cloud.google.com/compute/docs/instance-groups/about-repair. Whether a group becomes smaller when a member
reaches its terminationTime is not said (…/instance-groups/limit-vm-runtime-in-migs), so a setting decides; where it does not, each new try
is refused, because its time is over.
"""

import datetime as dt
import secrets
import string
import threading
import time
from collections import Counter
from typing import Any, Final

from provision.rehearsal.gcp import keys, probes, templates
from provision.rehearsal.gcp.guests import erase, power_off
from provision.rehearsal.gcp.launch import make, plan
from provision.rehearsal.gcp.offers import accelerators, machine, region_of
from provision.rehearsal.gcp.operations import failure
from provision.rehearsal.gcp.quota import out_of_stock, room, shortage
from provision.rehearsal.gcp.refusals import ComputeError
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import ResourcePath, World, last, now
from provision.structs import MutableStruct, field

_PAUSE_S: Final = 0.05
_MOST_ERRORS: Final = 100
_LETTERS: Final = string.ascii_lowercase + string.digits
_GONE: Final = {"", "TERMINATED", "STOPPING"}


class ManagedMember(MutableStruct):
    """One managed instance."""

    name: str
    zone: str
    template: str
    action: str = "CREATING"
    health: probes.Health = field(default_factory=probes.Health)
    running_at: float | None = None
    errors: list[dict[str, Any]] = field(default_factory=list)
    ends: bool = False  # whether its instance was told to go

    @property
    def place(self) -> ResourcePath:
        """Its instance's."""
        return ResourcePath(PROJECT, f"zones/{self.zone}", "instances", self.name)


class ManagedGroup(MutableStruct):
    """One group; what its GET shows is the resource at its place."""

    place: ResourcePath
    zones: list[str]
    members: dict[str, ManagedMember] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)
    retry_at: float = 0.0
    deleting: bool = False
    gone: threading.Event = field(default_factory=threading.Event)

    @property
    def staying(self) -> list[ManagedMember]:
        """The members that count."""
        return [member for member in self.members.values() if member.action != "DELETING"]


def start(world: World, group: ManagedGroup) -> None:
    """Look after a group from now on."""
    world.groups[group.place] = group
    world.timers.after(0, lambda: _again(world, group))


def _again(world: World, group: ManagedGroup) -> None:
    with world.lock:
        asked = _step(world, group)
    for member in asked:
        check, address = _check(world, group), _address(world, member)
        world.timers.after(0, lambda m=member, c=check, a=address: probes.probe(world, m.health, c or {}, m.name, a))  # type: ignore[misc]
    if not group.gone.is_set():
        world.timers.after(_PAUSE_S, lambda: _again(world, group))


def _step(world: World, group: ManagedGroup) -> list[ManagedMember]:
    """One look at a group; returns the members that its check asks now."""
    resource = world.resources[group.place]
    for member in list(group.members.values()):
        _advance(world, group, resource, member)
    if group.deleting and not group.members:
        world.drop(group.place)
        world.groups.pop(group.place, None)
        group.gone.set()
        return []
    _update(world, group, resource)
    _resize(world, group, resource)
    check = _check(world, group)
    probed = [m for m in group.staying if m.running_at is not None and check and probes.due(world, m.health, check)]
    for member in probed:
        member.health.asking = True
    return probed


def _check(world: World, group: ManagedGroup) -> dict[str, Any] | None:
    policies = world.resources.get(group.place, {}).get("autoHealingPolicies", [])
    return probes.by_link(world, policies[0]["healthCheck"]) if policies and policies[0].get("healthCheck") else None


def _address(world: World, member: ManagedMember) -> str:
    card = world.resources.get(member.place, {}).get("networkInterfaces", [{}])[0]
    public = [access["natIP"] for access in card.get("accessConfigs", []) if access.get("natIP")]
    return str(public[0] if public else card.get("networkIP", ""))


def status_of(world: World, member: ManagedMember) -> str:
    """The state of a member's instance; empty where there is none."""
    return str(world.resources.get(member.place, {}).get("status", ""))


def _advance(world: World, group: ManagedGroup, resource: dict[str, Any], member: ManagedMember) -> None:
    status = status_of(world, member)
    if member.action == "DELETING":
        _end(world, member)
        if not status_of(world, member):
            del group.members[member.name]
        return
    if member.action == "RECREATING" and member.ends:
        if not status:
            member.ends = False
            _create(world, group, member)
    elif member.action == "CREATING" and not status:
        _create(world, group, member)
    elif status in _GONE:
        _fail(world, resource, member)
    elif status == "RUNNING":
        _look(world, resource, member)


def _look(world: World, resource: dict[str, Any], member: ManagedMember) -> None:
    """Whether a member that runs serves, or is to be made anew."""
    checked = bool(resource.get("autoHealingPolicies"))
    if member.running_at is None:
        member.running_at, member.health = time.monotonic(), probes.Health()
        member.action = "VERIFYING" if checked else "NONE"
    if member.health.state == "HEALTHY":
        member.action = "NONE"
    elif checked and member.health.state in {"UNHEALTHY", "TIMEOUT"}:
        delay_s = world.settings.gce_initial_delay_s
        delay_s = float(resource["autoHealingPolicies"][0].get("initialDelaySec", 0)) if delay_s is None else delay_s
        if (member.health.had_good or time.monotonic() >= member.running_at + delay_s) and _repairs(resource, "onFailedHealthCheck"):
            _recreate(world, resource, member)


def _repairs(resource: dict[str, Any], reason: str) -> bool:
    policy = resource["instanceLifecyclePolicy"]
    chosen = policy.get(reason, "DEFAULT_ACTION")
    return bool((policy["defaultActionOnFailure"] if chosen == "DEFAULT_ACTION" else chosen) == "REPAIR")


def _fail(world: World, resource: dict[str, Any], member: ManagedMember) -> None:
    """A member ended by itself, or somebody else ended it."""
    limit = templates.properties(world, member.template, member.zone).get("scheduling", {}).get("terminationTime")
    if limit and world.settings.gce_limit_shrinks and dt.datetime.fromisoformat(limit) <= dt.datetime.now(dt.UTC):
        member.action, resource["targetSize"] = "DELETING", int(resource["targetSize"]) - 1
        return
    if _repairs(resource, "defaultActionOnFailure"):
        _recreate(world, resource, member)
    else:
        member.running_at = None


def _recreate(world: World, resource: dict[str, Any], member: ManagedMember) -> None:
    """Make a member anew, under its own name."""
    if resource["instanceLifecyclePolicy"].get("forceUpdateOnRepair") == "YES":
        member.template = _wanted(resource)[-1][0]
    member.action, member.running_at, member.health = "RECREATING", None, probes.Health()
    _end(world, member)


def recreate(world: World, resource: dict[str, Any], member: ManagedMember) -> None:
    """The same for whoever asks for it."""
    _recreate(world, resource, member)


def replace(world: World, group: ManagedGroup, resource: dict[str, Any], member: ManagedMember) -> None:
    """Bring a member to the version that the group lacks, under its own name or another, as the policy says."""
    counts = Counter(each.template for each in group.staying if each is not member)
    template = _lacking(resource, counts)
    if resource["updatePolicy"].get("replacementMethod") == "RECREATE":
        member.template = template
        _recreate(world, resource, member)
    else:
        member.action = "DELETING"
        _end(world, member)


def _end(world: World, member: ManagedMember) -> None:
    """Tell a member's instance to go, once."""
    instance = world.resources.get(member.place)
    if instance is None or member.ends:
        member.ends = True
        return
    member.ends = True
    if instance["status"] != "TERMINATED":
        power_off(world, instance)

    def gone() -> None:
        with world.lock:
            if world.resources.get(member.place) is instance:
                erase(world, instance)

    world.timers.after(world.settings.gce_operation_s, gone)


def _wanted(resource: dict[str, Any]) -> list[tuple[str, int]]:
    """Templates and how many members each should have; the one without a size has the rest, and is the last."""
    size, fixed, rest = int(resource["targetSize"]), list[tuple[str, int]](), ""
    for version in resource["versions"]:
        count = version.get("targetSize")
        if count is None:
            rest = version["instanceTemplate"]
        else:
            asked = count["fixed"] if "fixed" in count else -(-size * count["percent"] // 100)
            fixed.append((version["instanceTemplate"], min(asked, size)))
    return [*fixed, (rest, max(size - sum(count for _, count in fixed), 0))]


def _lacking(resource: dict[str, Any], counts: Counter[str]) -> str:
    """The template of which another member is to be made."""
    wanted = _wanted(resource)
    return next((template for template, count in wanted if counts[template] < count), wanted[-1][0])


def outdated(group: ManagedGroup, resource: dict[str, Any]) -> list[ManagedMember]:
    """The members of a version that has more than it should, those that do not serve first."""
    left = Counter(dict(_wanted(resource)))
    result = []
    for member in sorted(group.staying, key=lambda m: m.action == "NONE", reverse=True):
        left[member.template] -= 1
        if left[member.template] < 0:
            result.append(member)
    return result[::-1]


def _amount(value: dict[str, Any] | None, size: int, plain: int) -> int:
    if value is None:
        return plain
    return int(value["fixed"]) if "fixed" in value else -(-size * int(value["percent"]) // 100)


def _surge(group: ManagedGroup, resource: dict[str, Any]) -> int:
    return _amount(resource["updatePolicy"].get("maxSurge"), int(resource["targetSize"]), len(group.zones))


def _update(world: World, group: ManagedGroup, resource: dict[str, Any]) -> None:
    """Bring members to their version by itself, never more at a time than the policy lets be away."""
    if group.deleting or resource["updatePolicy"]["type"] != "PROACTIVE":
        return
    size = int(resource["targetSize"])
    least = size - _amount(resource["updatePolicy"].get("maxUnavailable"), size, len(group.zones))
    serving = sum(member.action == "NONE" for member in group.staying)
    for member in outdated(group, resource):
        if member.action == "RECREATING":
            continue
        if member.action == "NONE":
            if serving - 1 < least:
                continue
            serving -= 1
        replace(world, group, resource, member)


def _resize(world: World, group: ManagedGroup, resource: dict[str, Any]) -> None:
    size = 0 if group.deleting else int(resource["targetSize"])
    updating = not group.deleting and resource["updatePolicy"]["type"] == "PROACTIVE" and bool(outdated(group, resource))
    allowed = size + (_surge(group, resource) if updating else 0)
    staying = sorted(group.staying, key=lambda m: m.action == "NONE")
    for member in staying[: max(len(staying) - allowed, 0)]:
        member.action = "DELETING"
        _end(world, member)
    # One that goes still has its place until it is gone, so that no more run at a time than the policy says.
    while not group.deleting and len(group.members) < allowed and time.monotonic() >= group.retry_at:
        name = f"{resource['baseInstanceName']}-{''.join(secrets.choice(_LETTERS) for _ in range(4))}"
        if name in group.members:
            continue
        member = ManagedMember(name, _zone(world, group), _lacking(resource, Counter(m.template for m in group.staying)))
        group.members[name] = member
        if not _create(world, group, member):
            return


def _zone(world: World, group: ManagedGroup) -> str:
    """Of the zones with room, the one with the fewest members; where none has room, the first."""
    used = Counter(member.zone for member in group.members.values())
    return min(group.zones, key=lambda zone: (room(world, zone) <= 0, used[zone], zone))


def _create(world: World, group: ManagedGroup, member: ManagedMember) -> bool:
    """Make a member's instance; whether that could be. What stood against it is its last attempt's error."""
    if time.monotonic() < group.retry_at:
        return False
    error = None
    try:
        body = templates.properties(world, member.template, member.zone)
        cards = {last(card["acceleratorType"]) for card in body.get("guestAccelerators", [])}
        if not machine(member.zone, last(body["machineType"])) or not cards <= set(accelerators(member.zone)):
            group.zones = [zone for zone in group.zones if zone != member.zone] or group.zones
        guest, body = plan(world, member.place, {**body, "name": member.name})
        own = [
            {"key": "created-by", "value": str(group.place)},
            {"key": "instance-template", "value": member.template.partition("/v1/")[2]},
        ]
        body["metadata"] = {**body.get("metadata", {}), "items": [*body.get("metadata", {}).get("items", []), *own]}
        error = shortage(world, region_of(member.zone), [guest]) or keys.obstacle(world, [body]) or out_of_stock(world, member.zone, guest)
        if error is None:
            make(world, guest, body)
    except ComputeError as refused:
        error = failure(refused.reason, refused.message, http=refused.http)
    if error is None:
        member.errors = []
        return True
    group.retry_at = time.monotonic() + world.settings.gce_group_retry_s
    errors = error["error"]["errors"]
    member.errors = [{"code": each["code"], "message": each["message"]} for each in errors]
    row = {
        "error": member.errors[0],
        "instanceActionDetails": {
            "action": member.action,
            "instance": member.place.link,
            "version": {"instanceTemplate": member.template},
        },
        "timestamp": now(),
    }
    group.errors = [row, *group.errors][:_MOST_ERRORS]
    if member.action == "CREATING":
        member.zone = _zone(world, group)
    return False
