"""The computed IAM policy is enough for a whole life, and no action of it can be left out: judged by the embedded cloud's IAM."""

from __future__ import annotations

import copy
import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

import pytest

from provision.clouds import base
from provision.clouds.aws import fleet_requests, provider
from provision.clouds.aws.cloud import AwsCloud
from provision.clouds.aws.permissions import COMMANDS, NEEDS, PERMISSIONS, permissions, policy_document
from provision.clouds.aws.place import AwsPlace
from provision.clouds.fleet import FleetOrder
from provision.clouds.terms import Grant
from provision.errors import HostKeyUnknownError, PermissionRefusedError
from provision.structs import replace
from tests.clouds.aws.orders import order as plain_order
from tests.clouds.aws.rig import REGION, AwsRig

MANAGED_POLICY_LIMIT = 6144  # characters without white space: docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
SUBNET = "subnet-0123456789abcdef0"
FEW = {"ec2:CancelSpotInstanceRequests", "ec2:DescribeSpotInstanceRequests", "iam:CreateServiceLinkedRole", "iam:GetRole"}


# What only a place asks for that says where its capacity comes from.
CAPACITY = {"ec2:AuthorizeSecurityGroupEgress", "ec2:DescribeCapacityReservations", "ec2:DescribePlacementGroups"}
PLACE = AwsPlace.model_validate(
    {
        "cloud": "aws",
        "instance_type": "g4dn.8xlarge",
        "regions": [REGION],
        "capacity": {"reservation": "cr-0123456789abcdef0", "placement_group": "ours", "efa": True},
    }
)


def document(name: str, *, spot: bool = True, subnet: str = "", places: Sequence[AwsPlace] = ()) -> dict[str, Any]:
    types = ["g4dn.8xlarge", "g4dn.xlarge"]
    return policy_document(name=name, regions=[REGION], instance_types=types, spot=spot, subnet=subnet, places=places)


def actions(given: dict[str, Any]) -> set[str]:
    return {action for statement in given["Statement"] for action in statement["Action"]}


def without(given: dict[str, Any], action: str) -> dict[str, Any]:
    fewer = copy.deepcopy(given)
    for statement in fewer["Statement"]:
        statement["Action"] = [a for a in statement["Action"] if a != action]
    return fewer


def leftovers(rig: AwsRig, order: base.Order) -> None:
    """What an interrupted machine may leave behind: a volume and a network card that nothing holds; made by the account's owner."""
    tags = [{"Key": base.NAME_TAG, "Value": order.name}]
    zone = f"{REGION}a"
    rig.client.create_volume(AvailabilityZone=zone, Size=8, TagSpecifications=[{"ResourceType": "volume", "Tags": tags}])
    subnet = rig.client.describe_subnets(Filters=[{"Name": "availability-zone", "Values": [zone]}])["Subnets"][0]["SubnetId"]
    rig.client.create_network_interface(SubnetId=subnet, TagSpecifications=[{"ResourceType": "network-interface", "Tags": tags}])


def live(rig: AwsRig, order: base.Order, open_question: str = "") -> None:
    """A whole life of a machine: every call of the contract, each with what came of it."""
    cloud = rig.cloud()
    assert cloud.zones(order)
    refused = [a for a in cloud.examine(order) if not a.holds and a.about != open_question]
    if refused:
        raise PermissionRefusedError(refused[0].said, hint="as examined")
    assert cloud.find(order.name) == []
    machines = cloud.launch(order)
    # A fresh object finds the group of an earlier one by its name, as after a crash.
    assert AwsCloud(REGION, rig.access).launch(order)
    ready = [cloud.wait_running(i, timeout_s=240) for i in machines]
    with pytest.raises(HostKeyUnknownError):  # without hosts nothing is printed
        cloud.host_keys(ready[0], timeout_s=0.1)
    assert cloud.notices(ready) == {}
    cloud.extend(ready, order.deadline + dt.timedelta(hours=1))
    cloud.allow(order.name, ["192.0.2.0/24"])
    if order.market != "spot":  # which EC2 does not stop
        cloud.stop(ready, timeout_s=240)
        cloud.start(cloud.find(order.name), timeout_s=240)
    things = cloud.things(order.name)
    cloud.remove(things, on_step=lambda _: None)
    assert [t for t in cloud.things(order.name) if t.alive] == []


