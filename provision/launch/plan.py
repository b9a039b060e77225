"""What `up` would make, where, at what price and with which permissions, without asking anybody."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from provision.catalog import places, read
from provision.clouds import CLOUDS
from provision.clouds.aws.permissions import PERMISSIONS
from provision.profile.locked import Lock
from provision.profile.model import AwsPlace, DataDisk, GcpPlace, Profile

__all__ = ["Offer", "Plan", "plan"]


@dataclass(frozen=True, slots=True)
class Offer:
    """One place of the profile, in the order in which they are tried.

    Attributes:
        price_per_hour_usd: from the catalogue; None when it is not known there.
        price_note: the price's source, or why there is none.
        note: why this place would be passed over; empty when it would be tried.
    """

    cloud: str
    region: str
    instance_type: str
    market: str
    price_per_hour_usd: float | None
    price_to_deadline_usd: float | None
    price_note: str
    note: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be made. Nothing was asked of a cloud for it, and nothing made."""

    profile: str
    profile_digest: str
    name: str
    purpose: str
    owner: str
    offers: tuple[Offer, ...]
    image: str
    disks: tuple[str, ...]
    opens: tuple[str, ...]
    secured: tuple[str, ...]
    gives_up: tuple[str, ...]
    deadline_h: int
    limit_per_hour_usd: float
    permissions: tuple[str, ...]
    lock_digest: str
    stack: tuple[str, ...]
    warnings: tuple[str, ...]
    unresolved: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON-compatible data."""
        return asdict(self)


def plan(profile: Profile, digest: str, name: str, lock: Lock) -> Plan:
    """Read the profile and its lock as a plan."""
    return Plan(
        profile=profile.name,
        profile_digest=digest,
        name=name,
        purpose=profile.purpose,
        owner=f"{profile.owner.name} <{profile.owner.email}>",
        offers=tuple(offer for place in profile.places for offer in _offers(profile, place, lock)),
        image=f"newest {profile.os.name} {profile.os.version} of its publisher",
        disks=(f"root: {profile.disks.root.size_gb} GB gp3, encrypted", *_data_disk(profile.disks.data)),
        opens=tuple(f"tcp/22 from {'the address gpuprov runs from' if n == 'caller' else n}" for n in profile.network.ssh_from),
        secured=(
            "IMDSv2 required",
            "disks encrypted",
            "no instance role",
            "login by key only",
            "host key read from the console",
        ),
        gives_up=_gives_up(profile),
        deadline_h=profile.limits.deadline_h,
        limit_per_hour_usd=profile.limits.price_per_hour_usd,
        permissions=PERMISSIONS,
        lock_digest=lock.digest,
        stack=_stack(lock),
        warnings=lock.warnings,
        unresolved=lock.unresolved,
    )


def _offers(profile: Profile, place: AwsPlace | GcpPlace, lock: Lock) -> list[Offer]:
    where = place.regions if isinstance(place, AwsPlace) else place.zones
    return [_offer(profile, place, region, lock) for region in where]


def _offer(profile: Profile, place: AwsPlace | GcpPlace, region: str, lock: Lock) -> Offer:
    wanted = (place.cloud, region, place.instance_type, place.market)
    locked = next(p for p in lock.places if (p.cloud, p.region, p.instance_type, p.market) == wanted)
    price = places.aws_price(place.instance_type, region) if place.market == "on-demand" and place.cloud == "aws" else None
    hourly = price.usd_per_hour if price else None
    note = f"passed over: {locked.not_available}" if locked.not_available else ""
    if not note and place.cloud not in CLOUDS:
        note = f"passed over: launching on {place.cloud} is not part of this release"
    if not note and hourly is not None and hourly > profile.limits.price_per_hour_usd:
        note = "refused: over the profile's price limit"
    return Offer(
        cloud=place.cloud,
        region=region,
        instance_type=place.instance_type,
        market=place.market,
        price_per_hour_usd=hourly,
        price_to_deadline_usd=round(hourly * profile.limits.deadline_h, 2) if hourly is not None else None,
        price_note=_source(price.source)
        if price
        else "unknown: the catalogue has no price for this type and region, so the limit is not checked",
        note=note,
    )


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
    what = "the machine's own NVMe, empty after each stop" if disk.source == "instance-store" else f"{disk.size_gb} GB gp3, encrypted"
    return (f"{disk.mount}: {what}, {disk.filesystem}",)


def _gives_up(profile: Profile) -> tuple[str, ...]:
    if profile.gpu.counters == "all-users":
        return ("performance counters open to all local users: re-opens the side channel of CVE-2018-6260 between them",)
    return ()
