"""Machines of AWS that are stopped, started and lost."""

from __future__ import annotations

import botocore.exceptions as boto
import pytest

from provision.clouds.refusals import MachineRefusedError
from provision.errors import InstanceLostError
from tests.clouds.aws.rig import AwsRig


def test_a_new_address_after_off_and_on(rig: AwsRig) -> None:
    cloud = rig.cloud()
    (machine,) = cloud.launch(rig.order())
    before = cloud.wait_running(machine, timeout_s=240)
    cloud.stop([before], timeout_s=240)
    assert cloud.find(before.group)[0].address == ""
    (after,) = cloud.start(cloud.find(before.group), timeout_s=240)
    assert after.address not in {"", before.address}


def test_a_machine_that_ended_is_lost_at_once(rig: AwsRig) -> None:
    cloud = rig.cloud()
    (machine,) = cloud.launch(rig.order())
    rig.client.terminate_instances(InstanceIds=[machine.id])
    with pytest.raises(InstanceLostError, match=machine.id):
        cloud.wait_running(machine, timeout_s=240)


def test_a_spot_machine_is_not_stopped_and_the_hint_says_what_ends_it(rig: AwsRig) -> None:
    cloud = rig.cloud()
    (machine,) = cloud.launch(rig.order(market="spot"))
    running = cloud.wait_running(machine, timeout_s=240)
    rig.forget()
    with pytest.raises(MachineRefusedError, match="one-time spot") as caught:
        cloud.stop([running], timeout_s=20)
    assert f"`gpuprov down {machine.group}`" in caught.value.hint
    assert rig.calls() == []
    with pytest.raises(boto.ClientError, match="UnsupportedOperation"):  # EC2 itself says the same
        rig.client.stop_instances(InstanceIds=[machine.id])


def test_a_protected_machine_says_how_its_protection_is_taken_off(rig: AwsRig) -> None:
    cloud = rig.cloud()
    (machine,) = cloud.launch(order := rig.order())
    rig.client.modify_instance_attribute(InstanceId=machine.id, DisableApiTermination={"Value": True})
    with pytest.raises(MachineRefusedError, match="may not be terminated") as caught:
        cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    assert f"--instance-id {machine.id} --no-disable-api-termination`" in caught.value.hint
    rig.client.modify_instance_attribute(InstanceId=machine.id, DisableApiTermination={"Value": False})
    cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    assert [thing for thing in cloud.things(order.name) if thing.alive] == []