@pytest.mark.parametrize("market", ["spot", "on-demand"])
def test_a_whole_life_needs_no_more_than_the_policy(rig: AwsRig, market: str) -> None:
    order = rig.order(market=market, count=2, minimum=2, volume_gb=20)
    leftovers(rig, order)
    rig.set(allowed=document(order.name))
    live(rig, order)


def test_a_policy_for_one_subnet_needs_no_more_and_opens_no_other(rig: AwsRig) -> None:
    mine, other = rig.subnet(f"{REGION}a"), rig.subnet(f"{REGION}a")
    order = rig.order(subnet=mine, public_address=False, ssh_from=("10.9.0.0/16",))
    rig.set(allowed=document(order.name, spot=False, subnet=mine))
    live(rig, order)
    with pytest.raises(PermissionRefusedError):
        rig.cloud().launch(rig.order(order.name, subnet=other, public_address=False))
    with pytest.raises(PermissionRefusedError):
        rig.cloud().launch(rig.order(order.name))


@pytest.mark.matrix
@pytest.mark.parametrize("action", PERMISSIONS)
def test_without_one_action_the_error_names_it(rig: AwsRig, action: str) -> None:
    subnet = rig.subnet(f"{REGION}a") if action != "ec2:DescribeVpcs" else ""
    order = rig.order(market="on-demand" if action in {"ec2:StopInstances", "ec2:StartInstances"} else "spot", subnet=subnet)
    if action in CAPACITY:
        order = rig.order(instance_type=PLACE.instance_type, place=PLACE, subnet=subnet)
        row = {"instance_type": PLACE.instance_type, "zone": f"{REGION}a", "total": 4, "free": 4, "state": "active"}
        rig.set(capacity_reservations={"cr-0123456789abcdef0": row})
    leftovers(rig, order)
    first_spot = action == "iam:CreateServiceLinkedRole"
    rig.set(service_roles=[] if first_spot else None, unset_quotas=["L-3819A6DF"] if "Default" in action else [])
    given = document(order.name, subnet=order.subnet, places=[PLACE])
    assert action in actions(given)
    rig.set(allowed=without(given, action))
    with pytest.raises(PermissionRefusedError) as caught:
        live(rig, order, "spot-role" if first_spot else "")
    assert f"refuses {action} in {REGION}" in caught.value.message
    assert caught.value.hint


def test_the_first_spot_machine_of_an_account_makes_the_role_of_spot_and_no_other(rig: AwsRig) -> None:
    order = rig.order(market="spot")
    rig.set(service_roles=[], allowed=document(order.name))
    rig.cloud().launch(order)
    rig.set(service_roles=[], allowed=without(document("another"), "iam:CreateServiceLinkedRole"))
    other = rig.order("another", market="spot")
    with pytest.raises(PermissionRefusedError) as caught:
        rig.cloud().launch(other)
    assert "iam:CreateServiceLinkedRole" in caught.value.message
    assert "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com" in caught.value.hint
    rig.set(service_roles=None)


def test_the_policy_touches_nothing_of_another_name(rig: AwsRig) -> None:
    theirs, mine = rig.order(), rig.order()
    cloud = rig.cloud()
    (other,) = cloud.launch(theirs)
    cloud.wait_running(other, timeout_s=240)
    rig.set(allowed=document(mine.name, spot=False))
    for act in (
        lambda: cloud.stop(cloud.find(theirs.name), timeout_s=5),
        lambda: cloud.remove(cloud.things(theirs.name), on_step=lambda _: None),
        lambda: cloud.extend([other], theirs.deadline),
        lambda: cloud.allow(theirs.name, ["192.0.2.0/24"]),
        lambda: cloud.launch(theirs),
        lambda: cloud.launch(replace(mine, instance_type="g4dn.2xlarge")),
        lambda: cloud.launch(replace(mine, market="spot")),
        lambda: AwsCloud("eu-west-1", rig.access).find(mine.name),
    ):
        with pytest.raises(PermissionRefusedError):
            act()
    assert cloud.launch(mine)


