"""Machines of GCP as they are now: waited for, stopped, started, and their time limit moved."""

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any, Final

import tenacity

from provision.clouds import base
from provision.clouds.gcp import os_login
from provision.clouds.gcp.answers import instance_of, tags_of
from provision.clouds.gcp.api import GcpProjectApi
from provision.clouds.gcp.errors import ChangedMeanwhileError, GoneError
from provision.clouds.gcp.requests import TAGS_ITEM, check_limit, scheduling
from provision.clouds.polling import poll
from provision.clouds.refusals import sentence
from provision.concurrent import at_once
from provision.errors import CapacityError, CloudInvalidError, InstanceLostError

_CHANGED_S: Final = 60.0
_WAITS: Final = "PENDING"
ENDED: Final = {"stopping", "stopped", "shutting-down"}
"""The states of a machine that does not come up any more by itself."""
_MOST_WRITES: Final = 5


def raw_of(api: GcpProjectApi, instance: base.Instance) -> Any | None:
    """The instance as GCE describes it; None when it is gone."""
    try:
        return api.call("Instances", "get", "compute.instances.get", where=instance.zone, zone=instance.zone, instance=instance.id)
    except GoneError:
        return None


def _now(api: GcpProjectApi, instance: base.Instance) -> base.Instance | None:
    """The instance now; None when it is gone, or when another launch has its name."""
    raw = raw_of(api, instance)
    current = instance_of(raw) if raw is not None else None
    return current if current and current.launch_id == instance.launch_id else None


def _change(api: GcpProjectApi, instance: base.Instance, method: str, action: str, *, timeout_s: float, **request: Any) -> None:
    """Make a call that changes the instance, and wait until it has."""
    target = {"zone": instance.zone, "instance": instance.id, **request}
    api.run("Instances", f"{method}_unary", f"compute.instances.{action}", timeout_s=timeout_s, where=instance.zone, **target)


def got_room(api: GcpProjectApi, instance: base.Instance, *, timeout_s: float) -> bool:
    """Wait while a flex-start machine waits for room, and return whether it got some; Compute Engine deletes one that did not.

    Source: docs.cloud.google.com/compute/docs/instances/instance-lifecycle, PENDING.
    """
    raw = poll(lambda: raw_of(api, instance), lambda raw: raw is None or raw.status != _WAITS, timeout_s=timeout_s)
    return raw is not None and raw.status != _WAITS


def until_running(api: GcpProjectApi, instance: base.Instance, *, timeout_s: float) -> base.Instance:
    """Wait until the instance runs and has an address.

    Raises:
        InstanceLostError: it is gone or stopped, or the time is up.
    """

    def settled(now: base.Instance | None) -> bool:
        return now is None or now.state in ENDED or (now.state == "running" and bool(now.address))

    now = poll(lambda: _now(api, instance), settled, timeout_s=timeout_s)
    if now is not None and now.state == "running" and now.address:
        return now
    raise _lost(api, instance, "come up", now)


def stopped(api: GcpProjectApi, instances: Sequence[base.Instance]) -> CapacityError | None:
    """The error of machines that were made without one and stop all the same, with GCE's reason; None where there are none."""
    if not instances:
        return None
    msg = f"{', '.join(i.id for i in instances)} in {instances[0].zone} stopped while it started{_why(api, instances[0])}"
    return CapacityError(msg, hint="try again later, or add another zone, region or machine type to the profile's places")


def _why(api: GcpProjectApi, instance: base.Instance) -> str:
    """What GCE says of the state of an instance, as the end of a sentence."""
    raw = raw_of(api, instance)
    return f": {sentence(raw.status_message)}" if raw is not None and raw.status_message else ""


def _lost(api: GcpProjectApi, instance: base.Instance, what: str, now: base.Instance | None) -> InstanceLostError:
    state = f"{now.state}{_why(api, instance)}" if now else "gone"
    msg = f"instance {instance.id} did not {what} in {instance.zone}: it is {state}"
    hint = f"`gpuprov ls` shows what it is now; `gpuprov down {instance.group}` removes it"
    return InstanceLostError(msg, hint=hint, instance_id=instance.id)


