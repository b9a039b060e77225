"""Where a place on AWS takes its capacity from: a reservation, a block, a placement group, hardware of one's own, an EFA network.

Sources: docs.aws.amazon.com/AWSEC2/latest/APIReference: API_CapacityReservationSpecification, API_InstanceMarketOptionsRequest,
API_Placement, API_InstanceNetworkInterfaceSpecification; …/AWSEC2/latest/UserGuide/efa-start.html, "Step 1: Prepare an EFA-enabled security
group"; …/UserGuide/efa-acc-inst-types.html for the cards of the types that have several.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from provision.clouds.aws.disk_key import partition
from provision.clouds.own import CloudOption
from provision.strict import StrictModel

ReservationId = Annotated[
    str, StringConstraints(pattern=r"^cr-([0-9a-f]{8}|[0-9a-f]{17})$"), Field(description="an id such as cr-0123456789abcdef0")
]
GroupName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,254}$"), Field(description="the name of a placement group")
]
_KEY: Final = "capacity"


class AwsCapacity(StrictModel):
    """Where a place on AWS takes its machines from.

    `reservation` is an on-demand capacity reservation, `block` a capacity block for ML. Only it is used: without room in it, nothing is
    launched there. `placement_group` is a group that exists. `efa` gives the machine the Elastic Fabric Adapters of its type.
    """

    reservation: ReservationId | None = None
    """An on-demand capacity reservation. Only it is used."""
    block: ReservationId | None = None
    """A capacity block for machine learning. Only it is used."""
    placement_group: GroupName | None = None
    """A group that exists, for machines close to each other."""
    tenancy: Literal["default", "dedicated"] = "default"
    """Whether the hardware is shared with other accounts. Ask for `dedicated` where the organisation demands it."""
    efa: bool = False
    """Whether the machine gets the Elastic Fabric Adapters of its type, for training over several machines."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if self.reservation and self.block:
            msg = "capacity names a reservation or a block, not both: a launch takes its machines from one"
            raise ValueError(msg)
        if self == AwsCapacity.model_construct():
            msg = "capacity says nothing; name a reservation, a block or a placement_group, ask for tenancy or efa, or leave it out"
            raise ValueError(msg)
        return self

    @property
    def reserved(self) -> str | None:
        """The id of the reservation or block."""
        return self.reservation or self.block

    @property
    def regional(self) -> bool:
        """Whether it names something that exists in one region only."""
        return bool(self.reserved or self.placement_group)


def problem(capacity: AwsCapacity | None, regions: Sequence[str], market: str) -> str:
    """What is wrong with the capacity of a place; empty when nothing."""
    if capacity is None:
        return ""
    if capacity.regional and len(regions) > 1:
        return "a reservation, a block and a placement group belong to one region, and this place names several; keep theirs"
    if capacity.reserved and market != "on-demand":
        return "a launch has one way of paying: leave out `market`, or the reservation"
    return ""


def requested(capacity: AwsCapacity | None) -> dict[str, Any]:
    """What RunInstances says beside the zone and the network."""
    if capacity is None:
        return {}
    request: dict[str, Any] = {}
    if capacity.reserved:
        request["CapacityReservationSpecification"] = {"CapacityReservationTarget": {"CapacityReservationId": capacity.reserved}}
    if capacity.block:
        request["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    return request


def placed(capacity: AwsCapacity | None) -> dict[str, str]:
    """What `Placement` of RunInstances says beside the zone."""
    if capacity is None:
        return {}
    group = {"GroupName": capacity.placement_group} if capacity.placement_group else {}
    return group | ({"Tenancy": capacity.tenancy} if capacity.tenancy != "default" else {})


def cards(first: dict[str, Any], adapters: int, start: int = 0) -> list[dict[str, Any]]:
    """The network cards of a machine with EFA: the first carries IP as well, the others only EFA's own traffic.

    Where the first can have no adapter, as that of p6-b300, it is an ordinary one, and the others have theirs as their first device:
    https://github.com/aws/aws-parallelcluster/issues/7143 quotes AWS, and …/UserGuide/efa-acc-inst-types.html says the same.

    Args:
        first: the card without EFA.
        adapters: how many the type has.
        start: the card that the first adapter is on.
    """
    common = {key: first[key] for key in ("DeleteOnTermination", "SubnetId", "Groups") if key in first}
    indices, device = range(max(start, 1), start + adapters), 0 if start else 1
    others = [{"NetworkCardIndex": index, "DeviceIndex": device, "InterfaceType": "efa-only", **common} for index in indices]
    return [first if start else first | {"InterfaceType": "efa"}, *others]


def used(capacity: AwsCapacity | None, region: str) -> Iterator[str]:
    """The ARNs of what a launch uses; the account is left open, as in `permissions`."""
    if capacity is not None and capacity.reserved:
        yield f"arn:{partition(region)}:ec2:{region}:*:capacity-reservation/{capacity.reserved}"
    if capacity is not None and capacity.placement_group:
        yield f"arn:{partition(region)}:ec2:{region}:*:placement-group/{capacity.placement_group}"


def options(capacity: AwsCapacity | None) -> Iterator[CloudOption]:
    """What the plan and the review say."""
    if capacity is None:
        return
    if capacity.reservation:
        yield CloudOption(
            _KEY,
            f"only in capacity reservation {capacity.reservation}, at the on-demand price",
            severity="note",
            title=f"The machine runs in reservation {capacity.reservation}",
            reason="the reservation is billed at the same price while it exists, whether or not the machine runs",
        )
    if capacity.block:
        yield CloudOption(
            _KEY,
            f"only in capacity block {capacity.block}, which was paid for in advance",
            severity="note",
            title=f"The machine runs in capacity block {capacity.block}",
            reason="the block was paid for when it was bought, and AWS ends the machine about 30 minutes before the block ends",
            unpriced="a capacity block is paid for in advance, and what it cost is not in the catalog",
        )
    if capacity.placement_group:
        yield CloudOption(_KEY, f"in placement group {capacity.placement_group}")
    if capacity.tenancy == "dedicated":
        yield CloudOption(
            _KEY,
            "on hardware that no other account uses (dedicated)",
            title="The hardware is nobody else's",
            reason="AWS runs no other account's machines beside it (dedicated tenancy)",
            unpriced="dedicated machines have prices of their own and a fee for the region, which are not in the catalog",
            safer=True,
        )
    if capacity.efa:
        yield CloudOption(
            _KEY,
            "with Elastic Fabric Adapters; AWS's EFA software must be on the image, since gpuprov does not install it",
            severity="low",
            title="The machines of a launch reach one another on all ports",
            reason="EFA needs a security group that lets its own members through, in and out; nobody else is let in by that",
            narrower="leave out `efa`",
        )
