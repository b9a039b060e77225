"""A fleet of a profile: its place, its store and the order of its members, from which the policies of a review are computed too."""

import re

from provision import clouds
from provision.clouds.fleet import FleetOrder, FleetPlan
from provision.errors import GpuprovError, UsageError
from provision.launch import place
from provision.launch.plan import Plan, draft_order
from provision.profile.strings import STORE
from provision.structs import Struct


def parsed_store(cloud: str, text: str) -> tuple[str, str]:
    """The bucket and the prefix of an address; the prefix is empty or ends with a slash.

    Raises:
        UsageError: it is none of that cloud.
    """
    bucket, found = clouds.provider(cloud).bucket, re.fullmatch(STORE, text)
    if bucket is None or found is None or found[1] != bucket.scheme:
        scheme = bucket.scheme if bucket else "SCHEME"
        msg = f"{text!a} is not a store on {cloud}"
        raise UsageError(msg, hint=f"write {scheme}://BUCKET or {scheme}://BUCKET/PREFIX, with letters, digits, `_` and `-` in the prefix")
    return found[2], f"{found[3][1:]}/" if found[3] else ""


def place_of(planned: Plan, store: str = "", only: str | None = None) -> place.Option:
    """The first place that can be launched in and whose cloud has fleets and, if one is given, this kind of store.

    Without any whose cloud has this kind of store it is the first with fleets, so that whoever reads the store says what is wrong.

    Args:
        planned: has the places.
        store: the address of the store.
        only: the one cloud whose places count; None for all.

    Raises:
        GpuprovError: no place can be used, or no cloud of these has fleets.
    """
    options = place.options(planned, only)
    place.check_any(planned, options)
    usable, refused = list[place.Option](), list[GpuprovError]()
    for option in options:
        if option.refusal:
            continue
        try:
            clouds.fleets(option.cloud)
        except GpuprovError as error:
            refused.append(error)
        else:
            usable.append(option)
    if not usable:
        raise refused[0]
    cloud = clouds.fleet_stores([option.cloud for option in usable]).get(store.partition("://")[0])
    return next((option for option in usable if option.cloud == cloud), usable[0])


class PlannedFleet(Struct):
    """The fleet that a profile plans.

    Attributes:
        store: its address, as the profile has it.
        option: where it is launched.
        policies: of its members and of whoever runs `gpuprov fleet`.
    """

    store: str
    option: place.Option
    policies: FleetPlan


def planned_fleet(planned: Plan, store: str) -> PlannedFleet:
    """The fleet of a plan, with placeholders for the values of a launch. Nobody is contacted.

    Raises:
        GpuprovError: none can be made of this profile: the reason is its text.
    """
    option = place_of(planned, store)
    bucket, prefix = parsed_store(option.cloud, store)
    machine = draft_order(planned.profile, planned.profile_sha256, planned.name, option.first)
    policies = clouds.fleets(option.cloud).plan(FleetOrder(machine, bucket, prefix, ""), option.region)
    return PlannedFleet(store, option, policies)
