"""Volumes of the embedded DigitalOcean, which outlive the droplets that they are attached to."""

import re
from typing import Any, Final

from provision.rehearsal.digitalocean import offers
from provision.rehearsal.digitalocean.refusals import DropletApiError, not_found, not_implemented, pending, unprocessable
from provision.rehearsal.digitalocean.world import Answer, DropletCall, Handler, new_uuid, now

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,63}")  # the document: "lowercase letters, numbers and -, must begin with a letter", 64 at most
_MOST_GB: Final = 16 * 1024  # the document: "The maximum size for a volume is 16TiB."


def _create(call: DropletCall) -> Answer:
    body, world = call.body, call.world
    if "snapshot_id" in body:
        raise not_implemented("volumes_create", ["snapshot_id"])
    if not offers.is_region(body["region"]):
        raise unprocessable("region is not valid")
    if not _NAME.fullmatch(body["name"]):
        raise unprocessable("volume name must be lowercase alphanumeric and dashes, and begin with a letter")
    if not 0 < body["size_gigabytes"] <= _MOST_GB:
        raise unprocessable("invalid volume size")
    if any((v["name"], v["region"]["slug"]) == (body["name"], body["region"]) for v in world.volumes.values()):
        raise DropletApiError(409, "a volume with that name already exists in the region")
    limit = world.settings.do_volume_limit
    if limit is not None and len(world.volumes) >= limit:
        raise DropletApiError(403, "failed to create volume: volume/snapshot capacity limit exceeded")
    number = new_uuid()
    volume = {
        "id": number,
        "region": offers.region(world, body["region"]),
        "droplet_ids": [],
        "name": body["name"],
        "description": body.get("description", ""),
        "size_gigabytes": body["size_gigabytes"],
        "filesystem_type": body.get("filesystem_type", ""),
        "filesystem_label": body.get("filesystem_label", ""),
        "created_at": now(),
        "tags": [world.tag(tag) for tag in body.get("tags") or []],
    }
    world.volumes[number] = volume
    return 201, {"volume": volume}


def _volume(call: DropletCall) -> dict[str, Any]:
    volume = call.world.volumes.get(str(call.path["volume_id"]))
    if volume is None:
        raise not_found()
    return volume


def _list(call: DropletCall) -> Answer:
    found = list(call.world.volumes.values())
    if "name" in call.query:
        found = [volume for volume in found if volume["name"] == call.query["name"]]
    if "region" in call.query:
        found = [volume for volume in found if volume["region"]["slug"] == call.query["region"]]
    return call.listed("volumes", found)


def _delete(call: DropletCall) -> Answer:
    volume = _volume(call)
    if volume["droplet_ids"]:
        raise DropletApiError(409, "failed to delete volume: the volume is attached to a Droplet")
    del call.world.volumes[volume["id"]]
    return 204, None


def _act(call: DropletCall) -> Answer:
    """Attach and detach; a host of the rehearsal takes a volume only when it is made, so that with one the others are refused."""
    world, volume, kind = call.world, _volume(call), call.body["type"]
    if kind not in {"attach", "detach"}:
        raise not_implemented(f"the volume action {kind}")
    droplet = world.droplet(call.body["droplet_id"])
    if droplet.event:
        raise pending()
    if world.park:
        raise not_implemented(f"the volume action {kind} of a droplet that has a host: name the volume when the droplet is made")
    attached = volume["droplet_ids"] == [droplet.id]
    if (kind == "attach" and volume["droplet_ids"]) or (kind == "detach" and not attached):
        raise unprocessable("Attachment not found" if kind == "detach" else "Volume is already attached to a Droplet.")
    if volume["region"]["slug"] != droplet.region:
        raise unprocessable("Volume and Droplet must be in the same region.")
    volume["droplet_ids"] = [droplet.id] if kind == "attach" else []
    ids = droplet.shown["volume_ids"]
    droplet.shown["volume_ids"] = [*ids, volume["id"]] if kind == "attach" else [v for v in ids if v != volume["id"]]
    action = world.begin(droplet, f"{kind}_volume", world.settings.do_action_s, lambda: None)
    return 202, {"action": {**action, "resource_type": "backend"}}


HANDLERS: Final[dict[str, Handler]] = {
    "volumes_create": _create,
    "volumes_list": _list,
    "volumes_get": lambda call: (200, {"volume": _volume(call)}),
    "volumes_delete": _delete,
    "volumeActions_post_byId": _act,
}
