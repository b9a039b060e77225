"""Our things in a region, found by tag, and their removal in the order in which they depend on one another."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import tenacity

from provision.clouds import base
from provision.clouds.aws.answers import tags_of
from provision.clouds.aws.api import ENDED, FACTOR, FIRST_S, LONGEST_S, AwsRegionApi, poll_ec2
from provision.clouds.aws.errors import cloud_errors, is_refusal, unless_refused
from provision.clouds.aws.firewall import UNSEEN_S, groups_named, launch_of, once_visible
from provision.clouds.refusals import MachineRefusedError
from provision.concurrent import at_once
from provision.errors import InstanceLostError
from provision.structs import Struct


class AwsKind(Struct):
    """How one kind of thing is described and removed.

    Attributes:
        type: as DescribeTags calls it.
        describe: the client's method; the IAM action is its name in capitals.
        key: of the list in its answer.
        id: the field of an entry that holds its id.
        delete: the client's method; its parameter has the name of `id`.
        several: whether the method takes a list of ids, under that name in the plural.
        waits: the filter by id, for the kinds that end with their instance, a moment after it.
        name: as a `Thing` is called; the type, if empty.
    """

    type: str
    describe: str
    key: str
    id: str
    delete: str
    several: bool = False
    waits: str = ""
    name: str = ""

    @property
    def kind(self) -> str:
        """As a `Thing` is called."""
        return self.name or self.type


_INSTANCE: Final = AwsKind("instance", "describe_instances", "Reservations", "InstanceId", "terminate_instances")
# Not of EC2's API: asked for where there is a launch template, which a fleet has as long as its group.
_FLEET: Final = AwsKind("auto-scaling-group", "describe_auto_scaling_groups", "AutoScalingGroups", "AutoScalingGroupName", "")
# In the order of removal: a group first, because it replaces what ends; then a spot request, so that it starts nothing more; then the
# machines; then what they held.
KINDS: Final = (
    _FLEET,
    AwsKind(
        "spot-instances-request",
        "describe_spot_instance_requests",
        "SpotInstanceRequests",
        "SpotInstanceRequestId",
        "cancel_spot_instance_requests",
        several=True,
        name="spot-request",
    ),
    _INSTANCE,
    AwsKind("volume", "describe_volumes", "Volumes", "VolumeId", "delete_volume", waits="volume-id"),
    AwsKind(
        "network-interface",
        "describe_network_interfaces",
        "NetworkInterfaces",
        "NetworkInterfaceId",
        "delete_network_interface",
        waits="network-interface-id",
    ),
    AwsKind("security-group", "describe_security_groups", "SecurityGroups", "GroupId", "delete_security_group"),
    AwsKind("launch-template", "describe_launch_templates", "LaunchTemplates", "LaunchTemplateId", "delete_launch_template"),
)
_CLOSED: Final = {"closed", "cancelled", "failed"}
# EC2's codes while an instance that ended still holds its interface or volume.
_STILL_HELD: Final = ("DependencyViolation", "VolumeInUse", "IncorrectState", "InvalidNetworkInterface.InUse", "InvalidGroup.InUse")
_NOT_FOUND: Final = "*NotFound*"
# Groups took Terraform's users more than ten minutes: https://github.com/hashicorp/terraform/issues/14394
_GONE_S: Final = 1200.0
_HELD_S: Final = 300.0  # by what may be somebody else's


def _action(method: str) -> str:
    """The permission that a method of the client needs."""
    return "ec2:" + "".join(word.capitalize() for word in method.split("_"))


def tag_filter(name: str | None) -> dict[str, Any]:
    """The filter for things that carry our tag; with a name, for that launch's."""
    return {"Name": f"tag:{base.NAME_TAG}", "Values": [name]} if name else {"Name": "tag-key", "Values": [base.NAME_TAG]}


