"""GCP keeps the contract, through real google-cloud-compute over HTTP against the embedded GCP; and what is GCP's alone."""

from __future__ import annotations

import datetime as dt

import pytest

from provision.clouds import base
from provision.clouds.base import TokenSpentError
from provision.clouds.gcp.cloud import GcpCloud
from provision.errors import CapacityError, CloudInvalidError, NameTakenError
from provision.structs import replace
from tests.clouds.contract import Rig, ZonedContract, ids
from tests.clouds.gcp.rig import REGION, ZONE, GcpRig


class TestContract(ZonedContract):
    """The suite of all clouds."""

    def test_fewer_than_asked_for_and_enough(self, rig: Rig) -> None:
        """Which of them a bulk insert makes is not said; the next attempt is for those that are missing."""
        order = rig.order(count=3, minimum=2)
        zone, other, *_ = rig.cloud().zones(order)
        rig.stock({zone: 2})
        machines = rig.cloud().launch(order.at(zone))
        assert len(machines) == 2
        tags = {**order.tags, base.FIRST_TAG: "3"}
        rest = replace(order.at(other), first=3, count=1, minimum=1, tags=tags)
        machines += rig.cloud().launch(rest)
        assert sorted(i.name for i in machines) == [f"{order.name}-{n}" for n in (1, 2, 3)]
        assert [i.name for i in rig.cloud().launch(rest)] == [machines[-1].name]

    @pytest.mark.parametrize("zone", [ZONE, ""])
    def test_an_attempt_fills_the_gap_that_another_left(self, rig: GcpRig, zone: str) -> None:
        order = rig.order(count=3, minimum=1)
        second = replace(order, first=2, count=1, tags={**order.tags, base.FIRST_TAG: "2"}).at(ZONE)
        rig.cloud().launch(second)
        rest = replace(order, count=2, minimum=2).at(zone)
        others = rig.cloud().launch(rest)
        assert sorted(i.name for i in others) == [f"{order.name}-1", f"{order.name}-3"]
        assert ids(rig.cloud().launch(rest)) == ids(others)

    def test_the_deadline_moves(self, rig: Rig) -> None:
        """On GCP that of a stopped machine alone; a running one keeps it, and it is said."""
        order, cloud = rig.order(), rig.cloud()
        (machine,) = cloud.launch(order)
        running = cloud.wait_running(machine, timeout_s=240)
        later = order.deadline + dt.timedelta(hours=3)
        with pytest.raises(CloudInvalidError, match="is not stopped") as caught:
            cloud.extend([running], later)
        assert f"gpuprov stop {order.name}" in caught.value.hint
        assert cloud.find(order.name)[0].deadline == order.deadline.isoformat()
        cloud.stop([running], timeout_s=240)
        cloud.extend(cloud.find(order.name), later)
        (current,) = cloud.find(order.name)
        assert dt.datetime.fromisoformat(current.deadline) == later
        cloud.start([current], timeout_s=240)
        assert cloud.notices([current]) == {}  # GCE's own time limit is the deadline of the tag


def test_the_operation_and_not_the_call_says_that_there_is_no_machine(rig: GcpRig) -> None:
    order = rig.order().at(ZONE)
    rig.stock({ZONE: 0})
    with pytest.raises(CapacityError) as caught:
        rig.cloud().launch(order)
    assert set(caught.value.elsewhere) == {"asia-east1-c"}
    assert "asia-east1-c" in caught.value.message
    assert rig.calls().count(rig.making) == 1


def test_a_warm_launch_is_four_kinds_of_calls(rig: GcpRig) -> None:
    rig.cloud().launch(rig.order(ssh_from=("192.0.2.0/24",)).at(ZONE))
    waits = {"compute.zoneOperations.wait", "compute.globalOperations.wait"}
    before = [a for a in rig.named() if a not in waits]
    assert sorted(before) == ["compute.firewalls.insert", "compute.firewalls.insert", "compute.instances.get", "compute.instances.insert"]
    assert before.index("compute.instances.insert") == 2  # the rules are accepted before there is a machine


