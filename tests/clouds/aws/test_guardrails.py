"""What an organisation denies on AWS is named as such: by a service control policy, by Allowed AMIs, by what the account enforces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from provision.clouds import base
from provision.clouds.aws.client import client
from provision.errors import ImageNotFoundError, PermissionRefusedError
from tests.clouds.aws.rig import REGION, AwsRig

CANONICAL = "099720109477"


def denying(action: str) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": action, "Resource": "*"}]}


def launched(rig: AwsRig) -> base.Instance:
    (machine,) = rig.cloud().launch(rig.order())
    return rig.cloud().wait_running(machine, timeout_s=240)


CALLS: dict[str, Callable[[AwsRig, base.Instance], object]] = {
    "ec2:DescribeInstances": lambda rig, _: rig.cloud().find(),
    "ec2:DescribeInstanceTypeOfferings": lambda rig, _: rig.cloud().zones(rig.order()),
    "ssm:GetParameter": lambda rig, _: rig.cloud().launch(rig.order()),
    "ec2:CreateSecurityGroup": lambda rig, _: rig.cloud().launch(rig.order()),
    "ec2:AuthorizeSecurityGroupIngress": lambda rig, _: rig.cloud().launch(rig.order()),
    "ec2:RunInstances": lambda rig, _: rig.cloud().launch(rig.order()),
    "ec2:GetConsoleOutput": lambda rig, machine: rig.cloud().host_keys(machine, timeout_s=0),
    "ec2:StopInstances": lambda rig, machine: rig.cloud().stop([machine], timeout_s=0),
    "ec2:TerminateInstances": lambda rig, machine: rig.cloud().remove(rig.cloud().things(machine.group), on_step=lambda _: None),
    "ec2:DescribeTags": lambda rig, machine: rig.cloud().things(machine.group),
}


@pytest.mark.parametrize("action", CALLS)
def test_a_call_that_a_service_control_policy_denies_says_so(rig: AwsRig, action: str) -> None:
    machine = launched(rig)
    rig.set(guardrail=denying(action))
    with pytest.raises(PermissionRefusedError, match=f"a service control policy denies {action} in {REGION}") as caught:
        CALLS[action](rig, machine)
    assert "no permission of yours is missing" in caught.value.hint


@pytest.mark.parametrize("action", ["ec2:RunInstances", "ec2:CreateSecurityGroup"])
def test_the_dry_run_before_a_launch_shows_a_service_control_policy_by_name(rig: AwsRig, action: str) -> None:
    rig.set(guardrail=denying(action))
    answers = {a.about: a for a in rig.cloud().examine(rig.order())}
    assert answers["dry-run"].holds is False
    assert f"a service control policy denies {action} in {REGION}" in answers["dry-run"].said


def test_an_image_that_allowed_amis_leave_out_is_said_before_the_launch_and_at_it(rig: AwsRig) -> None:
    order = rig.order()
    rig.set(allowed_amis={"state": "audit-mode", "owners": ["123456789012"]})
    said = {a.about: a for a in rig.cloud().examine(order)}["image"]
    assert said.holds is False
    assert "Allowed AMIs do not admit ami-" in said.said
    assert f"of owner {CANONICAL}" in said.said
    rig.set(allowed_amis={"state": "enabled", "owners": ["123456789012"]})
    said = {a.about: a for a in rig.cloud().examine(order)}["image"]
    assert said.holds is False
    assert "Allowed AMIs" in said.said
    with pytest.raises(ImageNotFoundError) as caught:
        rig.cloud().launch(order)
    assert "Allowed AMIs" in caught.value.hint
    rig.set(allowed_amis={"state": "enabled", "owners": [CANONICAL]})
    assert {a.about: a for a in rig.cloud().examine(order)}["image"].holds
    assert rig.cloud().launch(order)


def test_an_account_that_enforces_imdsv2_takes_our_launch_and_no_other(rig: AwsRig) -> None:
    rig.set(imds_tokens_enforced=True)
    (machine,) = rig.cloud().launch(rig.order())
    image = rig.cloud()._images.of(rig.order()).id
    with pytest.raises(ClientError, match="IMDSv2"):
        client("ec2", REGION, rig.access).run_instances(ImageId=image, InstanceType="g4dn.xlarge", MinCount=1, MaxCount=1)
    assert machine.id
