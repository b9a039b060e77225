"""AWS keeps the contract, through real boto3 over HTTP against the embedded EC2; and what is AWS's alone."""

from __future__ import annotations

import pytest

from provision.errors import CapacityError, CloudError, InstanceLostError, PermissionRefusedError, QuotaExceededError
from provision.structs import replace
from tests.clouds.aws.rig import AwsRig, raw
from tests.clouds.contract import ZonedContract, alive


class TestContract(ZonedContract):
    """The suite of all clouds."""


def test_a_tag_that_the_organisation_demands_is_in_the_launching_call_and_its_policy_is_named_where_it_lacks(rig: AwsRig) -> None:
    demanded = {
        "Effect": "Deny",
        "Action": "ec2:RunInstances",
        "Resource": ["arn:aws:ec2:*:*:instance/*", "arn:aws:ec2:*:*:volume/*", "arn:aws:ec2:*:*:network-interface/*"],
        "Condition": {"Null": {"aws:RequestTag/CostCenter": "true"}},
    }
    rig.set(guardrail={"Version": "2012-10-17", "Statement": [demanded]})
    order = rig.order()
    with pytest.raises(PermissionRefusedError, match="a service control policy denies ec2:RunInstances in") as caught:
        rig.cloud().launch(order)
    assert "`tags:` in the profile" in caught.value.hint
    rig.cloud().launch(replace(order, tags={**order.tags, "CostCenter": "4711"}))
    assert len(rig.cloud().find(order.name)) == 1


def test_a_warm_launch_is_four_calls_and_a_look_whether_it_started(rig: AwsRig) -> None:
    cloud = rig.cloud()
    image = cloud._images.of(rig.order()).id  # what a lock holds
    order = rig.order(count=64, minimum=64, image_id=image)
    rig.forget()
    cloud.find(order.name)
    assert len(cloud.launch(order)) == 64
    calls = rig.calls()
    assert calls[:4] == ["DescribeInstances", "CreateSecurityGroup", "AuthorizeSecurityGroupIngress", "RunInstances"]
    assert set(calls[4:]) == {"DescribeInstances"}


def test_spot_is_asked_for_once_and_its_interruption_is_announced(rig: AwsRig) -> None:
    order = rig.order(market="spot")
    cloud = rig.cloud()
    (machine,) = cloud.launch(order)
    assert machine.market == "spot"
    (request,) = [t for t in cloud.things(order.name) if t.kind == "spot-request"]
    assert raw(rig, machine.id)["SpotInstanceRequestId"] == request.id
    assert cloud.notices([machine]) == {}
    rig.set(spot_status={machine.id: "marked-for-termination"})
    assert "marked-for-termination" in cloud.notices([machine])[machine.id][0]
    cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    assert alive(cloud, order.name) == []


def test_a_spot_machine_above_the_limit_is_not_launched(rig: AwsRig) -> None:
    order = rig.order(market="spot")
    with pytest.raises(CapacityError, match="lower than the minimum required"):
        rig.cloud().launch(replace(order, spot_limit_usd=0.01))
    assert len(rig.cloud().launch(replace(order, spot_limit_usd=5.0))) == 1


def test_a_subnet_is_in_no_other_zone(rig: AwsRig) -> None:
    order = rig.order()
    zone, *_ = rig.cloud().zones(order)
    inside = rig.order(subnet=rig.subnet(zone))
    assert rig.cloud().zones(inside) == [zone]
    rig.stock({zone: 0})
    with pytest.raises(CapacityError) as caught:
        rig.cloud().launch(inside)
    assert caught.value.elsewhere == ()
    answers = {a.about: a for a in rig.cloud().examine(rig.order(subnet="subnet-0123456789abcdef0"))}
    assert answers["dry-run"].holds is False
    assert "subnet-0123456789abcdef0" in answers["dry-run"].said


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("Server.InsufficientInstanceCapacity", CapacityError),
        ("Client.VolumeLimitExceeded", QuotaExceededError),
    ],
)
def test_a_launch_that_ends_for_lack_of_room_after_it_was_accepted_is_a_shortage_and_leaves_no_machine(
    rig: AwsRig, code: str, kind: type[CloudError]
) -> None:
    rig.set(ends={rig.region: code})
    order = rig.order(count=2, minimum=2)
    with pytest.raises(CloudError) as caught:
        rig.cloud().launch(order)
    assert type(caught.value) is kind
    assert "ended while it started" in caught.value.message
    assert [thing.kind for thing in rig.cloud().things(order.name) if thing.alive] == ["security-group"]


def test_what_ends_for_another_reason_is_told_with_ec2s_own_sentence(rig: AwsRig) -> None:
    rig.set(ends={rig.region: "Server.InternalError"})
    (machine,) = rig.cloud().launch(rig.order())
    with pytest.raises(InstanceLostError, match=r"it is terminated \(Server.InternalError\): .*: it ended while"):
        rig.cloud().wait_running(machine, timeout_s=5)
