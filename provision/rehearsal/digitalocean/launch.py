"""Making droplets: what DigitalOcean refuses, and what a droplet looks like."""

import re
import time
from collections.abc import Iterator
from typing import Any, Final

from provision.rehearsal.digitalocean import guests, networks, offers, quota
from provision.rehearsal.digitalocean.offers import OfferedSize
from provision.rehearsal.digitalocean.refusals import DropletApiError, not_implemented, unprocessable
from provision.rehearsal.digitalocean.world import Answer, DropletCall, DropletState, DropletWorld, Handler, now

_MOST_NAMES: Final = 10  # the document: "Up to ten Droplets may be created this way at a time."
_MOST_USER_DATA: Final = 64 * 1024  # the document: "may not exceed 64 KiB"
_TAG: Final = re.compile(r"[a-zA-Z0-9_:-]{1,255}")  # the schema `tags.models.tags` of the document
_WITH_DRIVER: Final = "gpu-"  # the AI/ML images, which have no password for root either: from memory
_BEYOND: Final = ("backup_policy", "private_networking")


def is_tag(name: str) -> bool:
    """Whether a tag may be called so."""
    return bool(_TAG.fullmatch(name))


def _size_and_region(world: DropletWorld, body: dict[str, Any], count: int) -> tuple[OfferedSize, str]:
    """The size, and where: a region, one of several with the same beginning, or any that has it; capacity is no other refusal."""
    size = offers.size_named(body["size"])
    if size is None:
        raise unprocessable("You specified an invalid size for Droplet creation.")
    wanted = body.get("region", "")
    candidates = [slug for slug in offers.region_slugs() if slug.startswith(wanted)]
    if not candidates:
        raise unprocessable("You specified an invalid region for Droplet creation.")
    fitting = [slug for slug in candidates if slug in offers.regions_of(world, size)]
    if size.model:
        fitting = [slug for slug in fitting if quota.room(world, slug) >= count]
    if not fitting:
        raise unprocessable("Size is not available in this region.")
    return size, fitting[0]


def _keys(world: DropletWorld, wanted: list[Any]) -> Iterator[str]:
    for name in wanted:
        key = next((k for k in world.keys.values() if str(name) in {str(k["id"]), k["fingerprint"]}), None)
        if key is None:
            raise unprocessable(f"{name} are invalid key identifiers for Droplet creation.")
        yield key["public_key"]


def _network(world: DropletWorld, body: dict[str, Any], region: str) -> str:
    """The VPC: the one of the request, which must be in the region, or the region's default."""
    wanted = body.get("vpc_uuid")
    if wanted is None:
        return next(str(vpc["id"]) for vpc in world.vpcs.values() if vpc["region"] == region and vpc["default"])
    vpc = world.vpcs.get(wanted)
    if vpc is None or vpc["region"] != region:
        raise unprocessable("Failed to resolve VPC: the VPC cannot be found in this region.")
    return str(wanted)


def _volumes(world: DropletWorld, body: dict[str, Any], region: str, count: int) -> list[str]:
    wanted = body.get("volumes", [])
    for name in wanted:
        volume = world.volumes.get(name)
        if volume is None or volume["region"]["slug"] != region:
            raise unprocessable("Volume cannot be found in this region.")
        if volume["droplet_ids"] or count > 1:
            raise unprocessable("Volume is already attached to a Droplet.")
    return list(wanted)


def _check(world: DropletWorld, body: dict[str, Any], count: int) -> None:
    if world.settings.do_account_status == "locked":
        raise DropletApiError(403, "Your account is locked.")
    beyond = sorted(field for field in _BEYOND if body.get(field))
    if beyond:
        raise not_implemented("droplets_create", beyond)
    if not 0 < count <= _MOST_NAMES:
        raise unprocessable(f"Between 1 and {_MOST_NAMES} names may be given.")
    if len(body.get("user_data", "").encode()) > _MOST_USER_DATA:
        raise unprocessable("User data is too long: it may not exceed 64 KiB.")
    if not body.get("public_networking", True) and body.get("ipv6"):
        raise unprocessable("ipv6 must be false where public_networking is.")
    for tag in body.get("tags") or []:
        if not is_tag(tag):
            raise unprocessable(f"Tag {tag!r} may have letters, digits, colons, dashes and underscores, 255 at most.")
    quota.check_count(world, count)


