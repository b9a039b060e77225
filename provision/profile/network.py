"""The part of a profile about access: the machine's address, its network, the way in, and port 22."""

import contextlib
import ipaddress
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
    model_validator,
)

from provision import clouds
from provision.clouds.offline import PlaceBase
from provision.clouds.terms import Way
from provision.strict import StrictModel

_LATER: Final = ("address", "subnet", "via", "jump")


def network_of(value: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """An IP network.

    Raises:
        ValueError: it is none, in words for whoever wrote it.
    """
    try:
        return ipaddress.ip_network(value, strict=True)
    except ValueError as error:
        msg = "write a network such as 192.0.2.0/24"
        with contextlib.suppress(ValueError):
            msg = f"it lies in {ipaddress.ip_network(value, strict=False)}: write that network, or one address with /32 or /128"
        raise ValueError(msg) from error


def _network(value: str) -> str:
    """Accept `caller`, or a network that is not too wide."""
    if value == "caller":
        return value
    network = network_of(value)
    widest = {4: 8, 6: 32}[network.version]
    if network.prefixlen < widest:
        msg = f"opens SSH to {network.num_addresses:.0e} addresses; the widest network accepted is /{widest}"
        raise ValueError(msg)
    return str(network)


def _no_switch(value: str) -> str:
    """Refuse the word that OpenSSH takes as "no jump host" (ssh_config(5), ProxyJump)."""
    if value.lower() == "none":
        msg = "is OpenSSH's word for no jump host; remove jump"
        raise ValueError(msg)
    return value


if TYPE_CHECKING:
    Via = str
else:
    Via = Literal[("direct", *clouds.ways())]
Subnet = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"),
    Field(description="the id or name of a subnet: lower-case letters, digits and hyphens"),
]
# [user@]host[:port]: it begins with no hyphen, and has no space, comma, quote or percent sign, so that it is one destination of ssh.
JumpHost = Annotated[
    str,
    StringConstraints(
        pattern=r"^([A-Za-z_][A-Za-z0-9_.-]{0,31}@)?[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?(:[0-9]{1,5})?$", max_length=300
    ),
    Field(description="one destination of ssh, such as me@bastion.example.org:22"),
    AfterValidator(_no_switch),
]


class Network(StrictModel):
    """How the machine is reached, and who may open a connection to port 22; nothing else is open.

    `address: private` gives it no public address. It then needs a way out of its subnet for packages (NAT), and a way in: `jump`, an
    ssh destination of your own configuration, or `via`, a way that a cloud offers. With a jump host, `ssh_from` is the network that the
    jump host connects from. With `via` the way sets the open networks, and `ssh_from` has no meaning.
    """

    ssh_from: Annotated[tuple[Annotated[str, AfterValidator(_network)], ...], Field(min_length=1, max_length=20, strict=False)] = (
        "caller",
    )
    """The networks that may open a connection to port 22. `caller` is the address that `up` is run from, found out at that time."""
    address: Literal["public", "private"] = "public"
    """Whether the machine has a public address. `private` hides it, and then it needs a way in and a way out."""
    subnet: Subnet | None = None
    """The subnet to launch in. Name one where the default network is missing or not allowed."""
    via: Via = "direct"
    """A way in that the cloud offers, so that no port is open to the outside."""
    jump: JumpHost | None = None
    """A jump host of your own, as your SSH configuration knows it, for machines with a private address."""

    @property
    def opens(self) -> tuple[str, ...]:
        """The networks that may reach port 22, or `caller`; none where the way in needs no open port."""
        return self.way.opens if self.way else self.ssh_from

    @property
    def way(self) -> Way | None:
        """The cloud's own way in; None where it is reached directly or through a jump host."""
        return clouds.ways()[self.via][1] if self.via != "direct" else None

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        msg = ""
        if self.jump is not None and self.via != "direct":
            msg = f"jump and via: {self.via} are two ways in; keep one of them"
        elif self.address == "private" and self.jump is None and self.via == "direct":
            offered = [f"via: {way} ({clouds.provider(cloud).title})" for way, (cloud, _) in clouds.ways().items()]
            *others, last = ["jump: HOST", *offered]
            msg = f"address: private needs a way in: {', '.join(others)} or {last}"
        elif self.via != "direct" and self.ssh_from != ("caller",):
            msg = f"ssh_from has no meaning with via: {self.via}, which sets the open networks itself; remove it"
        elif self.jump is not None and "caller" in self.ssh_from:
            msg = "with jump it is the jump host that connects, not the caller; write the network that it connects from into ssh_from"
        elif "caller" not in self.ssh_from and all(":" in network for network in self.ssh_from):
            msg = "ssh_from names IPv6 networks alone, and machines are reached by IPv4; add an IPv4 network"
        if msg:
            raise ValueError(msg)
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit later keys at their default, so that the digest of an older profile, which may be signed, stays the same."""
        plain: dict[str, Any] = handler(self)
        defaults = type(self).model_fields
        return {key: value for key, value in plain.items() if key not in _LATER or value != defaults[key].default}


def conflict(network: Network, places: Sequence[PlaceBase]) -> str:
    """A sentence about the part of a network that does not exist at the places of its profile; empty where all of it exists.

    Args:
        network: of the profile.
        places: of the same profile; empty where they are invalid themselves.
    """
    used = dict.fromkeys(place.cloud for place in places)
    if network.via != "direct":
        cloud = clouds.ways()[network.via][0]
        if used and set(used) != {cloud}:
            return f"via: {network.via} exists on {cloud} only; keep the places on {cloud}, or choose another way in"
    private = network.address == "private"
    public_only = next((place.private_only for place in places if place.private_only), "") if not private else ""
    if public_only:
        return f"{public_only}, which can have no public address; write address: private, or leave that out of the place"
    for cloud in used if private else ():
        problem = clouds.provider(cloud).subnet_problem(network.subnet, private=private, regions=())
        if network.subnet is None and problem:
            return problem
    if network.subnet is not None and len(used) > 1:
        return "a subnet belongs to one cloud; write a profile for each cloud"
    for cloud in used if network.subnet is not None else ():
        regions = [place.region_of(location) for place in places for location in place.locations]
        return clouds.provider(cloud).subnet_problem(network.subnet, private=private, regions=regions)
    return ""
