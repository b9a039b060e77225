"""The part of a profile that says how the machine is reached, and who may: its address, its network, its way in, and port 22."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
    model_validator,
)

__all__ = ["IAP_RANGE", "Network", "conflict"]

# Where the connections of Identity-Aware Proxy come from, all of them: https://cloud.google.com/iap/docs/using-tcp-forwarding,
# "Create a firewall rule". Machines are reached by IPv4, so that the range for IPv6 on the same page is not opened.
IAP_RANGE: Final = "35.235.240.0/20"
# A subnet's id on AWS (8 digits before 2018, 17 since), and a subnetwork's name on GCP (RFC 1035).
_AWS_SUBNET: Final = re.compile(r"subnet-([0-9a-f]{8}|[0-9a-f]{17})")
_LATER: Final = ("address", "subnet", "via", "jump")


def _network(value: str) -> str:
    """`caller`, or a network that is not everybody."""
    if value == "caller":
        return value
    network = ipaddress.ip_network(value)
    widest = {4: 8, 6: 32}[network.version]
    if network.prefixlen < widest:
        msg = f"opens SSH to {network.num_addresses:.0e} addresses; the widest network accepted is /{widest}"
        raise ValueError(msg)
    return str(network)


def _no_switch(value: str) -> str:
    """Refuse the word that OpenSSH takes as "no jump host" (ssh_config(5), ProxyJump)."""
    if value.lower() == "none":
        msg = "is OpenSSH's word for no jump host; leave jump out"
        raise ValueError(msg)
    return value


Subnet = Annotated[str, StringConstraints(pattern=r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$")]
# [user@]host[:port]: it begins with no hyphen, and has no space, comma, quote or percent sign, so that it is one destination of ssh.
JumpHost = Annotated[
    str,
    StringConstraints(
        pattern=r"^([A-Za-z_][A-Za-z0-9_.-]{0,31}@)?[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?(:[0-9]{1,5})?$", max_length=300
    ),
    AfterValidator(_no_switch),
]


class Network(BaseModel):
    """How the machine is reached, and who may open a connection to port 22; nothing else is open.

    `address: private` gives it no public address; it then needs a way out of its subnet for packages (NAT), and a way in: `jump`, an
    ssh destination of your own configuration, or `via: ssm` (AWS) or `via: iap` (GCP). With a jump host, `ssh_from` is the network that it
    connects from. With ssm nothing is open at all, with iap Google's range alone, and `ssh_from` has no meaning.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, str_max_length=2000)

    ssh_from: Annotated[tuple[Annotated[str, AfterValidator(_network)], ...], Field(min_length=1, max_length=20, strict=False)] = (
        "caller",
    )
    address: Literal["public", "private"] = "public"
    subnet: Subnet | None = None
    via: Literal["direct", "ssm", "iap"] = "direct"
    jump: JumpHost | None = None

    @property
    def opens(self) -> tuple[str, ...]:
        """The networks that may reach port 22, or `caller`; none where the way in needs no open port."""
        return {"direct": self.ssh_from, "ssm": (), "iap": (IAP_RANGE,)}[self.via]

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        msg = ""
        if self.jump is not None and self.via != "direct":
            msg = f"jump and via: {self.via} are two ways in; keep one of them"
        elif self.address == "private" and self.jump is None and self.via == "direct":
            msg = "address: private needs a way in: jump: HOST, via: ssm (AWS) or via: iap (GCP)"
        elif self.via != "direct" and self.ssh_from != ("caller",):
            msg = f"ssh_from has no meaning with via: {self.via}, which decides itself what is open; leave it out"
        elif self.jump is not None and "caller" in self.ssh_from:
            msg = "with jump it is the jump host that connects, not the caller; write the network that it connects from into ssh_from"
        elif "caller" not in self.ssh_from and all(":" in network for network in self.ssh_from):
            msg = "ssh_from names IPv6 networks alone, and machines are reached by IPv4; add an IPv4 network"
        if msg:
            raise ValueError(msg)
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what came later and was not asked for: a profile that says nothing of it keeps the digest that was signed."""
        plain: dict[str, Any] = handler(self)
        defaults = type(self).model_fields
        return {key: value for key, value in plain.items() if key not in _LATER or value != defaults[key].default}


def conflict(network: Network, clouds: set[str], aws_regions: Sequence[str]) -> str:
    """What of the network cannot be had in the places of a profile, as a sentence with what to write; empty when nothing.

    Args:
        network: of the profile.
        clouds: of its places.
        aws_regions: that its places on AWS name, each as often as it is named.
    """
    of_aws = network.subnet is not None and _AWS_SUBNET.fullmatch(network.subnet) is not None
    for via, cloud in (("ssm", "aws"), ("iap", "gcp")):
        if network.via == via and clouds != {cloud}:
            return f"via: {via} is of {cloud} alone; keep the places on {cloud}, or choose another way in"
    if network.address == "private" and "aws" in clouds and network.subnet is None:
        # The default VPC's own subnets lead out through public addresses only, so that such a machine could install nothing.
        return "address: private on AWS needs subnet: the id of a subnet with a way out (NAT)"
    if network.subnet is not None and clouds == {"aws", "gcp"}:
        return "subnet is of one cloud; write a profile for each cloud"
    if network.subnet is not None and "aws" in clouds and not of_aws:
        return "subnet on AWS is an id, such as subnet-0123456789abcdef0"
    if network.subnet is not None and len(set(aws_regions)) > 1:
        return "subnet is of one region on AWS, and the places name several; keep the subnet's"
    return ""
