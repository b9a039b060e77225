"""Capacity of one's own on AWS, through real boto3 against the embedded EC2: reservations, blocks, placement groups, EFA."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from provision.clouds import base
from provision.clouds.aws.permissions import permissions, policy_document
from provision.clouds.aws.place import AwsPlace
from provision.clouds.offline import PlaceBase
from provision.errors import CapacityError, CloudInvalidError, PermissionRefusedError
from tests.clouds.aws.rig import REGION, AwsRig, raw
from tests.clouds.aws.test_permissions import without

ID = "cr-0123456789abcdef0"
ZONE = f"{REGION}c"


def place(instance_type: str = "g4dn.xlarge", **capacity: Any) -> AwsPlace:
    return AwsPlace.model_validate({"cloud": "aws", "instance_type": instance_type, "regions": [REGION], "capacity": capacity})


def reserved(rig: AwsRig, free: int, **more: Any) -> None:
    row = {"instance_type": "g4dn.xlarge", "zone": ZONE, "total": 4, "free": free, "state": "active", **more}
    rig.set(capacity_reservations={ID: row})


def allowed(order: base.Order, where: PlaceBase) -> dict[str, Any]:
    return policy_document(name=order.name, regions=[REGION], instance_types=[order.instance_type], spot=False, places=[where])  # type: ignore[list-item]


def test_a_reservation_decides_the_zone_and_is_used_alone(rig: AwsRig) -> None:
    reserved(rig, free=1)
    order, cloud = rig.order(place=place(reservation=ID)), rig.cloud()
    assert cloud.zones(order) == [ZONE]
    (machine,) = cloud.launch(order)
    assert machine.zone == ZONE
    assert cloud.launch(order)[0].id == machine.id  # the same order is the same machine, though the reservation is full now
    with pytest.raises(CapacityError) as caught:
        rig.cloud().launch(rig.order(name="second", place=order.place))
    assert caught.value.elsewhere == ()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"free": 0}, "0 of 4 free"),
        ({"free": 4, "instance_type": "g5.xlarge"}, "g5.xlarge"),
        ({"free": 4, "state": "pending"}, "pending"),
        ({"free": 4, "ends": dt.datetime.now(dt.UTC).isoformat()}, "before the deadline"),
    ],
)
def test_a_plan_that_asks_says_what_is_wrong_with_a_reservation(rig: AwsRig, row: dict[str, Any], words: str) -> None:
    reserved(rig, **row)
    answers = {answer.about: answer for answer in rig.cloud().examine(rig.order(place=place(reservation=ID)))}
    assert answers["capacity"].holds is False
    assert words in answers["capacity"].said


def test_what_a_place_names_and_the_account_lacks_is_refused_by_its_name(rig: AwsRig) -> None:
    rig.set(capacity_reservations={}, placement_groups=[])
    with pytest.raises(CloudInvalidError, match=ID):
        rig.cloud().launch(rig.order(place=place(reservation=ID)))
    with pytest.raises(CloudInvalidError, match="'ours' is unknown"):
        rig.cloud().launch(rig.order(place=place(placement_group="ours")))
    reserved(rig, free=1, state="expired")
    with pytest.raises(CloudInvalidError, match="is expired, not active"):
        rig.cloud().launch(rig.order(place=place(reservation=ID)))


def test_a_block_is_asked_for_as_a_block(rig: AwsRig) -> None:
    reserved(rig, free=1, kind="capacity-block")
    with pytest.raises(CloudInvalidError, match="of the other kind"):
        rig.cloud().launch(rig.order(place=place(reservation=ID)))
    assert len(rig.cloud().launch(rig.order(name="block", place=place(block=ID)))) == 1


def test_dedicated_hardware_in_a_group_is_what_the_request_says(rig: AwsRig) -> None:
    rig.set(placement_groups=["ours"])
    order = rig.order(place=place(placement_group="ours", tenancy="dedicated"))
    assert len(rig.cloud().launch(order)) == 1
    answers = {answer.about: answer for answer in rig.cloud().examine(order)}
    assert answers["capacity"].holds is True


def test_efa_opens_the_group_to_its_own_members_and_allow_leaves_that(rig: AwsRig) -> None:
    order, cloud = rig.order(instance_type="g4dn.8xlarge", place=place("g4dn.8xlarge", efa=True)), rig.cloud()
    (machine,) = cloud.launch(order)
    (group,) = raw(rig, machine.id)["SecurityGroups"]

    def members(direction: str) -> list[str]:
        (found,) = rig.client.describe_security_groups(GroupIds=[group["GroupId"]])["SecurityGroups"]
        return [pair["GroupId"] for rule in found[direction] for pair in rule["UserIdGroupPairs"]]

    assert members("IpPermissions") == members("IpPermissionsEgress") == [group["GroupId"]]
    cloud.allow(order.name, ["192.0.2.0/24"])
    assert members("IpPermissions") == [group["GroupId"]]
    assert cloud.launch(order)[0].id == machine.id


@pytest.mark.parametrize(
    ("capacity", "action"),
    [
        ({"reservation": ID}, "ec2:DescribeCapacityReservations"),
        ({"placement_group": "ours"}, "ec2:DescribePlacementGroups"),
        ({"efa": True}, "ec2:AuthorizeSecurityGroupEgress"),
    ],
)
def test_the_policy_grows_by_what_a_place_names_and_by_no_more(rig: AwsRig, capacity: dict[str, Any], action: str) -> None:
    where = place("g4dn.8xlarge", **capacity)
    order = rig.order(instance_type="g4dn.8xlarge", place=where)
    plain = set(permissions(rig.order()))
    assert set(permissions(order)) - plain == {action}
    reserved(rig, free=4, instance_type=where.instance_type)
    policy = allowed(order, where)
    rig.set(allowed=without(policy, action))
    cloud = rig.cloud()
    refused = [answer for answer in cloud.examine(order) if answer.holds is not True]
    if not refused:
        with pytest.raises(PermissionRefusedError, match=action):
            cloud.launch(order)
    else:
        assert action in refused[0].said
    rig.set(allowed=policy)
    assert [answer.about for answer in rig.cloud().examine(order) if not answer.holds] == []
    assert len(rig.cloud().launch(order)) == 1


def test_a_policy_for_one_reservation_lets_nobody_into_another(rig: AwsRig) -> None:
    order = rig.order(place=place(reservation=ID))
    rig.set(allowed=allowed(order, place(reservation="cr-fedcba98765432100")))
    with pytest.raises(PermissionRefusedError, match="ec2:RunInstances"):
        rig.cloud().launch(order)
