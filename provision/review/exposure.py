"""The part of a review that is about the cloud: places, prices, disks, doors, calls and permissions, taken from the plan."""

import ipaddress
from collections.abc import Iterator
from typing import Final

from provision import clouds
from provision.catalog import read
from provision.clouds.userdata import MOTD, Downloads
from provision.converge.declared import Change
from provision.errors import counted
from provision.host.way import phrase
from provision.launch.ahead import downloads
from provision.launch.plan import Plan, PlannedDisk, PlannedDoor, PlannedPlace
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.report.plan import price_note
from provision.review.tree import CallItem, DiskItem, DoorItem, Money, PlaceItem

_BESIDE: Final = "traffic, whose price is not in the catalog"


def places(plan: Plan) -> tuple[PlaceItem, ...]:
    """Every place with its price, in the order in which `up` tries them."""
    return tuple(_place(plan, place) for place in plan.places)


def _place(plan: Plan, place: PlannedPlace) -> PlaceItem:
    hourly = place.price.usd_per_hour if place.price else None
    gpu = plan.profile.gpu
    return PlaceItem(
        cloud=place.cloud,
        region=place.location,
        instance_type=place.place.instance_type,
        market=place.place.market,
        gpus=f"{gpu.count} x {read.gpu(gpu.model).name}",
        image=place.image,
        image_id=place.image_id,
        usd_per_hour=hourly,
        usd_to_deadline=None if hourly is None else round(hourly * plan.profile.limits.deadline_h, 2),
        price_source=price_note(place),
        price_whole=place.price is None or place.price.whole,
        passed_over=str(place.refusal) if place.refusal else "",
        image_about=place.image_about,
    )


def money(plan: Plan) -> Money:
    """What it costs. There is a ceiling only if every price is known, because an unknown price cannot be limited."""
    ceiling = plan.ceiling
    billed = dict.fromkeys(clouds.provider(place.cloud).stopped_costs for place in plan.candidates)
    after = [f"what it costs from the deadline until it is removed: {why}" for why in billed if why]
    return Money(
        limit_usd_per_hour=ceiling.limit_per_hour,
        deadline_h=plan.profile.limits.deadline_h,
        limit_to_deadline_usd=ceiling.limit_to_deadline,
        ceiling_usd=ceiling.to_deadline,
        lowest_usd_per_hour=ceiling.lowest_per_hour,
        highest_usd_per_hour=ceiling.highest_per_hour,
        unknown_places=ceiling.unknown_places,
        machines=plan.profile.limits.machines,
        beside="; ".join([_BESIDE, *after]),
    )


def disks(plan: Plan) -> tuple[DiskItem, ...]:
    """The disks of each instance."""
    doubtful = any(clouds.provider(place.cloud).boot_disk_doubt for place in plan.places)
    return tuple(_disk(disk, "not known" if doubtful else "by the cloud") for disk in plan.disks)


def _disk(disk: PlannedDisk, root: str) -> DiskItem:
    if disk.kind == "root":
        return DiskItem("root volume", disk.size_gb, root, "/", "as in the image", "removed with the instance")
    if disk.kind == "volume":
        return DiskItem("data volume", disk.size_gb, "by the cloud", disk.mount, disk.filesystem, "removed with the instance")
    lifetime = "emptied by each stop; removed with the instance"
    return DiskItem("disk inside the machine", None, "by the machine's own hardware", disk.mount, disk.filesystem, lifetime)


def doors(plan: Plan) -> tuple[DoorItem, ...]:
    """The connections that the security group allows; none in where the way in needs no open port, and none at all without a launch."""
    if not plan.places:
        return ()
    doors_in = [DoorItem("in", "22/tcp (SSH)", door.network, _meaning(door)) for door in plan.doors]
    return (
        *doors_in,
        DoorItem("out", "every port", "everywhere", "no rule limits outgoing connections, and the cloud's default allows all of them"),
    )


def addresses_in(network: str) -> int:
    """How many addresses a network has."""
    return 1 if network == "caller" else ipaddress.ip_network(network).num_addresses


def addresses(plan: Plan) -> str:
    """Which addresses the machine has, in which network, and how it is reached."""
    network = plan.profile.network
    if not plan.places:
        return "those that the host has"
    where = f"of {network.subnet}" if network.subnet else "of the cloud's default network"
    private = network.address == "private"
    has = f"one private address {where} and no public one" if private else f"one public IPv4 address and one private one {where}"
    way = phrase(network)
    return f"{has}; reached {way}" if way else f"{has}; no DNS name"


def _meaning(door: PlannedDoor) -> str:
    if door.way is not None:
        return door.way.origin_detail
    if door.kind == "caller":
        return "the public address from which `gpuprov up` runs; everybody behind the same NAT has it too"
    count = addresses_in(door.network)
    return "one address" if count == 1 else f"{count:,} addresses" if count < 2**32 else f"{count:.0e} addresses"


def tags(plan: Plan) -> tuple[str, ...]:
    """The tags on everything that `up` creates."""
    return tuple(f"{key} = {value}" for key, value in plan.tags)


def first_boot(profile: Profile, lock: Lock) -> tuple[Change, ...]:
    """What the first boot writes from the user data of the instance, before any role runs."""
    if not profile.places:
        return ()
    hours = profile.limits.deadline_h
    effect = f"powers the machine off {hours} hours after the launch, which ends it; where the cloud holds the deadline, a little later"
    undo = "removed with the instance"
    return (
        Change("first boot", "unit", "/etc/systemd/system/gpuprov-deadline.timer", effect, undo),
        Change("first boot", "unit", "/etc/systemd/system/gpuprov-deadline.service", "the service that the timer starts", undo),
        Change("first boot", "file", MOTD, "says at each login when the machine ends, and names commands of gpuprov", undo),
        Change("first boot", "login", "the image's login user and root", "passwords and root are refused over SSH", undo),
        *_early(downloads(profile, lock)),
    )


def _early(asked: Downloads | None) -> Iterator[Change]:
    """What is downloaded before the first connection; its program is in the call that launches."""
    if asked is None or not (asked.wheels or asked.packages):
        return
    kept: list[str] = []
    if asked.wheels:
        kept.append(f"{counted(len(asked.wheels), 'wheel')} from {asked.index} by the SHA-256 of the lock, if the user data list them")
    if asked.packages:
        kept.append(f"{counted(len(asked.packages), 'package')} and what they need with apt, by the keys of the lock")
    undo = "removed by the set-up when it has installed them"
    says = f"downloads {' and '.join(kept)}, and installs nothing"
    yield Change("first boot", "unit", "gpuprov-ahead.service, for this boot alone", says, undo)


def calls(plan: Plan) -> tuple[CallItem, ...]:
    """The calls of a launch, for the first place of each cloud that would be tried."""
    return tuple(CallItem(call.cloud, call.action, call.purpose, call.parameters) for call in plan.calls)
