"""Removing what other things still hold."""

from __future__ import annotations

from provision.rehearsal import control
from tests.clouds.aws.rig import AwsRig
from tests.clouds.contract import alive


def test_a_group_that_is_still_held_is_waited_for(rig: AwsRig) -> None:
    rig.set(ending_s=0.5)
    cloud = rig.cloud()
    order = rig.order()
    cloud.launch(order)
    cloud.remove([t for t in cloud.things(order.name) if t.kind != "security-group"], on_step=lambda _: None)
    control.ask(
        rig.ec2,
        "faults",
        method="PUT",
        body=[{"kind": "error", "action": "DeleteSecurityGroup", "code": "DependencyViolation", "count": 3}],
    )
    cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    assert rig.calls().count("DeleteSecurityGroup") == 4
    assert alive(cloud, order.name) == []
