"""Machines of GCP that are stopped, started and lost."""

from __future__ import annotations

import datetime as dt

import pytest
from google.cloud import compute_v1

from provision.clouds import base
from provision.clouds.gcp import requests
from provision.clouds.gcp.client import client
from provision.clouds.gcp.errors import ChangedMeanwhileError
from provision.clouds.refusals import MachineRefusedError
from provision.errors import CloudInvalidError, InstanceLostError
from provision.rehearsal import control
from provision.rehearsal.gcp.settings import PROJECT
from tests.clouds.gcp.rig import ZONE, GcpRig


def test_a_machine_that_is_gone_while_it_is_waited_for_is_lost(rig: GcpRig) -> None:
    rig.set(gce_running_s=5.0)
    cloud = rig.cloud()
    order = rig.order().at(ZONE)
    (machine,) = cloud.launch(order)
    cloud.remove([t for t in cloud.things(order.name) if t.kind == "instance"], on_step=lambda _: None)
    with pytest.raises(InstanceLostError, match="gone"):
        cloud.wait_running(machine, timeout_s=5)


def test_a_machine_with_a_local_ssd_can_be_stopped(rig: GcpRig) -> None:
    cloud = rig.cloud()
    (machine,) = cloud.launch(rig.order(instance_store=True).at(ZONE))
    running = cloud.wait_running(machine, timeout_s=240)
    cloud.stop([running], timeout_s=240)
    assert cloud.find(machine.group)[0].state == "stopped"


def test_a_start_after_the_deadline_is_refused_with_the_way_out(rig: GcpRig) -> None:
    cloud = rig.cloud()
    (machine,) = cloud.launch(rig.order().at(ZONE))
    cloud.stop([cloud.wait_running(machine, timeout_s=240)], timeout_s=20)
    (stopped,) = cloud.find(machine.group)
    rig.write_tags(machine.id, {base.DEADLINE_TAG: "2026-01-01T00:00:00+00:00"})
    with pytest.raises(CloudInvalidError) as caught:
        cloud.start([stopped], timeout_s=240)
    assert "gpuprov extend" in caught.value.hint


def test_a_protected_machine_says_how_its_protection_is_taken_off(rig: GcpRig) -> None:
    cloud = rig.cloud()
    order = rig.order().at(ZONE)
    (machine,) = cloud.launch(order)
    words = "Invalid resource usage: 'Resource cannot be deleted if it's protected against deletion. x'."
    rule = {"kind": "error", "action": r"compute\.instances\.delete", "code": "invalidUsage", "http": 400, "message": words}
    control.ask(rig.rehearsal, "faults", method="PUT", body=[rule])
    with pytest.raises(MachineRefusedError, match="protected against deletion") as caught:
        cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    assert f"update {machine.id} --zone {ZONE} --no-deletion-protection`" in caught.value.hint


def test_a_deadline_moves_though_somebody_else_writes_metadata_meanwhile(rig: GcpRig) -> None:
    """setMetadata is refused with 412 where the fingerprint is an old one; what the other wrote stays."""
    cloud = rig.cloud()
    order = rig.order().at(ZONE)
    (machine,) = cloud.launch(order)
    cloud.stop([cloud.wait_running(machine, timeout_s=240)], timeout_s=240)
    words = "Supplied fingerprint does not match current metadata fingerprint."
    rule = {"kind": "error", "action": r"compute\.instances\.setMetadata", "code": "conditionNotMet", "http": 412, "message": words}
    rig.faults({**rule, "count": 4})
    later = order.deadline + dt.timedelta(hours=3)
    cloud.extend(cloud.find(order.name), later)
    assert cloud.find(order.name)[0].deadline == later.isoformat()
    rig.faults(rule)
    with pytest.raises(ChangedMeanwhileError):
        cloud.extend(cloud.find(order.name), later)
    assert rig.named().count("compute.instances.setMetadata") == 10


def test_a_machine_that_stopped_while_nobody_looked_says_why(rig: GcpRig) -> None:
    rig.set(gce_stops={ZONE: "Instance stopped due to preemption."})
    order = rig.order().at(ZONE)
    made = compute_v1.Instance.from_json(
        compute_v1.Instance.to_json(compute_v1.Instance(**requests.instance(order, f"gpuprov-{order.name}")))
    )
    client("InstancesClient", rig.access).insert_unary(project=PROJECT, zone=ZONE, instance_resource=made)
    (machine,) = rig.cloud().find(order.name)
    with pytest.raises(InstanceLostError, match=r"it is stop.*: Instance stopped due to preemption\."):
        rig.cloud().wait_running(machine, timeout_s=240)
