"""What `up` would make, where, at what price and with which permissions: by the catalogue, and by the clouds where that is asked for."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from provision.catalog import places, read
from provision.clouds import base as clouds
from provision.clouds import permissions
from provision.errors import CloudError
from provision.host import way as way_in
from provision.launch import place as placing
from provision.launch.journal import Pending, Record
from provision.launch.ours import Ours
from provision.launch.place import Option
from provision.profile.locked import Lock
from provision.profile.model import AwsPlace, DataDisk, Profile
from provision.profile.network import IAP_RANGE, Network

__all__ = ["Offer", "Plan", "plan"]

_UNKNOWN: Final = "unknown: the catalogue has no price for this type, region and market, so the limit is not checked"
_NETWORKS: Final = {"caller": "the address gpuprov runs from", IAP_RANGE: f"{IAP_RANGE}, Google's Identity-Aware Proxy alone"}
# An instance role is never given, so that Systems Manager must be allowed to manage machines by the account itself:
# docs.aws.amazon.com/systems-manager/latest/userguide/fleet-manager-default-host-management-configuration.html (IMDSv2 required, as here).
_WAYS: Final = {
    "direct": (),
    "ssm": (
        "through `aws ssm`: the AWS CLI and its Session Manager plugin here, credentials of a profile in ~/.aws",
        "the account's Default Host Management Configuration must be on in the region, since no instance role is given",
        "the image must have the SSM Agent, 3.2.582.0 or later",
    ),
    "iap": ("through `gcloud compute start-iap-tunnel`: the Google Cloud CLI here, logged in (`gcloud auth login`)",),
}
# A key of the right form for the text of an order that nobody launches.
_NO_KEY: Final = "ssh-ed25519 " + "A" * 68

# What each cloud's provider asks for beside that; tests of the clouds hold it.
_SECURED: Final = {
    "aws": ("aws: IMDSv2 required", "aws: no instance role", "aws: host keys read from the console"),
    "gcp": (
        "gcp: no service account",
        "gcp: host keys read from guest attributes",
        "gcp: the project's own SSH keys do not log in",
        "gcp: port 22 denied to all others, whatever the network's default rules say",
    ),
}


@dataclass(frozen=True, slots=True)
class Offer:
    """One place of the profile, in the order in which they are tried.

    Attributes:
        price_per_hour_usd: from the catalogue; None when it is not known there.
        price_note: the price's source, or why there is none.
        zone: empty where the cloud chooses.
        note: why this place would be passed over; empty when it would be tried.
        opt_in: whether the region must be enabled in the account once.
        elsewhere: the regions that have the type.
        answers: what the cloud said, where it was asked.
        price_whole: whether nothing of the machine is billed beside the price.
    """

    cloud: str
    region: str
    instance_type: str
    market: str
    price_per_hour_usd: float | None
    price_to_deadline_usd: float | None
    price_note: str
    note: str
    zone: str = ""
    opt_in: bool = False
    elsewhere: tuple[str, ...] = ()
    answers: tuple[clouds.Answer, ...] = ()
    price_whole: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be made. Nothing is made for it, and nothing asked of a cloud unless that was wanted.

    Attributes:
        gone: machine types with this GPU that left the offerings.
        reached: its address, its network, and the way in with what that takes.
        permissions: by cloud.
    """

    profile: str
    profile_digest: str
    name: str
    purpose: str
    owner: str
    offers: tuple[Offer, ...]
    image: str
    disks: tuple[str, ...]
    reached: tuple[str, ...]
    opens: tuple[str, ...]
    secured: tuple[str, ...]
    gives_up: tuple[str, ...]
    deadline_h: int
    limit_per_hour_usd: float
    permissions: dict[str, tuple[str, ...]]
    gone: tuple[str, ...]
    lock_digest: str
    stack: tuple[str, ...]
    warnings: tuple[str, ...]
    unresolved: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON-compatible data."""
        return asdict(self)


def plan(profile: Profile, digest: str, name: str, lock: Lock, *, ask: Ours | None = None) -> Plan:
    """Read the profile and its lock as a plan.

    Args:
        profile: with its places.
        digest: of the profile.
        name: what the machine would be called.
        lock: the stack.
        ask: the clouds, which are then asked about each place; None asks nobody.
    """
    listed = [one for option in placing.options(profile, lock) for one in _by_zone(option)]
    orders = {option: _order(profile, digest, name, option) for option in listed}
    answers = _asked(ask, {option: order for option, order in orders.items() if not option.against}) if ask else {}
    way = way_in.permissions(profile.network)
    needed = {option.cloud: tuple(sorted({*permissions(option.cloud, order), *way})) for option, order in orders.items()}
    return Plan(
        profile=profile.name,
        profile_digest=digest,
        name=name,
        purpose=profile.purpose,
        owner=f"{profile.owner.name} <{profile.owner.email}>",
        offers=tuple(_offer(profile, option, answers.get(option, ())) for option in listed),
        image=f"newest {profile.os.name} {profile.os.version} of its publisher",
        disks=(f"root: {profile.disks.root.size_gb} GB network disk, encrypted", *_data_disk(profile.disks.data)),
        reached=_reached(profile.network),
        opens=tuple(f"tcp/22 from {_NETWORKS.get(n, n)}" for n in profile.network.opens) or ("nothing",),
        secured=("disks encrypted", "login by key only", "ends itself at the deadline", *(s for cloud in needed for s in _SECURED[cloud])),
        gives_up=_gives_up(profile),
        deadline_h=profile.limits.deadline_h,
        limit_per_hour_usd=profile.limits.price_per_hour_usd,
        permissions=needed,
        gone=_gone(profile.gpu.model),
        lock_digest=lock.digest,
        stack=_stack(lock),
        warnings=lock.warnings,
        unresolved=lock.unresolved,
    )


def _order(profile: Profile, digest: str, name: str, option: Option) -> clouds.Order:
    """The order of a place's first attempt, for what can be said of it beforehand; it is never launched."""
    now = dt.datetime.now(dt.UTC)
    deadline = (now + dt.timedelta(hours=profile.limits.deadline_h)).isoformat()
    record = Record(name, "0" * 32, rehearsal=False, profile={}, profile_digest=digest, created_at=now.isoformat(), deadline=deadline)
    pending = Pending(option.index, option.region, option.zones[0] if option.zones else "", 1, 1, 1)
    return placing.order_of(record, profile, option, _NO_KEY, pending)


