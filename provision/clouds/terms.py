"""The words in which a cloud speaks without being contacted: offers, prices, refusals, regions, images, ways in, calls."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Literal

from provision.catalog.overlay import Overlay
from provision.structs import Struct, asdict


class RefusalKind(StrEnum):
    """Why a place is not launched in."""

    UNKNOWN_TYPE = "unknown-type"
    """The catalog does not have the instance type."""
    UNRECORDED = "unrecorded"
    """Nothing is recorded about what the region or zone offers."""
    WITHDRAWN = "withdrawn"
    WRONG_GPU = "wrong-gpu"
    TOO_FEW_GPUS = "too-few-gpus"
    BAD_SHAPE = "bad-shape"
    UNSUPPORTED = "unsupported"
    """It exists, and this release cannot set it up."""
    NOT_OFFERED = "not-offered"
    NOT_SOLD = "not-sold"
    LOCKED = "locked"
    """The lock says so, in its own words."""
    OVER_LIMIT = "over-limit"
    PRICE_UNKNOWN = "price-unknown"


_IGNORANCE = frozenset({RefusalKind.UNKNOWN_TYPE, RefusalKind.UNRECORDED})
_MONEY = frozenset({RefusalKind.OVER_LIMIT, RefusalKind.PRICE_UNKNOWN})


class Refusal(Struct):
    """Why a place is not launched in.

    Attributes:
        kind: what callers decide by.
        message: the same for people; nothing reads it back.
        hint: what to do about it; empty where the message says all.
    """

    kind: RefusalKind
    message: str
    hint: str = ""

    @property
    def is_ignorance(self) -> bool:
        """Whether the catalog just does not know, which is no reason against the place."""
        return self.kind in _IGNORANCE

    @property
    def was_withdrawn(self) -> bool:
        """Whether the machine type exists no more."""
        return self.kind is RefusalKind.WITHDRAWN

    @property
    def is_about_money(self) -> bool:
        """Whether the price is the reason."""
        return self.kind in _MONEY

    def __str__(self) -> str:
        return self.message


class PricePart(Struct):
    """One part of a price: what it is for, US dollars an hour, and the id of its source."""

    item: str
    usd_per_hour: float
    source: str


class Price(Struct):
    """An on-demand price in US dollars an hour.

    Attributes:
        parts: what is known of it.
        missing: what is billed and not known; the price is whole when this is empty.
    """

    parts: tuple[PricePart, ...]
    missing: tuple[str, ...] = ()

    def plus(self, other: Price) -> Price:
        """Both together: whole only if both are."""
        return Price((*self.parts, *other.parts), (*self.missing, *other.missing))

    @property
    def usd_per_hour(self) -> float:
        """The sum of the parts that are known."""
        return round(sum(part.usd_per_hour for part in self.parts), 6)

    @property
    def whole(self) -> bool:
        """Whether nothing of the machine is billed beside it."""
        return not self.missing

    @property
    def source(self) -> str:
        """The id of the first part's source."""
        return self.parts[0].source

    @property
    def sources(self) -> tuple[str, ...]:
        """The ids of all sources, each once."""
        return tuple(dict.fromkeys(part.source for part in self.parts))

    def as_dict(self) -> dict[str, Any]:
        """The price as JSON-compatible data."""
        return {"usd_per_hour": self.usd_per_hour, "source": self.source, "whole": self.whole, "parts": [asdict(p) for p in self.parts]}


class Extras(Struct):
    """What is billed with a machine and is not part of its type.

    Attributes:
        network_gb: of all network disks together.
        volume_gb: how much of that is the data volume, for clouds whose machines have their boot disk in the price.
        local_disk: whether the data disk is to be inside the machine; some clouds bill that by its size.
        public_address: whether it gets a public IPv4 address.
    """

    network_gb: int
    local_disk: bool = False
    public_address: bool = True
    volume_gb: int = 0


class Offer(Struct):
    """An instance type, in one region or, without a region, wherever it is.

    Attributes:
        gpus: how many; below one is a fraction of a GPU.
        local_gb: disks inside the machine, empty after each stop.
        zones: zone ids in the region; empty where the zones are not known.
        note: what surprises about it.
    """

    cloud: str
    instance_type: str
    gpu: str | None
    gpus: float
    vcpus: int
    memory_gb: float
    local_gb: int
    regions: tuple[str, ...]
    markets: tuple[str, ...]
    source: str
    region: str | None = None
    zones: tuple[str, ...] = ()
    price: Price | None = None
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The offer as JSON-compatible data."""
        return {**asdict(self), "price": self.price.as_dict() if self.price else None}


class DriverAdvice(Struct):
    """The kernel modules that a machine type is better off with, where that is not what its GPU alone would say.

    Attributes:
        gsp: whether the GPU's system processor should run the driver's firmware; only proprietary modules can do without.
        why: for people.
    """

    flavour: Literal["open", "proprietary"]
    gsp: bool
    why: str


class DataPart(Struct):
    """A part of what a cloud's folder ships: its records, and what `catalog refresh --only` takes to renew it; empty where nothing does."""

    records: Any
    refresh: str