def test_host_keys_come_from_the_guest_attributes(rig: GcpRig) -> None:
    cloud = rig.cloud()
    (machine,) = cloud.launch(rig.order().at(ZONE))
    running = cloud.wait_running(machine, timeout_s=240)
    keys = cloud.host_keys(running, timeout_s=240)
    assert [key.split(" ")[0] for key in keys] == ["ssh-ed25519"]


def test_another_machine_of_that_name_is_not_adopted(rig: GcpRig) -> None:
    first = rig.order().at(ZONE)
    cloud = rig.cloud()
    cloud.launch(first)
    cloud.remove([t for t in cloud.things(first.name) if t.kind == "firewall"], on_step=lambda _: None)  # as if nobody claimed the name
    with pytest.raises(NameTakenError, match=f"gpuprov-{first.name}"):
        rig.cloud().launch(rig.order(first.name).at(ZONE))


def test_a_machine_of_our_own_launch_is_adopted_when_the_request_is_a_new_one(rig: GcpRig) -> None:
    order = rig.order().at(ZONE)
    (machine,) = rig.cloud().launch(order)
    again = rig.cloud()
    again._failures[order.token(REGION)] = 7  # as after failed tries of this process: another request id, the same name
    assert [i.id for i in again.launch(order)] == [machine.id]


def test_find_sees_the_whole_project(rig: GcpRig) -> None:
    order = rig.order().at("europe-west4-a")
    (machine,) = GcpCloud("europe-west4", rig.access).launch(order)
    assert machine.region == "europe-west4"
    assert [i.region for i in rig.cloud().find(order.name)] == ["europe-west4"]


@pytest.mark.parametrize("operation_s", [0.0, 0.1])
def test_an_attempt_that_failed_is_not_answered_with_its_old_failure(rig: GcpRig, operation_s: float) -> None:
    rig.set(gce_operation_s=operation_s)
    order = rig.order().at(ZONE)
    rig.stock({ZONE: 0})
    rig.forget()
    for _ in range(2):
        with pytest.raises(CapacityError):
            rig.cloud().launch(order)  # each time a client that knows nothing of the one before
    rig.set(gce_capacity={})
    (machine,) = rig.cloud().launch(order)
    assert [i.id for i in rig.cloud().find(order.name)] == [machine.id]
    assert rig.calls().count(rig.making) == 1 + 2 + 3


@pytest.mark.parametrize("zone", [ZONE, ""])
def test_what_no_list_shows_yet_is_there_by_its_name(rig: GcpRig, zone: str) -> None:
    """Google's lists may be late: neither is a launch short of machines then, nor is it gone."""
    order = rig.order(count=2, minimum=2).at(zone)
    rig.set(gce_unseen_s=60.0)
    machines = rig.cloud().launch(order)
    assert ids(rig.cloud().launch(order)) == ids(machines)
    assert rig.cloud().things(order.name) == []
    made = tuple((machine.id, machine.zone) for machine in machines)
    found = rig.cloud().things(order.name, base.Known(order.name, order.launch_id, "", made))
    assert {thing.kind for thing in found} == {"instance", "firewall"}
    assert {thing.id for thing in found if thing.kind == "instance"} == {machine.id for machine in machines}
    attempts = (("", zone, (f"{order.name}-1", f"{order.name}-2")),)
    assert len(rig.cloud().things(order.name, base.Known(order.name, order.launch_id, "", (), attempts))) == (4 if zone else 2)
    assert rig.cloud().things(order.name, base.Known(order.name, "f" * 32, "", made)) == []
    rig.set(gce_unseen_s=0.0)
    rig.cloud().remove(found, on_step=lambda _: None)


def test_a_request_id_whose_machine_has_ended_is_spent_and_the_next_one_makes_another(rig: GcpRig) -> None:
    order = rig.order().at(ZONE)
    rig.cloud().launch(order)
    rig.cloud().remove([thing for thing in rig.cloud().things(order.name) if thing.kind == "instance"], on_step=lambda _: None)
    again = rig.cloud()
    with pytest.raises(TokenSpentError):
        again.launch(order)
    assert [i.name for i in again.launch(order)] == [order.name]