def _asked(ours: Ours, orders: dict[Option, clouds.Order]) -> dict[Option, tuple[clouds.Answer, ...]]:
    """What the clouds say of each place, all asked at the same time; one that could not be asked is one answer that says why."""

    def ask(option: Option) -> tuple[clouds.Answer, ...]:
        ours.on_step(f"asking {option.cloud} about {option}")
        try:
            return tuple(ours.handle((option.cloud, option.region)).examine(orders[option]))
        except CloudError as error:
            return (clouds.Answer("region", holds=None, said=error.message),)

    with ThreadPoolExecutor(max_workers=8, thread_name_prefix="plan") as pool:
        return dict(zip(orders, pool.map(ask, orders), strict=True))


def _by_zone(option: Option) -> list[Option]:
    """An option for each zone that it names; itself where the cloud chooses."""
    return [replace(option, zones=(zone,)) for zone in option.zones] or [option]


def _offer(profile: Profile, option: Option, answers: tuple[clouds.Answer, ...]) -> Offer:
    place, price = option.place, placing.price_of(profile, option.place, option.region)
    hourly = price.usd_per_hour if price else None
    note = f"passed over: {option.against}" if option.against else ""
    if not note and hourly is not None and hourly > profile.limits.price_per_hour_usd:
        note = "refused: over the profile's price limit"
    known = _UNKNOWN
    if price:
        known = _source(price.source) + ("" if price.whole else "; of the GPU alone: vCPUs and memory are billed beside it")
    return Offer(
        cloud=option.cloud,
        region=option.region,
        instance_type=place.instance_type,
        market=place.market,
        price_per_hour_usd=hourly,
        price_to_deadline_usd=round(hourly * profile.limits.deadline_h, 2) if hourly is not None else None,
        price_note=known,
        note=note,
        zone="".join(option.zones),
        opt_in=placing.opt_in(option),
        elsewhere=tuple(
            region
            for region in places.where(option.cloud, place.instance_type, None if isinstance(place, AwsPlace) else place.gpu)
            if region != option.region
        ),
        answers=answers,
        price_whole=price is None or price.whole,
    )


def _gone(model: str) -> tuple[str, ...]:
    """The machine types with a GPU that can no longer be launched anywhere."""
    left = [t for t in read.aws_types().values() if t.gpu == model and t.withdrawn is not None]
    return tuple(f"aws {t.type} was withdrawn everywhere by {t.withdrawn}" for t in left)


def _source(key: str) -> str:
    source = read.sources()[key]
    return f"{source.title} ({source.grade}, {source.date})"


def _stack(lock: Lock) -> tuple[str, ...]:
    """What would be installed, in a few lines."""
    frameworks = [f"{name} {env.version} (CUDA {env.cuda}, {len(env.wheels)} wheels)" for name, env in lock.frameworks.items()]
    return (
        f"driver {lock.driver.branch}, {lock.driver.flavour} kernel modules",
        f"CUDA {lock.cuda.version} with gcc {lock.cuda.gcc}, cuDNN {lock.cudnn.version}",
        *frameworks,
        f"clocks: {lock.clocks.mode}",
    )


def _data_disk(disk: DataDisk | None) -> tuple[str, ...]:
    if disk is None:
        return ()
    own = disk.source == "instance-store"
    what = "the machine's own NVMe, empty after each stop" if own else f"{disk.size_gb} GB network disk, encrypted"
    return (f"{disk.mount}: {what}, {disk.filesystem}",)


def _reached(network: Network) -> tuple[str, ...]:
    """Its address, its network, and the way in with what that takes."""
    private = "a private address alone, so that its subnet must lead out (NAT) for packages to be installed"
    lines = [private if network.address == "private" else "a public IPv4 address"]
    lines += [f"in {network.subnet}"] if network.subnet else []
    if network.jump is not None:
        lines.append(f"through {network.jump}, as your own ssh configuration knows it")
    return (*lines, *_WAYS[network.via])


def _gives_up(profile: Profile) -> tuple[str, ...]:
    if profile.gpu.counters == "all-users":
        return ("performance counters open to all local users: re-opens the side channel of CVE-2018-6260 between them",)
    return ()
