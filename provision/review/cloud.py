"""The part of a review that the cloud makes: places, prices, disks, doors, calls and permissions. Nothing is asked of anybody."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import Any, Final

from provision.catalog import places, read
from provision.clouds import CLOUDS, base
from provision.clouds import permissions as needed
from provision.clouds.aws.permissions import policy
from provision.converge.declared import Change
from provision.host.way import permissions as way_in
from provision.host.way import phrase
from provision.launch import place as placing
from provision.launch.journal import Pending, Record
from provision.launch.place import Option
from provision.profile import load as profiles
from provision.profile.locked import Lock, LockedPlace
from provision.profile.model import AwsPlace, GcpPlace, Profile
from provision.profile.network import IAP_RANGE
from provision.review.tree import CallItem, DiskItem, DoorItem, Money, PermissionItem, PlaceItem

__all__ = ["addresses", "addresses_in", "calls", "disks", "doors", "first_boot", "money", "permissions", "places_of", "tags"]

# A moment that stands for the deadline where a request is shown: it is replaced by words.
_ONCE: Final = "2000-01-01T00:00:00+00:00"
_ONCE_WORDS: Final = "2000-01-01 00:00:00 UTC"
_LAUNCH: Final = "<launch>"  # as long as what names take of it
_BESIDE: Final = "disks, public addresses and traffic are billed beside it, and their prices are not in the catalogue"


def places_of(profile: Profile, lock: Lock) -> tuple[PlaceItem, ...]:
    """Every place with its price, in the order in which they are tried."""
    by_key = {(p.cloud, p.region, p.instance_type, p.market): p for p in lock.places}
    return tuple(
        _place(profile, place, where, by_key[place.cloud, where, place.instance_type, place.market])
        for place in profile.places
        for where in (place.regions if isinstance(place, AwsPlace) else place.zones)
    )


def _place(profile: Profile, place: AwsPlace | GcpPlace, where: str, locked: LockedPlace) -> PlaceItem:
    price = _price(place, where)
    hourly = price.usd_per_hour if price else None
    passed = locked.not_available
    if not passed and place.cloud not in CLOUDS:
        passed = f"launching on {place.cloud} is not part of this release"
    if not passed and price and price.whole and price.usd_per_hour > profile.limits.price_per_hour_usd:
        passed = "over the profile's price limit"
    return PlaceItem(
        cloud=place.cloud,
        region=where,
        instance_type=place.instance_type,
        market=place.market,
        gpus=f"{profile.gpu.count} x {read.gpu(profile.gpu.model).name}",
        image=locked.image,
        image_id=locked.image_id,
        usd_per_hour=hourly,
        usd_to_deadline=None if hourly is None else round(hourly * profile.limits.deadline_h, 2),
        price_source=_source(price.source) if price else _no_price(place),
        price_whole=price is None or price.whole,
        passed_over=passed,
    )


def _price(place: AwsPlace | GcpPlace, where: str) -> places.Price | None:
    if place.market != "on-demand":
        return None
    if isinstance(place, AwsPlace):
        return places.aws_price(place.instance_type, where)
    region = where.rpartition("-")[0]
    offers = places.offers(gpu=place.gpu, region=region, cloud="gcp")
    fitting = next((o for o in offers if o.instance_type == place.instance_type and o.gpus == place.gpu_count), None)
    return fitting.price if fitting else None


def _no_price(place: AwsPlace | GcpPlace) -> str:
    if place.market == "spot":
        return "unknown: the price of spot machines changes by the hour"
    return "unknown: the catalogue has no price for this type there"


def _source(key: str) -> str:
    source = read.sources()[key]
    return f"{source.title} ({source.grade}, {source.date})"


def money(profile: Profile, found: tuple[PlaceItem, ...]) -> Money:
    """What it costs: a ceiling only where it is enforced, which takes a known price."""
    tried = [p for p in found if not p.passed_over]
    known = [p.usd_per_hour for p in tried if p.usd_per_hour is not None and p.price_whole]
    unknown = len(tried) - len(known)
    limit, hours = profile.limits.price_per_hour_usd, profile.limits.deadline_h
    return Money(
        limit_usd_per_hour=limit,
        deadline_h=hours,
        limit_to_deadline_usd=round(limit * hours, 2),
        ceiling_usd=None if unknown or not tried else round(limit * hours, 2),
        lowest_usd_per_hour=min(known, default=None),
        highest_usd_per_hour=max(known, default=None),
        unknown_places=unknown,
        beside=_BESIDE,
    )


def disks(profile: Profile) -> tuple[DiskItem, ...]:
    """The disks of each instance."""
    found = [DiskItem("root volume", profile.disks.root.size_gb, "by the cloud", "/", "as in the image", "removed with the instance")]
    data = profile.disks.data
    if data is not None and data.source == "volume":
        found.append(DiskItem("data volume", data.size_gb, "by the cloud", data.mount, data.filesystem, "removed with the instance"))
    elif data is not None:
        kept = "empty after each stop; gone with the instance"
        found.append(DiskItem("disk inside the machine", None, "by the machine's own hardware", data.mount, data.filesystem, kept))
    return tuple(found)


def doors(profile: Profile) -> tuple[DoorItem, ...]:
    """The rules of the security group; none that lets in where the way in needs no open port."""
    opened = [DoorItem("in", "22/tcp (SSH)", network, _meaning(network)) for network in profile.network.opens]
    return (*opened, DoorItem("out", "every port", "everywhere", "the group says nothing about it, and the cloud's default lets all out"))


def addresses_in(network: str) -> int:
    """How many addresses may open a connection."""
    return 1 if network == "caller" else ipaddress.ip_network(network).num_addresses


def addresses(profile: Profile) -> str:
    """Which addresses the machine has, where, and how it is reached."""
    network = profile.network
    where = f"of {network.subnet}" if network.subnet else "of the cloud's default network"
    has = (
        f"one private address {where} and no public one"
        if network.address == "private"
        else f"one public IPv4 address and one private one {where}"
    )
    way = phrase(network)
    return f"{has}; reached {way}" if way else f"{has}; no name"


def _meaning(network: str) -> str:
    if network == IAP_RANGE:
        return "Google's Identity-Aware Proxy alone, which asks who connects"
    if network == "caller":
        return "the one public address that `gpuprov up` is run from; the same for everybody behind one NAT"
    count = addresses_in(network)
    return "one address" if count == 1 else f"{count:,} addresses" if count < 2**32 else f"{count:.0e} addresses"


def tags(profile: Profile, lock: Lock) -> tuple[str, ...]:
    """What is put on everything that is made."""
    return tuple(f"{key} = {value}" for key, value in sorted(_order(profile, placing.options(profile, lock)[0]).tags.items()))


def first_boot(profile: Profile) -> tuple[Change, ...]:
    """What the first boot writes from the user data of the instance, before any role runs."""
    says = f"powers the machine off {profile.limits.deadline_h} hours after the launch, which ends it (GCP ends it by itself before that)"
    gone = "ends with the instance"
    return (
        Change("first boot", "unit", "/etc/systemd/system/gpuprov-deadline.timer", says, gone),
        Change("first boot", "unit", "/etc/systemd/system/gpuprov-deadline.service", "what that timer starts", gone),
        Change("first boot", "login", "the image's login user and root", "passwords and root are refused over SSH", gone),
    )


def permissions(profile: Profile, lock: Lock) -> tuple[PermissionItem, ...]:
    """What each cloud of the profile must allow, from the first question to the last removal."""
    found = []
    by_cloud: dict[str, list[Option]] = {}
    for option in placing.options(profile, lock):
        by_cloud.setdefault(option.cloud, []).append(option)
    for cloud, chosen in by_cloud.items():
        way = way_in(profile.network)
        actions = tuple(sorted({*way, *(action for option in chosen for action in needed(cloud, _order(profile, option)))}))
        if cloud == "aws":
            document = policy(
                name=profile.name,
                regions=list(dict.fromkeys(option.region for option in chosen)),
                instance_types=sorted({option.place.instance_type for option in chosen}),
                spot=any(option.place.market == "spot" for option in chosen),
                subnet=profile.network.subnet or "",
            )
            note = "every action of launching, looking after and removing; the policy document narrows them to places, types and this name"
            found.append(PermissionItem(cloud, actions, document, note))
        else:
            found.append(
                PermissionItem(cloud, actions, None, "every permission of launching, looking after and removing, for a custom role")
            )
    return tuple(found)


def calls(profile: Profile, lock: Lock) -> tuple[CallItem, ...]:
    """The calls that change something, and those that find what they need, for the first place that would be tried on AWS.

    The requests are the provider's own, except for what only the launch knows: its id, its key, its token and the moment of the deadline.
    """
    option = next((o for o in placing.options(profile, lock) if isinstance(o.place, AwsPlace) and not o.against), None)
    if option is None:
        return ()
    from provision.clouds.aws import request  # noqa: PLC0415 - boto3's home; importing it imports no boto3

    order = _order(profile, option)
    name, made = request.resource_name(order), request.tag_list(order)
    image = places.aws_image(*order.os)
    group_tags = [{"ResourceType": "security-group", "Tags": made}]
    group = {"GroupName": name, "Description": f"gpuprov {order.name}: SSH", "TagSpecifications": group_tags}
    ip = request.ingress("<the address of who launches>" if network == "caller" else network for network in order.ssh_from)
    opened = {"GroupId": "<the group>", "IpPermissions": [ip]}
    run = {
        **request.run_instances(order, option.region, "<the group>"),
        "ClientToken": "<of the launch and the attempt>",
        "ImageId": order.image_id or "<the image>",
    }
    run["UserData"] = run["UserData"].replace(_ONCE_WORDS, f"<launch + {profile.limits.deadline_h} h>")
    said: list[tuple[str, str, dict[str, Any]]] = [
        ("ec2:DescribeInstances", "find what an earlier run made", {"Filters": [{"Name": f"tag:{base.NAME_TAG}", "Values": [order.name]}]}),
        *(
            [("ssm:GetParameter", "find the image: the lock has no id", {"Name": image.parameter if image else None})]
            if order.image_id is None
            else []
        ),
        ("ec2:CreateSecurityGroup", "make the group", group),
        *([("ec2:AuthorizeSecurityGroupIngress", "open SSH and nothing else", opened)] if order.ssh_from else []),
        ("ec2:RunInstances", "make the instance", run),
        ("ec2:GetConsoleOutput", "read the host keys", {"InstanceId": "<the instance>", "Latest": True}),
    ]
    return tuple(CallItem("aws", action, why, parameters) for action, why, parameters in said)


def _order(profile: Profile, option: Option) -> base.Order:
    """The order of a launch's first attempt at a place, with words where the launch decides."""
    record = Record(
        profile.name, _LAUNCH, rehearsal=False, profile={}, profile_digest=profiles.digest(profile), created_at="", deadline=_ONCE
    )
    pending = Pending(option.index, option.region, option.zones[0] if option.zones else "", 1, 1, 1)
    key = "<the public key that gpuprov makes for this machine>"
    order = placing.order_of(record, profile, option, key, pending)
    return replace(order, tags={**order.tags, base.DEADLINE_TAG: f"<launch + {profile.limits.deadline_h} h>"})
