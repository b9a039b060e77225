"""One machine: described, waited for, stopped, started, and its time limit moved."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any, Final

from provision.clouds import base
from provision.clouds.gcp.answers import instance_of, tags_of
from provision.clouds.gcp.api import GcpApi, at_once, poll
from provision.clouds.gcp.errors import GoneError
from provision.clouds.gcp.requests import TAGS_ITEM, check_limit, scheduling
from provision.errors import CloudInvalidError, InstanceLostError

_CHANGED_S: Final = 60.0


def described(api: GcpApi, instance: base.Instance) -> Any | None:
    """The instance as GCE describes it; None when it is gone."""
    try:
        return api.call("Instances", "get", "compute.instances.get", where=instance.zone, zone=instance.zone, instance=instance.id)
    except GoneError:
        return None


def _ours(api: GcpApi, instance: base.Instance) -> base.Instance | None:
    """The instance now; None when it is gone, or when another launch has its name."""
    raw = described(api, instance)
    now = instance_of(raw) if raw is not None else None
    return now if now and now.launch_id == instance.launch_id else None


def until_running(api: GcpApi, instance: base.Instance, *, timeout_s: float) -> base.Instance:
    """The instance when it runs and has an address.

    Raises:
        InstanceLostError: it is gone or stopped, or time is up.
    """

    def settled(now: base.Instance | None) -> bool:
        return now is None or now.state in {"stopping", "stopped", "shutting-down"} or (now.state == "running" and bool(now.address))

    now = poll(lambda: _ours(api, instance), settled, timeout_s=timeout_s)
    if now is not None and now.state == "running" and now.address:
        return now
    raise _lost(instance, "come up", now)


def _lost(instance: base.Instance, wanted: str, now: base.Instance | None) -> InstanceLostError:
    state = now.state if now else "gone"
    msg = f"instance {instance.id} did not {wanted} in {instance.zone}: it is {state}"
    return InstanceLostError(msg, hint=f"`gpuprov ls` shows what it is now; `gpuprov down {instance.group}` removes it")


def _until_stopped(api: GcpApi, instance: base.Instance, *, timeout_s: float) -> None:
    now = poll(lambda: _ours(api, instance), lambda now: now is None or now.state != "stopping", timeout_s=timeout_s)
    if now is None or now.state != "stopped":
        raise _lost(instance, "stop", now)


def stop(api: GcpApi, instance: base.Instance, *, timeout_s: float) -> None:
    """Stop it and wait until it is stopped."""
    raw = described(api, instance)
    if raw is not None and instance_of(raw).state not in {"stopping", "stopped"}:
        # GCE refuses to stop a machine with local SSDs unless it is told that their content may go.
        local = {"discard_local_ssd": True} if any(disk.type_ == "SCRATCH" for disk in raw.disks) else {}
        action, asked = "compute.instances.stop", {"zone": instance.zone, "instance": instance.id, **local}
        api.done("Instances", "stop_unary", action, timeout_s=timeout_s, where=instance.zone, **asked)
    _until_stopped(api, instance, timeout_s=timeout_s)


def start(api: GcpApi, instance: base.Instance, *, timeout_s: float) -> base.Instance:
    """Start it if it is stopped, and wait until it runs.

    Raises:
        CloudInvalidError: its deadline is over, or about to be.
    """
    now = _ours(api, instance)
    if now is None:
        raise _lost(instance, "start", now)
    if now.state == "stopping":
        _until_stopped(api, now, timeout_s=timeout_s)
    if now.state in {"stopping", "stopped"}:
        if now.deadline:
            check_limit(dt.datetime.fromisoformat(now.deadline))
        asked = {"zone": now.zone, "instance": now.id}
        api.done("Instances", "start_unary", "compute.instances.start", timeout_s=timeout_s, where=now.zone, **asked)
    return until_running(api, instance, timeout_s=timeout_s)


def _limit(api: GcpApi, instance: base.Instance, deadline: dt.datetime) -> None:
    asked = {"zone": instance.zone, "instance": instance.id, "scheduling_resource": scheduling(instance.market, deadline)}
    action = "compute.instances.setScheduling"
    api.done("Instances", "set_scheduling_unary", action, timeout_s=_CHANGED_S, where=instance.zone, **asked)


def extend(api: GcpApi, instances: Sequence[base.Instance], deadline: dt.datetime) -> None:
    """Move the time limit and the tag of stopped machines.

    setScheduling is for stopped instances only (its reference: "You can only call this method on a stopped instance";
    terraform-provider-google stops a machine whose max_run_duration changes).

    Raises:
        CloudInvalidError: one is not stopped; nothing was changed.
    """
    check_limit(deadline)
    now = dict(zip(instances, at_once(lambda i: described(api, i), instances), strict=True))
    running = [i for i, raw in now.items() if raw is None or instance_of(raw).state != "stopped"]
    if running:
        names = ", ".join(i.name for i in running)
        msg = f"GCP moves the time limit of a stopped machine only, and {names} is not stopped"
        group = running[0].group
        raise CloudInvalidError(msg, hint=f"`gpuprov stop {group}`, then this command again, then `gpuprov start {group}`")

    def move(pair: tuple[base.Instance, Any]) -> None:
        instance, raw = pair
        _limit(api, instance, deadline)
        value = deadline.astimezone(dt.UTC).isoformat(timespec="seconds")
        tags = json.dumps({**tags_of(raw), base.DEADLINE_TAG: value}, sort_keys=True)
        items = [{"key": i.key, "value": i.value} for i in raw.metadata.items if i.key != TAGS_ITEM]
        body = {"fingerprint": raw.metadata.fingerprint, "items": [*items, {"key": TAGS_ITEM, "value": tags}]}
        asked = {"zone": instance.zone, "instance": instance.id, "metadata_resource": body}
        action = "compute.instances.setMetadata"
        api.done("Instances", "set_metadata_unary", action, timeout_s=_CHANGED_S, where=instance.zone, **asked)

    at_once(move, now.items())
