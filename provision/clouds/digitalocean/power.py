"""Droplets as they are now: waited for, switched off and on, and their tags changed."""

import datetime as dt
import time
from typing import Any, Final

from provision.clouds import base
from provision.clouds.digitalocean import requests
from provision.clouds.digitalocean.answers import instance_of, is_tagged
from provision.clouds.digitalocean.api import DigitalOceanApi
from provision.clouds.digitalocean.errors import NotThereError, PendingEventError
from provision.clouds.polling import poll
from provision.errors import CapacityError, InstanceLostError

_ENDED: Final = {"stopped", "terminated"}
_OBEYS_S: Final = 60.0  # a droplet that does not shut down by then is switched off
_STARTS_S: Final = 600.0  # DigitalOcean takes about a minute
_UNSEEN_S: Final = 10.0  # a new droplet may not be found yet: hashicorp/terraform#481
_TAGS_S: Final = 15.0  # by then tags that the create brought are there, or never


def raw_of(api: DigitalOceanApi, instance: base.Instance) -> Any | None:
    """The droplet as DigitalOcean describes it; None when it is gone."""
    try:
        return api.call("droplets_get", where=instance.region, droplet=instance.id)["droplet"]
    except NotThereError:
        return None


def check_made(api: DigitalOceanApi, instance: base.Instance, action: int | None) -> None:
    """Wait until DigitalOcean has made a droplet: it accepts a create before it knows whether it can, and gives no reason later.

    Its create event fails (ansible-collections/community.digitalocean#150), or the droplet is gone (digitalocean/api-v2#90).

    Args:
        api: of the team.
        instance: as the create's answer has it.
        action: the create's, where its answer was read here.

    Raises:
        CapacityError: it made none.
    """
    unseen_until = time.monotonic() + _UNSEEN_S

    def state() -> str:
        raw = raw_of(api, instance)
        if raw is None or raw["status"] != "new" or action is None:
            return "gone" if raw is None else str(raw["status"])
        created = api.call("dropletActions_get", where=instance.region, droplet=instance.id, event=action)["action"]
        return "errored" if created["status"] == "errored" else "new"

    def settled(now: str) -> bool:
        return now not in {"new", "gone"} or (now == "gone" and time.monotonic() >= unseen_until)

    found = poll(state, settled, timeout_s=_STARTS_S)
    if found in {"gone", "errored", "new"}:
        msg = f"DigitalOcean accepted droplet {instance.id} in {instance.region} and did not make it: it is {found}"
        raise CapacityError(msg, hint="try again later, or add another region or size to the profile's places")


def until_running(api: DigitalOceanApi, instance: base.Instance, *, timeout_s: float) -> base.Instance:
    """Wait until the droplet is active and has its address and its tags, without which no firewall is for it.

    Raises:
        InstanceLostError: it is gone or off, or the time is up.
    """

    def settled(raw: Any | None) -> bool:
        now = instance_of(raw) if raw is not None else None
        return now is None or now.state in _ENDED or (now.state == "running" and bool(now.address))

    raw = poll(lambda: raw_of(api, instance), settled, timeout_s=timeout_s)
    if raw is not None and not is_tagged(raw):
        raw = poll(lambda: raw_of(api, instance), lambda now: now is None or is_tagged(now), timeout_s=_TAGS_S)
    now = instance_of(raw) if raw is not None else None
    if now is None or now.state != "running" or not now.address:
        raise _lost(instance, "come up", now)
    if not is_tagged(raw):
        raise _lost(instance, "get its tags, so that no firewall is for it", now)
    return now


def _lost(instance: base.Instance, what: str, now: base.Instance | None) -> InstanceLostError:
    state = now.state if now else "gone"
    msg = f"droplet {instance.id} did not {what} in {instance.region}: it is {state}"
    hint = f"`gpuprov ls` shows what it is now; `gpuprov down {instance.group}` removes it, and ends what it costs"
    return InstanceLostError(msg, hint=hint, instance_id=instance.id)


def check_alive(api: DigitalOceanApi, instance: base.Instance) -> Any:
    """The droplet, which has not ended.

    Raises:
        InstanceLostError: it has.
    """
    raw = raw_of(api, instance)
    now = instance_of(raw) if raw is not None else None
    if now is None or now.state in _ENDED:
        raise _lost(instance, "come up", now)
    return raw


def _act(api: DigitalOceanApi, instance: base.Instance, kind: str, wanted: base.State, *, timeout_s: float) -> base.Instance | None:
    """Do something to a droplet as soon as nothing else is being done to it, and look until it is as wanted or the time is up."""
    ends = time.monotonic() + timeout_s

    def accepted() -> bool:
        try:
            api.call("dropletActions_post", where=instance.region, body={"type": kind}, droplet=instance.id)
        except PendingEventError:
            return False
        return True

    def look() -> base.Instance | None:
        raw = raw_of(api, instance)
        return instance_of(raw) if raw is not None else None

    poll(accepted, bool, timeout_s=timeout_s)
    return poll(look, lambda now: now is None or now.state == wanted, timeout_s=max(ends - time.monotonic(), 0.0))


def stop(api: DigitalOceanApi, instance: base.Instance, *, timeout_s: float) -> None:
    """Shut it down and wait until it is off; one that does not obey is switched off. It is billed on."""
    raw = raw_of(api, instance)
    now = instance_of(raw) if raw is not None else None
    if now is not None and now.state == "running":
        now = _act(api, instance, "shutdown", "stopped", timeout_s=min(_OBEYS_S, timeout_s))
        if now is not None and now.state == "running":
            now = _act(api, instance, "power_off", "stopped", timeout_s=timeout_s)
    if now is None or now.state != "stopped":
        raise _lost(instance, "stop", now)


def start(api: DigitalOceanApi, instance: base.Instance, *, timeout_s: float) -> base.Instance:
    """Switch it on if it is off, and wait until it runs."""
    raw = raw_of(api, instance)
    if raw is not None and instance_of(raw).state == "stopped":
        _act(api, instance, "power_on", "running", timeout_s=timeout_s)
    return until_running(api, instance, timeout_s=timeout_s)


def put_tags(api: DigitalOceanApi, instance: base.Instance, names: list[str]) -> None:
    """Put tags on a droplet."""
    for name in names:
        api.call("tags_create", body={"name": name})
        api.call("tags_assign_resources", body=_resource(instance), tag=name)


def take_tags(api: DigitalOceanApi, instance: base.Instance, names: list[str]) -> None:
    """Take tags off a droplet."""
    for name in names:
        api.call("tags_unassign_resources", body=_resource(instance), tag=name)


def _resource(instance: base.Instance) -> dict[str, Any]:
    return {"resources": [{"resource_id": instance.id, "resource_type": "droplet"}]}


def extend(api: DigitalOceanApi, instance: base.Instance, deadline: dt.datetime) -> None:
    """Move the tag of the deadline; the timer on the host is the caller's to move."""
    raw = check_exists(api, instance)
    tag = requests.deadline_tag(instance.launch_id, requests.moment(deadline))
    old = [name for name in raw["tags"] if name.startswith(f"{base.DEADLINE_TAG}:") and name != tag]
    put_tags(api, instance, [tag])
    take_tags(api, instance, old)


def check_exists(api: DigitalOceanApi, instance: base.Instance) -> Any:
    """The droplet.

    Raises:
        InstanceLostError: it is gone.
    """
    raw = raw_of(api, instance)
    if raw is None:
        raise _lost(instance, "stay", None)
    return raw