def check_alive(api: GcpProjectApi, instance: base.Instance) -> None:
    """See that the instance has not ended.

    Raises:
        InstanceLostError: it has.
    """
    now = _now(api, instance)
    if now is None or now.state in ENDED:
        raise _lost(api, instance, "come up", now)


def _until_stopped(api: GcpProjectApi, instance: base.Instance, *, timeout_s: float) -> None:
    now = poll(lambda: _now(api, instance), lambda now: now is None or now.state != "stopping", timeout_s=timeout_s)
    if now is None or now.state != "stopped":
        raise _lost(api, instance, "stop", now)


def stop(api: GcpProjectApi, instance: base.Instance, *, timeout_s: float) -> None:
    """Stop it and wait until it is stopped."""
    raw = raw_of(api, instance)
    if raw is not None and instance_of(raw).state not in {"stopping", "stopped"}:
        # GCE stops a machine with local SSDs only if the call says that their content may be lost.
        local = {"discard_local_ssd": True} if any(disk.type_ == "SCRATCH" for disk in raw.disks) else {}
        _change(api, instance, "stop", "stop", timeout_s=timeout_s, **local)
    _until_stopped(api, instance, timeout_s=timeout_s)


def start(api: GcpProjectApi, instance: base.Instance, *, timeout_s: float) -> base.Instance:
    """Start it if it is stopped, and wait until it runs.

    Raises:
        CloudInvalidError: its deadline is over, or nearly so.
    """
    now = _now(api, instance)
    if now is None:
        raise _lost(api, instance, "start", now)
    if now.state == "stopping":
        _until_stopped(api, now, timeout_s=timeout_s)
    if now.state in {"stopping", "stopped"}:
        if now.deadline:
            check_limit(dt.datetime.fromisoformat(now.deadline))
        _change(api, now, "start", "start", timeout_s=timeout_s)
    return until_running(api, instance, timeout_s=timeout_s)


def extend(api: GcpProjectApi, instances: Sequence[base.Instance], deadline: dt.datetime) -> None:
    """Move the time limit and the tag of stopped machines.

    setScheduling is for stopped instances only (its reference: "You can only call this method on a stopped instance";
    terraform-provider-google stops a machine whose max_run_duration changes).

    Raises:
        CloudInvalidError: one is not stopped; nothing was changed.
    """
    check_limit(deadline)
    raws: dict[base.Instance, Any] = dict(zip(instances, at_once(lambda i: raw_of(api, i), instances), strict=True))
    running = [i for i, raw in raws.items() if raw is None or instance_of(raw).state != "stopped"]
    if running:
        names, group = ", ".join(i.name for i in running), running[0].group
        msg = f"GCP moves the time limit of stopped machines only, and {names} is not stopped"
        raise CloudInvalidError(msg, hint=f"`gpuprov stop {group}`, then this command again, then `gpuprov start {group}`")

    def move(instance: base.Instance) -> None:
        limit = scheduling(instance.market, deadline)
        _change(api, instance, "set_scheduling", "setScheduling", timeout_s=_CHANGED_S, scheduling_resource=limit)
        if key := os_login.key_of(tags_of(raws[instance])):
            os_login.extend(api, key, deadline)
        # Whoever else writes metadata meanwhile makes the fingerprint an old one: it is read again, with what that one wrote.
        tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(ChangedMeanwhileError), stop=tenacity.stop_after_attempt(_MOST_WRITES), reraise=True
        )(write, instance)

    def write(instance: base.Instance) -> None:
        raw = raw_of(api, instance)
        if raw is None:
            raise _lost(api, instance, "stay", None)
        value = deadline.astimezone(dt.UTC).isoformat(timespec="seconds")
        tags = json.dumps({**tags_of(raw), base.DEADLINE_TAG: value}, sort_keys=True)
        items = [{"key": i.key, "value": i.value} for i in raw.metadata.items if i.key != TAGS_ITEM]
        body = {"fingerprint": raw.metadata.fingerprint, "items": [*items, {"key": TAGS_ITEM, "value": tags}]}
        _change(api, instance, "set_metadata", "setMetadata", timeout_s=_CHANGED_S, metadata_resource=body)

    at_once(move, instances)