def test_only_the_deadline_may_be_written_anew(rig: AwsRig) -> None:
    order = rig.order()
    (machine,) = rig.cloud().launch(order)
    rig.set(allowed=document(order.name))
    with pytest.raises(Exception, match=r"UnauthorizedOperation.*ec2:CreateTags"):
        rig.client.create_tags(Resources=[machine.id], Tags=[{"Key": base.NAME_TAG, "Value": "another"}])
    rig.cloud().extend([machine], order.deadline)


def test_a_policy_for_all_launches_of_a_stem(rig: AwsRig) -> None:
    order = rig.order("team-a")
    rig.set(allowed=policy_document(name="team-*", regions=[REGION], instance_types=["g4dn.xlarge"], spot=False))
    cloud = rig.cloud()
    cloud.launch(order)
    with pytest.raises(PermissionRefusedError):
        cloud.launch(rig.order("other-a"))
    cloud.remove(cloud.things("team-a"), on_step=lambda _: None)


def test_the_document_is_small_and_holds_what_the_commands_need() -> None:
    given = policy_document(
        name="train",
        regions=["ap-east-1", "us-east-1", "eu-west-1"],
        instance_types=["g4dn.xlarge"],
        spot=True,
        subnet=SUBNET,
        places=[PLACE],
    )
    assert actions(given) == set(PERMISSIONS) - {"ec2:DescribeVpcs"}  # a subnet is named
    assert len(json.dumps(given, separators=(",", ":"))) < MANAGED_POLICY_LIMIT
    assert len({s["Sid"] for s in given["Statement"]}) == len(given["Statement"])
    assert not any("*" in action for action in actions(given))
    on_demand = policy_document(name="train", regions=[REGION], instance_types=["g4dn.xlarge"], spot=False)
    assert actions(on_demand) == set(PERMISSIONS) - FEW - CAPACITY
    for command in COMMANDS:
        types = ["g4dn.xlarge"]
        one = policy_document(
            name="train", regions=[REGION], instance_types=types, spot=True, subnet=SUBNET, places=[PLACE], commands=[command]
        )
        assert actions(one) == set(NEEDS[command]) - {"ec2:DescribeVpcs"}


def test_an_order_needs_what_it_asks_for(rig: AwsRig) -> None:
    assert set(PERMISSIONS) - set(permissions(rig.order())) == {*FEW, *CAPACITY}
    inside = permissions(rig.order(market="spot", subnet=SUBNET, place=PLACE))
    assert inside == tuple(each for each in PERMISSIONS if each != "ec2:DescribeVpcs")


@pytest.mark.parametrize(("region", "part"), [(REGION, "aws"), ("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn")])
def test_every_arn_and_condition_is_of_the_region_and_its_partition(region: str, part: str) -> None:
    """Of whoever launches, bakes or runs a fleet, and of a fleet's member: ARNs of another partition match nothing."""
    place = AwsPlace.model_validate(
        {
            **PLACE.model_dump(exclude={"regions"}, exclude_none=True),
            "regions": [region],
            "disk_key": "alias/disks",
            "identity": {"instance_profile": "gpu-node"},
        }
    )
    grant = Grant("train", (region,), ("g4dn.8xlarge",), spot=True, subnet=SUBNET, places=(place,))
    fleet = FleetOrder(plain_order(place=place, subnet=SUBNET), "bucket-of-ours", "x/", "0" * 64)
    documents = [
        provider.policy(grant)[0],
        provider.bake_policy(grant, "line")[1],
        fleet_requests.caller_policy(fleet, region, ("/aws/service/x", "/ours/x")),
        fleet_requests.member_policy(fleet, region),
    ]
    arns = [arn for each in documents if each for statement in each["Statement"] for arn in statement["Resource"] if arn != "*"]
    assert {arn.split(":")[1] for arn in arns} == {part}
    assert {arn.split(":")[3] for arn in arns} == {region, ""}
    assert {arn.split(":")[2] for arn in arns if not arn.split(":")[3]} <= {"iam", "s3"}
    conditions = [statement.get("Condition", {}).get("StringEquals", {}) for each in documents if each for statement in each["Statement"]]
    assert {region for each in conditions for region in each.get("aws:RequestedRegion", [])} == {region}
    services = {service for each in conditions for service in each.get("iam:PassedToService", [])}
    assert services == {"ec2.amazonaws.com.cn" if part == "aws-cn" else "ec2.amazonaws.com"}
