"""Where a place on GCP takes its capacity from: a reservation, a placement policy, or flex-start.

Sources: docs.cloud.google.com/compute/docs/reference/rest/v1/instances (reservationAffinity, resourcePolicies, scheduling);
…/compute/docs/instances/reservations-consume, "Consume instances from a specific reservation"; …/compute/docs/instances/provisioning-models
for flex-start: seven days at most, no reservation, the quota of preemptible GPUs. Nobody has run them here on a real project.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Self

from pydantic import Field, StringConstraints, model_validator

from provision.clouds.gcp.data import FLEX_START
from provision.clouds.own import CloudOption
from provision.strict import StrictModel

ResourceName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"),
    Field(description="a name of up to 63 lower-case letters, digits and -"),
]
FLEX_START_MOST_H: Final = 7 * 24
FLEX_START_WAITS_S: Final = 1800
"""How long a flex-start machine waits for room before the next place is tried; Google lets one wait for two hours."""
_KEY: Final = "capacity"


class GcpCapacity(StrictModel):
    """Where a place on GCP takes its machines from.

    `reservation` is a reservation of the project in the place's zone. Only it is used: without room in it, nothing is launched there.
    `placement_policy` is a policy that exists in the region, for machines close to each other.
    """

    reservation: ResourceName | None = None
    """A reservation of the project in the zone. Only it is used."""
    placement_policy: ResourceName | None = None
    """A policy that exists, for machines close to each other."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.reservation or self.placement_policy):
            msg = "capacity says nothing; name a reservation or a placement_policy, or leave it out"
            raise ValueError(msg)
        return self


def problem(capacity: GcpCapacity | None, zones: Sequence[str], market: str) -> str:
    """What is wrong with the capacity of a place; empty when nothing."""
    if capacity is None:
        return ""
    if capacity.reservation and len(zones) > 1:
        return "a reservation belongs to one zone, and this place names several; keep its zone"
    if capacity.placement_policy and len({zone.rpartition("-")[0] for zone in zones}) > 1:
        return "a placement policy belongs to one region, and this place names zones of several; keep those of its region"
    if capacity.reservation and market != "on-demand":
        return "a reservation is paid for on demand: leave out `market`, or the reservation"
    return ""


def requested(capacity: GcpCapacity | None, market: str, region: str) -> dict[str, Any]:
    """What the properties of an instance say about it."""
    properties: dict[str, Any] = {}
    if market == FLEX_START:
        properties["reservation_affinity"] = {"consume_reservation_type": "NO_RESERVATION"}
    if capacity and capacity.reservation:
        properties["reservation_affinity"] = {
            "consume_reservation_type": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [capacity.reservation],
        }
    if capacity and capacity.placement_policy:
        properties["resource_policies"] = [f"regions/{region}/resourcePolicies/{capacity.placement_policy}"]
    return properties


def options(capacity: GcpCapacity | None, market: str) -> Iterator[CloudOption]:
    """What the plan and the review say."""
    if market == FLEX_START:
        yield CloudOption(
            "market",
            "flex-start: GCP starts it when it has room, for which it waits half an hour, and ends it after seven days at the latest",
            severity="note",
            title="The machine is a flex-start instance",
            reason="GCP starts it when it has room, does not take it back before its end, and ends it after seven days at the latest",
            unpriced="the price of flex-start machines is not in the catalog",
        )
    if capacity and capacity.reservation:
        yield CloudOption(
            _KEY,
            f"only in reservation {capacity.reservation}, at the on-demand price",
            severity="note",
            title=f"The machine runs in reservation {capacity.reservation}",
            reason="the reservation is billed at the same price while it exists, whether or not the machine runs",
        )
    if capacity and capacity.placement_policy:
        yield CloudOption(_KEY, f"with placement policy {capacity.placement_policy}")