def things(api: AwsRegionApi, name: str | None) -> list[base.Thing]:
    """Everything of ours in the region: one DescribeTags shows which kinds there may be, and one call for each of them what exists."""
    filters = [{"Name": "key", "Values": [base.NAME_TAG]}, *([{"Name": "value", "Values": [name]}] if name else [])]
    with cloud_errors("ec2:DescribeTags", api.region):
        pages = api.ec2.get_paginator("describe_tags").paginate(Filters=filters)
        types = {tag["ResourceType"] for page in pages for tag in page["Tags"]}
    types |= {_FLEET.type} if "launch-template" in types else set()
    kinds = [kind for kind in KINDS if kind.type in types]
    return [thing for existing in at_once(lambda kind: _existing(api, kind, name), kinds) for thing in existing]


def known(api: AwsRegionApi, launch: base.Known, made: str | None = None) -> list[base.Thing]:
    """What exists of a launch by its ids, its tokens and the name of its group: EC2 may show tags late, and machines too.

    A machine that EC2 does not show counts as alive while the launch is young. A group that this client `made` is waited for. Volumes and
    interfaces end with their machine.
    """
    ids = [machine for machine, _ in launch.machines]
    wanted = {"instance-id": ids, "client-token": [token for token, _, _ in launch.attempts if token]}
    raws = [raw for key, values in wanted.items() if values for raw in api.instances([{"Name": key, "Values": values}])]
    states = dict.fromkeys(ids, "" if launch.young else "terminated") | {raw["InstanceId"]: raw["State"]["Name"] for raw in raws}

    def named() -> list[str]:
        return [str(raw["GroupId"]) for raw in groups_named(api, launch.name) if launch_of(raw) == launch.launch_id]

    groups = poll_ec2(named, lambda shown: made is None or made in shown, timeout_s=UNSEEN_S)
    machines = [launch.thing(_INSTANCE.kind, i, api.region, alive=state not in ENDED) for i, state in states.items()]
    return [*machines, *(launch.thing("security-group", group, api.region) for group in groups)]


def _existing(api: AwsRegionApi, kind: AwsKind, name: str | None) -> list[base.Thing]:
    filters = [tag_filter(name)]
    if kind is _FLEET:
        with cloud_errors("autoscaling:DescribeAutoScalingGroups", api.region):
            found = api.client("autoscaling").get_paginator(kind.describe).paginate(Filters=filters)
            return [_thing(raw, kind, api.region) for page in found for raw in page[kind.key]]
    if kind is _INSTANCE:
        return [_thing(raw, kind, api.region) for raw in api.instances(filters)]
    with cloud_errors(_action(kind.describe), api.region):
        pages = list(api.ec2.get_paginator(kind.describe).paginate(Filters=filters))
    # EC2 shows a closed spot request for days, and nothing can come of it.
    return [_thing(raw, kind, api.region) for page in pages for raw in page[kind.key] if raw.get("State") not in _CLOSED]


def _thing(raw: dict[str, Any], kind: AwsKind, region: str) -> base.Thing:
    alive = kind is not _INSTANCE or raw["State"]["Name"] not in ENDED
    return base.Thing.tagged(kind.kind, raw[kind.id], region, tags_of(raw), alive=alive)


def remove(api: AwsRegionApi, things: Sequence[base.Thing], *, on_step: base.Step) -> list[str]:
    """Remove them, those that others depend on last; a thing that is already gone counts as removed."""
    phrases: list[str] = []
    for kind in KINDS:
        of_kind = [thing for thing in things if thing.kind == kind.kind]
        if not of_kind:
            continue
        alive = [str(thing) for thing in of_kind if thing.alive]
        if alive:
            on_step(f"removing {', '.join(alive)}")
        _remove_kind(api, kind, of_kind)
        phrases += alive
    return phrases


def _remove_kind(api: AwsRegionApi, kind: AwsKind, things: Sequence[base.Thing]) -> None:
    ids = [thing.id for thing in things]
    if kind is _FLEET:
        _end_fleets(api, ids)
    elif kind is _INSTANCE:
        terminate(api, ids, [thing.id for thing in things if thing.alive])
    elif kind.waits:
        _clear(api, kind, ids)
    else:
        at_once(lambda thing_id: _delete(api, kind, thing_id), ids, most=8)


