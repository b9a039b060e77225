"""What AWS is asked before a launch about the account and the region, in each of its bad states."""

from __future__ import annotations

from typing import Any

import pytest

from provision.clouds.aws import permissions
from provision.clouds.refusals import RegionRefusedError
from tests.clouds.aws.rig import REGION, AwsRig

GOOD: dict[str, Any] = {
    "no_default_vpc": [],
    "block_public_access": {},
    "exclusions_allowed": "allowed",
    "service_roles": None,
    "allowed": None,
}


def asked(rig: AwsRig, about: str, order: dict[str, Any] | None = None, **settings: Any) -> tuple[bool | None, str]:
    rig.set(**{**GOOD, **settings})
    try:
        answers = {answer.about: answer for answer in rig.cloud().examine(rig.order(**(order or {})))}
        return answers[about].holds, answers[about].said
    finally:
        rig.set(**GOOD)


def test_a_region_without_a_default_network_is_known_before_and_refuses_the_launch(rig: AwsRig) -> None:
    assert asked(rig, "network")[0] is True
    holds, said = asked(rig, "network", no_default_vpc=[REGION])
    assert (holds, "network.subnet" in said) == (False, True)
    assert asked(rig, "network", {"zone": f"{REGION}z"})[0] is False
    rig.set(no_default_vpc=[REGION])
    with pytest.raises(RegionRefusedError):
        rig.cloud().launch(rig.order())
    rig.set(**GOOD)


@pytest.mark.parametrize(
    ("mode", "public", "exclusions", "holds"),
    [
        ("off", True, "allowed", True),
        ("block-bidirectional", True, "not-allowed", False),
        ("block-bidirectional", False, "not-allowed", False),
        ("block-bidirectional", True, "allowed", None),
        ("block-ingress", True, "not-allowed", False),
        ("block-ingress", False, "not-allowed", True),
    ],
)
def test_a_block_of_public_access_is_known_before(rig: AwsRig, mode: str, public: bool, exclusions: str, holds: bool | None) -> None:  # noqa: FBT001 - a table
    found = asked(rig, "public-access", {"public_address": public}, block_public_access={REGION: mode}, exclusions_allowed=exclusions)
    assert (found[0], mode in found[1]) == (holds, True)


def test_the_role_of_spot_is_asked_about_where_a_place_is_spot(rig: AwsRig) -> None:
    spot = {"market": "spot"}
    assert "spot-role" not in {answer.about for answer in rig.cloud().examine(rig.order())}
    assert asked(rig, "spot-role", spot)[0] is True
    holds, said = asked(rig, "spot-role", spot, service_roles=[])
    assert (holds, "iam:CreateServiceLinkedRole" in said) == (None, True)
    nothing = {"Version": "2012-10-17", "Statement": []}
    assert asked(rig, "spot-role", spot, allowed=nothing)[0] is None


@pytest.mark.parametrize("market", ["on-demand", "spot"])
def test_the_printed_policy_lets_each_question_be_asked(rig: AwsRig, market: str) -> None:
    order = rig.order(market=market)
    policy = permissions.policy_document(
        name=order.name, regions=[REGION], instance_types=[order.instance_type], spot=market == "spot", commands=["examine"]
    )
    rig.set(**{**GOOD, "allowed": policy})
    found = {answer.about: answer for answer in rig.cloud().examine(order)}
    rig.set(**GOOD)
    assert [each for each in found.values() if each.holds is not True] == []
    assert set(permissions.permissions(order)) >= {"ec2:DescribeVpcs", "ec2:DescribeVpcBlockPublicAccessOptions"}
    assert ("iam:GetRole" in permissions.permissions(order)) is (market == "spot")