def _create(call: DropletCall) -> Answer:
    """One droplet, or several that are alike; whatever is refused, nothing is made."""
    world, body = call.world, call.body
    names = body["names"] if "names" in body else [body["name"]]
    _check(world, body, len(names))
    size, region = _size_and_region(world, body, len(names))
    image = offers.image_named(world, body["image"])
    if image is None:
        raise unprocessable("You specified an invalid image for Droplet creation.")
    if not offers.is_in(image, region):
        more = "you can transfer it to this region from the images pages."
        raise unprocessable(f"The image you specified is not available in the selected region, {more}")
    if (image["slug"] or "").startswith(_WITH_DRIVER) and not body.get("ssh_keys"):
        raise unprocessable("The image needs an SSH key of the team.")
    if image["min_disk_size"] > size.disk_gb:
        raise unprocessable("The image is larger than the disk of this size.")
    same = {
        "region": region,
        "gpu": bool(size.model),
        "user_data": body.get("user_data", ""),
        "keys": tuple(_keys(world, body.get("ssh_keys", []))),
        "public": body.get("public_networking", True),
    }
    plain = {"image": image, "volume_ids": _volumes(world, body, region, len(names)), "vpc_uuid": _network(world, body, region)}
    made = [_make(world, body, {"name": name, **plain}, size, same) for name in names]
    links = {"actions": [{"id": d.event, "rel": "create", "href": f"{call.base}/{d.id}/actions/{d.event}"} for d in made]}
    views = [guests.view(world, droplet) for droplet in made]
    return 202, {"droplets": views, "links": links} if "names" in body else {"droplet": views[0], "links": links}


def _make(world: DropletWorld, body: dict[str, Any], plain: dict[str, Any], size: OfferedSize, same: dict[str, Any]) -> DropletState:
    wanted = {"droplet_agent": body.get("with_droplet_agent", True), "monitoring": body.get("monitoring"), "ipv6": body.get("ipv6")}
    shown = {
        "id": next(world.numbers),
        "memory": int(size.memory_gb * 1024),
        "vcpus": size.vcpus,
        "disk": size.disk_gb,
        "disk_info": offers.disks(size),
        "locked": False,  # not by events any more: digitalocean/droplet_kit#218
        "status": "new",
        "kernel": None,  # it boots the one on its disk
        "created_at": now(),
        "features": [*(name for name, given in wanted.items() if given), "private_networking"],
        "backup_ids": [],
        "next_backup_window": None,
        "snapshot_ids": [],
        "size_slug": size.slug,
        "networks": {"v4": [], "v6": []},
        "tags": [],
        **plain,
        **offers.gpus(size),
    }
    droplet = DropletState(shown=shown, created=time.monotonic(), **same)
    world.droplets[droplet.id] = droplet
    for volume in shown["volume_ids"]:
        world.volumes[volume]["droplet_ids"] = [droplet.id]
    _tag_later(world, droplet, body.get("tags") or [])
    ends, host = world.settings.do_create_ends, shown["name"].partition(".")[0]
    _begin(world, droplet, ends.get(droplet.region) or ends.get(host, ""))
    return droplet


def _begin(world: DropletWorld, droplet: DropletState, ends: str) -> None:
    """Begin the create. Where it fails, DigitalOcean has accepted it long since, and gives no reason."""

    def vanish() -> None:
        with world.lock:
            guests.erase(world, droplet)

    finish = {"": lambda: guests.activate(world, droplet), "gone": vanish, "errored": lambda: None, "new": lambda: None}[ends]
    ending = "errored" if ends else "completed"
    world.begin(droplet, "create", None if ends == "new" else world.settings.do_active_s, finish, ending=ending)
    if not ends:
        guests.arrive(world, droplet)


def _tag_later(world: DropletWorld, droplet: DropletState, tags: list[str]) -> None:
    """Tags come "after it is created", as the document says: until then only the name tells whose it is, and no firewall of a tag holds."""

    def apply() -> None:
        with world.lock:
            if world.droplets.get(droplet.id) is not droplet:  # it was removed meanwhile
                return
            before = droplet.shown["tags"]
            droplet.shown["tags"] = list(dict.fromkeys([*before, *map(world.tag, tags)]))
            networks.join(world, droplet, before)
            networks.protect(world)

    late_s = world.late_s(droplet.id, "tags", world.settings.do_tags_s)
    if late_s:
        world.timers.after(late_s, apply)
    else:
        apply()


HANDLERS: Final[dict[str, Handler]] = {"droplets_create": _create}