def _end_fleets(api: AwsRegionApi, names: Sequence[str]) -> None:
    """Delete groups with their members, and wait until they are gone: a group that is being deleted launches nothing."""
    groups = api.client("autoscaling")
    with cloud_errors("autoscaling:DeleteAutoScalingGroup", api.region):
        for name in names:
            request = {_FLEET.id: name, "ForceDelete": True}
            unless_refused(functools.partial(groups.delete_auto_scaling_group, **request), "ValidationError")

    def remaining() -> list[str]:
        with cloud_errors("autoscaling:DescribeAutoScalingGroups", api.region):
            rows = groups.describe_auto_scaling_groups(AutoScalingGroupNames=list(names))[_FLEET.key]
        return [str(row[_FLEET.id]) for row in rows]

    _until_none(api, remaining)


def terminate(api: AwsRegionApi, ids: Sequence[str], alive: Sequence[str]) -> None:
    """Terminate instances and wait until EC2 shows them as terminated, or no longer shows them; one that is alive may not be known yet."""

    def end(*some: str) -> dict[str, Any] | None:
        def ask() -> dict[str, Any]:
            return dict(api.ec2.terminate_instances(InstanceIds=list(some)))

        return unless_refused(lambda: once_visible(ask, _NOT_FOUND) if len(some) == 1 and some[0] in alive else ask(), _NOT_FOUND)

    try:
        with cloud_errors("ec2:TerminateInstances", api.region):
            # EC2 refuses the whole call for one id that it no longer knows, or not yet.
            for instance_id in ids if end(*ids) is None and len(ids) > 1 else ():
                end(instance_id)
    except MachineRefusedError as error:
        protected = next((each for each in ids if each in error.message), "ID")
        change = f"aws ec2 modify-instance-attribute --region {api.region} --instance-id {protected} --no-disable-api-termination"
        error.hint = f"it runs on: `{change}` takes the protection off; then run the same command again"
        raise

    def remaining() -> list[str]:
        instances = api.instances([{"Name": "instance-id", "Values": list(ids)}])
        return [i["InstanceId"] for i in instances if i["State"]["Name"] != "terminated"]

    _until_none(api, remaining)


def _clear(api: AwsRegionApi, kind: AwsKind, ids: Sequence[str]) -> None:
    """Wait for things that end with their instance, and delete those that stay.

    It deletes only what EC2 still shows. For a thing that is gone EC2 might answer "not found", or "not authorized" because a thing
    that is gone has no tags that could meet a policy's condition; the documentation does not say which.
    """

    def remaining() -> list[str]:
        with cloud_errors(_action(kind.describe), api.region):
            reply = getattr(api.ec2, kind.describe)(Filters=[{"Name": kind.waits, "Values": list(ids)}])
        states = {entry[kind.id]: entry.get("State", entry.get("Status")) for entry in reply[kind.key]}
        for thing_id, state in states.items():
            if state == "available":
                _delete(api, kind, thing_id)
        return [thing_id for thing_id, state in states.items() if state not in {"deleting", "deleted"}]

    _until_none(api, remaining)


def _until_none(api: AwsRegionApi, remaining: Callable[[], list[str]]) -> None:
    """Ask until nothing remains.

    Raises:
        InstanceLostError: something still does after twenty minutes; AWS goes on with it.
    """
    ids = poll_ec2(remaining, lambda ids: not ids, timeout_s=_GONE_S)
    if ids:
        msg = f"{', '.join(ids)} in {api.region}: the end is under way, and not over after {_GONE_S / 60:.0f} min"
        raise InstanceLostError(msg, hint="AWS goes on with it: run the same command again, which goes on where it stopped")


def _delete(api: AwsRegionApi, kind: AwsKind, thing_id: str) -> None:
    """Remove one thing; ask again while an instance that ended still holds it."""
    parameter = {f"{kind.id}s": [thing_id]} if kind.several else {kind.id: thing_id}
    retry = tenacity.Retrying(
        retry=tenacity.retry_if_exception(lambda error: is_refusal(error, *_STILL_HELD)),
        wait=tenacity.wait_exponential(multiplier=FIRST_S, exp_base=FACTOR, max=LONGEST_S),
        stop=tenacity.stop_after_delay(_HELD_S),
        reraise=True,
    )
    with cloud_errors(_action(kind.delete), api.region):
        retry(unless_refused, lambda: getattr(api.ec2, kind.delete)(**parameter), _NOT_FOUND)
