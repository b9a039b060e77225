"""Capacity of one's own on GCP, through Google's client against the embedded Compute Engine: reservations, policies, flex-start."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from provision.clouds import base
from provision.clouds.gcp import permissions
from provision.clouds.gcp.place import GcpPlace
from provision.errors import CapacityError, CloudInvalidError, PermissionRefusedError
from tests.clouds.gcp.rig import ZONE, GcpRig
from tests.waiting import LONG_S, until


def place(*, market: str = "on-demand", **capacity: Any) -> GcpPlace:
    plain = {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "zones": [ZONE], "market": market, "capacity": capacity or None}
    return GcpPlace.model_validate(plain)


def reserved(rig: GcpRig, free: int, **more: Any) -> None:
    rig.set(gce_reservations={"ours": {"zone": ZONE, "machine_type": "n1-standard-8", "count": 4, "used": 4 - free, **more}})


@pytest.fixture(autouse=True)
def _as_before(rig: GcpRig) -> Any:
    yield
    rig.set(gce_reservations=None, gce_placement_policies=None)


def test_a_reservation_is_used_alone(rig: GcpRig) -> None:
    reserved(rig, free=1)
    order = rig.order(place=place(reservation="ours")).at(ZONE)
    assert len(rig.cloud().launch(order)) == 1
    with pytest.raises(CloudInvalidError, match="do not have available resources"):
        rig.cloud().launch(rig.order(name="second", place=order.place).at(ZONE))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"free": 0}, "0 of 4 free"),
        ({"free": 4, "machine_type": "n1-standard-4"}, "n1-standard-4"),
        ({"free": 4, "status": "CREATING"}, "CREATING"),
    ],
)
def test_a_plan_that_asks_says_what_is_wrong_with_a_reservation(rig: GcpRig, row: dict[str, Any], words: str) -> None:
    reserved(rig, **row)
    answers = {answer.about: answer for answer in rig.cloud().examine(rig.order(place=place(reservation="ours")).at(ZONE))}
    assert answers["capacity"].holds is False
    assert words in answers["capacity"].said
    reserved(rig, free=1)
    answers = {answer.about: answer for answer in rig.cloud().examine(rig.order(place=place(reservation="ours")).at(ZONE))}
    assert answers["capacity"].holds is True


def test_what_a_place_names_and_the_project_lacks_is_refused(rig: GcpRig) -> None:
    rig.set(gce_reservations={}, gce_placement_policies=[])
    with pytest.raises(CloudInvalidError, match="ours"):
        rig.cloud().launch(rig.order(place=place(reservation="ours")).at(ZONE))
    with pytest.raises(CloudInvalidError, match="close"):
        rig.cloud().launch(rig.order(place=place(placement_policy="close")).at(ZONE))


def flexible(rig: GcpRig, **more: Any) -> base.Order:
    return rig.order(**{"market": "flex-start", "instance_type": "g2-standard-4", "gpu": "l4", **more}).at(ZONE)


def test_a_flex_start_machine_is_listed_as_one(rig: GcpRig) -> None:
    order = flexible(rig)
    (machine,) = rig.cloud().launch(order)
    assert machine.market == "flex-start"
    assert [found.market for found in rig.cloud().find(order.name)] == ["flex-start"]


def test_a_flex_start_machine_is_waited_for_until_its_zone_has_room(rig: GcpRig) -> None:
    rig.set(gce_capacity={ZONE: 0})
    order = flexible(rig)
    with ThreadPoolExecutor(1) as beside:
        launch = beside.submit(rig.cloud().launch, order)
        until(lambda: [i.state for i in rig.cloud().find(order.name)] == ["pending"])
        assert not launch.done()
        rig.set(gce_capacity={})
        (machine,) = launch.result(timeout=LONG_S)
    assert rig.cloud().wait_running(machine, timeout_s=LONG_S).state == "running"


def test_a_flex_start_machine_that_gets_no_room_in_its_time_is_gone_and_the_next_place_is_tried(
    rig: GcpRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.set(gce_capacity={ZONE: 0}, gce_shortest_wait_s=0)
    monkeypatch.setattr("provision.clouds.gcp.capacity.FLEX_START_WAITS_S", 1)
    order = flexible(rig)
    with pytest.raises(CapacityError):
        rig.cloud().launch(order)
    rig.set(gce_capacity={}, gce_shortest_wait_s=90)
    assert rig.cloud().find(order.name) == []


def test_flex_start_is_refused_of_n1_and_for_several_at_once(rig: GcpRig) -> None:
    with pytest.raises(CloudInvalidError, match="not compatible"):
        rig.cloud().launch(flexible(rig, instance_type="n1-standard-8", gpu="t4"))
    with pytest.raises(CloudInvalidError, match="one at a time"):
        rig.cloud().launch(flexible(rig, count=2))


@pytest.mark.parametrize(
    ("capacity", "actions"),
    [
        ({"reservation": "ours"}, {"compute.reservations.get"}),
        ({"placement_policy": "close"}, {"compute.resourcePolicies.get", "compute.resourcePolicies.use"}),
    ],
)
def test_the_permissions_grow_by_what_a_place_names_and_by_no_more(rig: GcpRig, capacity: dict[str, Any], actions: set[str]) -> None:
    order = rig.order(place=place(**capacity)).at(ZONE)
    needed = set(permissions.permissions(order))
    assert needed - set(permissions.permissions(rig.order().at(ZONE))) == actions
    for action in sorted(actions):
        rig.set(gce_allowed=sorted(needed - {action}))
        if action.endswith(".get"):
            answers = {answer.about: answer for answer in rig.cloud().examine(order)}
            assert answers["capacity"].holds is None
            assert action in answers["capacity"].said
        else:
            with pytest.raises(PermissionRefusedError, match=action):
                rig.cloud().launch(order)
    rig.set(gce_allowed=sorted(needed))
    assert [answer.about for answer in rig.cloud().examine(order) if answer.holds is False] == []
    assert len(rig.cloud().launch(order)) == 1
