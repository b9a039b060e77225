"""Machines of AWS as they are now: waited for, stopped, started, and their deadline moved."""

import datetime as dt
import time
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from provision.clouds import base
from provision.clouds.aws import disk_key, removal
from provision.clouds.aws.answers import instances_of
from provision.clouds.aws.api import ENDED, AwsRegionApi, poll_ec2
from provision.clouds.aws.errors import cloud_errors
from provision.clouds.refusals import MachineRefusedError, sentence
from provision.errors import CapacityError, DiskKeyRefusedError, InstanceLostError, QuotaExceededError, ShortageError
from provision.structs import replace

# EC2 is eventually consistent: DescribeInstances may not know an instance for a while after RunInstances named it
# (https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html gives no bound).
_UNSEEN_S: Final = 20.0
# Seen for keys that may not be used: https://github.com/hashicorp/terraform-provider-aws/issues/21006 and
# https://github.com/aws/karpenter-provider-aws/issues/1407; for keys that are disabled or have no grant:
# https://github.com/CiscoDevNet/cloud-cml/issues/8. The first is also AWS's code for an encrypted volume whose key the caller may not use:
# https://repost.aws/knowledge-center/kms-iam-ec2-permission.
_INTERNAL: Final = "Client.InternalError"
_OF_KEYS: Final = "Client.InvalidKMSKey."
_STARTS_S: Final = 120.0
# hashicorp/terraform#2564, ansible/ansible#29631 and cloudfoundry/bosh-aws-cpi-release#46 saw launches end so that EC2 had accepted.
_SHORTAGES: Final[dict[str, type[ShortageError]]] = {"Server.Insufficient*": CapacityError, "Client.*LimitExceeded": QuotaExceededError}


def _now(api: AwsRegionApi, ids: Iterable[str]) -> list[base.Instance]:
    """The instances of these ids as they are now; those that ended are among them for a while."""
    return instances_of(api.instances([{"Name": "instance-id", "Values": list(ids)}]), api.region)


def until_running(api: AwsRegionApi, instances: Sequence[base.Instance], *, timeout_s: float) -> list[base.Instance]:
    """Wait until all of them run and have an address.

    Raises:
        InstanceLostError: one ended, or the time is up.
    """
    ids = [i.id for i in instances]
    unseen_until = time.monotonic() + min(_UNSEEN_S, timeout_s)

    def settled(current: list[base.Instance]) -> bool:
        if any(i.state in {*ENDED, "stopped"} for i in current):
            return True
        if len(current) < len(ids):
            return time.monotonic() >= unseen_until
        return all(i.state == "running" and i.address for i in current)

    by_id = {i.id: i for i in poll_ec2(lambda: _now(api, ids), settled, timeout_s=timeout_s)}
    for instance in instances:
        current = by_id.get(instance.id)
        if current is None or current.state != "running" or not current.address:
            raise _not_up(api, instance, current.state if current else "gone")
    now = ((instance, by_id[instance.id]) for instance in instances)
    # Only its tags tell whose a machine is, and they may be late.
    return [new if new.launch_id else replace(old, state=new.state, address=new.address) for old, new in now]


def _not_up(api: AwsRegionApi, instance: base.Instance, state: str) -> InstanceLostError:
    raws = api.instances([{"Name": "instance-id", "Values": [instance.id]}]) if state in {*ENDED, "stopped"} else []
    code, said = next(((_reason_of(raw), str(raw.get("StateReason", {}).get("Message", ""))) for raw in raws), ("", ""))
    why = f" ({code})" + (f": {sentence(said)}" if said else "") if code else ""
    msg = f"instance {instance.id} of {instance.name!r} does not run in {api.region}: it is {state}{why}"
    hint = f"`gpuprov down {instance.group}` removes what remains; then run `gpuprov up` again"
    if _is_of_a_key(code):
        hint = f"{_needs('the key of its disks, or the one that the account encrypts all volumes with,')}; {hint}"
    return InstanceLostError(msg, hint=hint, instance_id=instance.id)


def check_alive(api: AwsRegionApi, instance: base.Instance) -> None:
    """See that the instance has not ended; one that EC2 does not show yet counts as alive.

    Raises:
        InstanceLostError: it has.
    """
    for current in _now(api, [instance.id]):
        if current.state in {*ENDED, "stopped"}:
            raise _not_up(api, instance, current.state)


def _until_stopped(api: AwsRegionApi, ids: Sequence[str], *, timeout_s: float) -> None:
    def settled(current: list[base.Instance]) -> bool:
        return all(i.state in {*ENDED, "stopped"} for i in current)

    for instance in poll_ec2(lambda: _now(api, ids), settled, timeout_s=timeout_s):
        if instance.state != "stopped":
            msg = f"instance {instance.id} of {instance.name!r} did not stop in {api.region}: it is {instance.state}"
            raise InstanceLostError(msg, hint=f"`gpuprov ls` shows what it is now; `gpuprov down {instance.group}` removes it")


