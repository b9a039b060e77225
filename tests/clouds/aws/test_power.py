"""Machines of AWS that are stopped, started and lost."""

from __future__ import annotations

import pytest

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