class Region(Struct):
    """A region that the catalog knows.

    Attributes:
        opt_in: whether it must be enabled in the account once.
        recorded: whether anything is recorded about what it offers.
    """

    code: str
    opt_in: bool = False
    recorded: bool = True


class Image(Struct):
    """How the image of a system is found.

    Attributes:
        lookup: the parameter, family, or owner and name pattern that finds it.
        login: its first user.
    """

    lookup: str
    login: str


class KnownImage(Struct):
    """An image itself, as far as it is known without asking the cloud.

    Attributes:
        id: what a launch names.
        name, owner, created: as its publisher gave them, the day in ISO 8601; empty where nobody has looked.
    """

    id: str
    name: str = ""
    owner: str = ""
    created: str = ""


class DriverImage(Struct):
    """A public image with a driver on it, which a profile may name in `image:` of a place."""

    lookup: str
    os: tuple[str, str]
    driver: str
    flavour: str
    source: str


class Way(Struct):
    """A way in that a cloud offers beside a direct connection to port 22.

    Attributes:
        name: what `network.via` of a profile says.
        opens: the networks that port 22 must be open to.
        origin: who stands behind those networks, for a reader; empty where there are none.
        origin_detail: what that means to somebody who decides about it.
        needs: what must be there, here and at the cloud.
        programs: what must be on PATH here.
        permissions: what the credentials need beside those for the launch.
        credential_variables: of the environment, which tell those programs where credentials are; none of them holds a secret.
        proxy_command: for ssh; `{id}`, `{region}`, `{zone}` and `{project}` stand for the instance's.
    """

    name: str
    opens: tuple[str, ...]
    origin: str
    origin_detail: str
    needs: tuple[str, ...]
    programs: tuple[str, ...]
    credential_variables: tuple[str, ...]
    permissions: tuple[str, ...]
    proxy_command: str


class Safeguard(Struct):
    """Something that the client asks of the cloud for the security of a machine, whatever the profile says.

    Attributes:
        summary: in a few words.
        title, reason: for the review; empty where every cloud does it and the review says it once.
        unless: the key of a place that takes it away.
    """

    summary: str
    title: str = ""
    reason: str = ""
    unless: str = ""


class SecureBoot(Struct):
    """Whether a cloud starts machines from its public images with Secure Boot on.

    Attributes:
        why: where it does not, for people.
    """

    available: bool
    why: str = ""


class FirstKey(Struct):
    """Where the host key comes from that a machine is known by at the first contact.

    Attributes:
        given: whether it is made here, given to the machine with its user data, and rotated at the first contact; else the machine makes
            its own, which is read over the cloud's own channel.
        title, reason, narrower: for the review, where it is given.
    """

    given: bool = False
    title: str = ""
    reason: str = ""
    narrower: str = ""


class DeadlineKeeper(Struct):
    """Who ends a machine at its deadline.

    Attributes:
        by: `cloud`, or `host` where a timer on the machine itself powers it off.
        title, reason, narrower: for the review, where it is the host.
    """

    by: Literal["cloud", "host"]
    title: str = ""
    reason: str = ""
    narrower: str = ""


class PlannedCall(Struct):
    """One call of a cloud's API that a launch makes, with its parameters as data."""

    cloud: str
    action: str
    purpose: str
    parameters: dict[str, Any]


Say = Callable[[str], None]
"""Told about progress, for people."""


class Refreshed(Struct):
    """What came of a refresh.

    Attributes:
        overlay: the whole overlay afterwards.
        changed: what differs from before, one line each.
        failed: what could not be asked, and why.
    """

    overlay: Overlay
    changed: list[str]
    failed: list[str]


class Grant(Struct):
    """The launches that permissions are given for.

    Attributes:
        name: of the launch.
        regions, instance_types: where and what.
        spot: whether a place is spot.
        subnet: the only one that may be used; empty for any.
        places: the places of the profile at this cloud, for the keys that only this cloud has.
        os: (system, version) of the profile, whose images are looked up; None for any.
    """

    name: str
    regions: tuple[str, ...]
    instance_types: tuple[str, ...]
    spot: bool
    subnet: str = ""
    places: tuple[Any, ...] = ()
    os: tuple[str, str] | None = None