def stop(api: AwsRegionApi, instances: Sequence[base.Instance], *, timeout_s: float) -> None:
    """Stop them and wait until they are stopped.

    Raises:
        MachineRefusedError: one is a spot machine, which was asked for once, and EC2 stops none of these.
    """
    spot = next((i for i in instances if i.market == "spot"), None)
    if spot is not None:
        msg = f"{spot.id} of {spot.name!r} is a one-time spot machine, which EC2 can only end, not stop"
        raise MachineRefusedError(msg, hint=f"`gpuprov down {spot.group}` ends it, and what is on its disks; copy that first")
    to_stop = [i.id for i in instances if i.state not in {"stopped", "stopping"}]
    if to_stop:
        with cloud_errors("ec2:StopInstances", api.region):
            api.ec2.stop_instances(InstanceIds=to_stop)
    _until_stopped(api, [i.id for i in instances], timeout_s=timeout_s)


def start(api: AwsRegionApi, instances: Sequence[base.Instance], *, timeout_s: float) -> list[base.Instance]:
    """Start the stopped ones and wait until all of them run."""
    stopping = [i.id for i in instances if i.state == "stopping"]
    if stopping:
        _until_stopped(api, stopping, timeout_s=timeout_s)
    to_start = [i.id for i in instances if i.state in {"stopped", "stopping"}]
    if to_start:
        with cloud_errors("ec2:StartInstances", api.region):
            api.ec2.start_instances(InstanceIds=to_start)
        # For a moment after the call EC2 may still show them as stopped, which here does not mean that they are lost.
        poll_ec2(lambda: _now(api, to_start), lambda now: all(i.state != "stopped" for i in now), timeout_s=min(_UNSEEN_S, timeout_s))
    return until_running(api, instances, timeout_s=timeout_s)


def extend(api: AwsRegionApi, instances: Sequence[base.Instance], deadline: dt.datetime) -> None:
    """Move the tag. EC2 holds no deadline itself, and the caller moves the timer on the host."""
    value = deadline.astimezone(dt.UTC).isoformat(timespec="seconds")
    with cloud_errors("ec2:CreateTags", api.region):
        api.ec2.create_tags(Resources=[i.id for i in instances], Tags=[{"Key": base.DEADLINE_TAG, "Value": value}])


def _reason_of(raw: dict[str, Any]) -> str:
    """The code of an instance's state reason, the only place where EC2 says why it ended; empty where there is none."""
    return str(raw.get("StateReason", {}).get("Code", ""))


def _is_of_a_key(code: str) -> bool:
    """Whether a state reason is that of a volume's key."""
    return code == _INTERNAL or code.startswith(_OF_KEYS)


def _needs(keys: str) -> str:
    """What must hold so that EC2 can use keys, as a hint."""
    return (
        f"see that {keys} exists and is enabled, and that its key policy and these credentials' policies allow "
        f"{', '.join(disk_key.ACTIONS)} (`gpuprov plan` prints them; kms:CreateGrant may be bound to kms:GrantIsForAWSResource)"
    )


def check_started(api: AwsRegionApi, order: base.Order, instances: Sequence[base.Instance]) -> None:
    """Wait until EC2 has tried to start them: it accepts a launch before it knows of its room, of the volumes' limit, and of their key.

    Raises:
        CapacityError, QuotaExceededError: an instance ended for lack of room, or at a limit; then none of them is left.
        DiskKeyRefusedError: an instance ended because of the key of its disks.
    """
    keys = " or ".join(disk_key.in_use(order, api.region))
    ids = [instance.id for instance in instances]

    def settled(raws: list[dict[str, Any]]) -> bool:
        states = [str(raw["State"]["Name"]) for raw in raws]
        return any(state in ENDED for state in states) or (len(states) == len(ids) and "pending" not in states)

    raws = poll_ec2(lambda: api.instances([{"Name": "instance-id", "Values": ids}]), settled, timeout_s=_STARTS_S)
    for raw in (raw for raw in raws if raw["State"]["Name"] in ENDED):
        code, said = _reason_of(raw), str(raw.get("StateReason", {}).get("Message", ""))
        if keys and _is_of_a_key(code):
            msg = f"EC2 could not use the key {keys} for the disks: {raw['InstanceId']} in {api.region} ended while it started ({code})"
            raise DiskKeyRefusedError(msg, hint=_needs(keys), detail=said)
        for pattern, kind in _SHORTAGES.items():
            if fnmatchcase(code, pattern):
                removal.terminate(api, ids, ids)
                msg = f"{raw['InstanceId']} in {api.region} ended while it started: {sentence(said) or code}"
                raise kind(msg, hint="try again later, or add another zone, region or instance type to the profile's places", detail=code)
