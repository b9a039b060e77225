"""Capacity of one's own on AWS, through real boto3 against the embedded EC2: reservations, blocks, placement groups, EFA."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from botocore.exceptions import ClientError

from provision.clouds import base
from provision.clouds.aws import reservations
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


BEGINS = dt.datetime(2026, 12, 1, 11, 30, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("length", "hours"),
    [
        (dt.timedelta(minutes=30), 24),
        (dt.timedelta(hours=24), 24),
        (dt.timedelta(hours=24, minutes=1), 48),
        (dt.timedelta(days=14), 336),
        (dt.timedelta(days=14, minutes=1), 21 * 24),
        (dt.timedelta(days=28), 28 * 24),
        (dt.timedelta(days=400), 182 * 24),
    ],
)
def test_a_block_is_compared_with_the_durations_that_are_sold(length: dt.timedelta, hours: int) -> None:
    assert reservations.block_hours(length) == hours


def test_a_plan_that_asks_says_what_such_a_block_costs_now(rig: AwsRig) -> None:
    order = rig.order(instance_type="p5.48xlarge", gpu="h100", gpu_count=8, place=place("p5.48xlarge", block=ID))

    def asked() -> base.Answer:
        return {answer.about: answer for answer in rig.cloud().examine(order)}["block-price"]

    row = {"instance_type": "p5.48xlarge", "kind": "capacity-block", "begins": BEGINS.isoformat()}
    reserved(rig, free=4, **row, ends=(BEGINS + dt.timedelta(hours=47)).isoformat())
    assert (asked().holds, f"no block like {ID} (4 x p5.48xlarge for 48 h)" in asked().said) == (None, True)
    rig.set(block_prices={"p5.48xlarge": 31.464})
    assert asked().holds is True
    # 4 machines for 48 hours at the cheaper of the two that are offered
    assert "6,041.09 USD in advance" in asked().said
    assert "31.46 USD for each machine and hour" in asked().said
    assert "what this one cost is in its bill" in asked().said
    reserved(rig, free=4, **row)  # without an end
    assert (asked().holds, "for how long" in asked().said) == (None, True)
    plain = rig.order(place=place(reservation=ID))
    assert "block-price" not in {answer.about for answer in rig.cloud().examine(plain)}


def test_the_price_of_a_block_needs_a_permission_of_its_own(rig: AwsRig) -> None:
    where = place(block=ID)
    order = rig.order(place=where)
    assert set(permissions(order)) - set(permissions(rig.order(place=place(reservation=ID)))) == {reservations.OFFERINGS}
    row = {"kind": "capacity-block", "begins": BEGINS.isoformat(), "ends": (BEGINS + dt.timedelta(days=400)).isoformat()}
    reserved(rig, free=4, **row)
    rig.set(block_prices={"g4dn.xlarge": 1.0}, allowed=without(allowed(order, where), reservations.OFFERINGS))
    answers = {answer.about: answer for answer in rig.cloud().examine(order)}
    assert (answers["block-price"].holds, reservations.OFFERINGS in answers["block-price"].said) == (None, True)
    rig.set(allowed=allowed(order, where))
    assert [answer.about for answer in rig.cloud().examine(order) if not answer.holds] == []


def test_a_duration_that_is_not_sold_is_refused_as_ec2_does(rig: AwsRig) -> None:
    for hours in (1, 25, 15 * 24, 183 * 24):
        with pytest.raises(ClientError, match="InvalidParameterValue"):
            rig.client.describe_capacity_block_offerings(InstanceType="p5.48xlarge", InstanceCount=1, CapacityDurationHours=hours)
