"""What was just made is not known to other calls yet, and that is never taken for "it is not there"."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from provision.clouds import base
from provision.clouds.aws.cloud import AwsCloud
from provision.errors import CloudUnreachableError, PermissionRefusedError
from provision.rehearsal import control
from tests.clouds.aws.orders import order
from tests.clouds.aws.rig import AwsRig, raw

FOR_EVER_S, SHOWN_S = 1e9, 0.5


def fresh() -> base.Order:
    launch = uuid.uuid4().hex
    return order(name=f"late-{launch[:8]}", launch_id=launch, tags={base.NAME_TAG: f"late-{launch[:8]}", base.LAUNCH_TAG: launch})


def known(asked: base.Order, *machines: base.Instance) -> base.Known:
    return base.Known(asked.name, asked.launch_id, "isa@example.org", tuple((machine.id, machine.zone) for machine in machines))


@contextmanager
def late(rig: AwsRig) -> Iterator[None]:
    """Nothing that was made is known, until a moment later."""
    rig.set(lag_s=FOR_EVER_S)
    shown = threading.Timer(SHOWN_S, lambda: rig.set(lag_s=0.0))
    shown.start()
    try:
        yield
    finally:
        shown.join()


def fail(rig: AwsRig, **rule: object) -> None:
    control.ask(rig.ec2, "faults", method="PUT", body=[rule])


def test_a_machine_that_ec2_does_not_know_yet_is_ended_and_not_taken_for_gone(rig: AwsRig) -> None:
    cloud, asked = rig.cloud(), fresh()
    (machine,) = cloud.launch(asked)
    with late(rig):
        found = cloud.things(asked.name, base.Known(asked.name, asked.launch_id, "", ((machine.id, machine.zone),)))
        cloud.remove([thing for thing in found if thing.kind == "instance"], on_step=lambda _: None)
    assert raw(rig, machine.id)["State"]["Name"] in {"shutting-down", "terminated"}
    cloud.remove(cloud.things(asked.name), on_step=lambda _: None)


def test_a_group_whose_rule_was_refused_is_found_although_it_is_late(rig: AwsRig) -> None:
    cloud, asked = rig.cloud(), fresh()
    fail(rig, kind="error", action="AuthorizeSecurityGroupIngress", code="UnauthorizedOperation", http=403)
    with late(rig):
        with pytest.raises(PermissionRefusedError):
            cloud.launch(asked)
        found = cloud.things(asked.name, known(asked))
    assert [thing.kind for thing in found] == ["security-group"]
    cloud.remove(found, on_step=lambda _: None)
    assert cloud.things(asked.name, known(asked)) == []


def test_a_launch_goes_on_with_a_group_whose_answer_was_lost_and_which_is_late(rig: AwsRig) -> None:
    cloud, asked = rig.cloud(), fresh()
    fail(rig, kind="lost", action="CreateSecurityGroup", count=1)
    with late(rig):
        with pytest.raises(CloudUnreachableError):
            cloud.launch(asked)
        (machine,) = cloud.launch(asked)
    cloud.remove(cloud.things(asked.name, known(asked, machine)), on_step=lambda _: None)


def test_the_machine_of_a_token_is_waited_for_and_no_second_one_made(rig: AwsRig) -> None:
    cloud, asked = rig.cloud(), fresh()
    (machine,) = cloud.launch(asked)
    fail(rig, kind="error", action="RunInstances", code="IdempotentParameterMismatch")
    with late(rig):
        assert [each.id for each in cloud.launch(asked)] == [machine.id]
    cloud.remove(cloud.things(asked.name), on_step=lambda _: None)


def test_port_22_is_moved_while_the_tags_of_the_group_are_late(rig: AwsRig) -> None:
    cloud, asked = rig.cloud(), fresh()
    cloud.launch(asked)
    rig.set(tags_s=FOR_EVER_S)
    assert AwsCloud(cloud.region, rig.access).allow(asked.name, ["198.51.100.4/32"]) == ["198.51.100.4/32"]
    rig.set(tags_s=0.0)
    cloud.remove(cloud.things(asked.name), on_step=lambda _: None)
