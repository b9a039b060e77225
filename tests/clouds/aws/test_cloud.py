"""AWS keeps the contract, through real boto3 over HTTP against the embedded EC2; and what is AWS's alone."""

from __future__ import annotations

import base64
import itertools
import json
import time
from typing import Any

import pytest

from provision.clouds import base
from provision.clouds.aws.client import AwsAccess, client
from provision.clouds.aws.cloud import AwsCloud
from provision.errors import CapacityError, CloudInvalidError, InstanceLostError, QuotaExceededError
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.clouds.contract import KEY, CloudContract, Failure, Rig, Seen, alive

REGION = "us-east-1"
NETWORKS = itertools.count(10)
FAULTS: dict[Failure, dict[str, Any]] = {
    "capacity": {"kind": "error", "code": "InsufficientInstanceCapacity", "http": 500},
    "quota": {"kind": "error", "code": "VcpuLimitExceeded"},
    "throttled": {"kind": "error", "code": "RequestLimitExceeded", "http": 503},
    "refused": {"kind": "error", "code": "UnauthorizedOperation", "http": 403},
    "invalid": {"kind": "error", "code": "InvalidParameterValue"},
    "expired": {"kind": "error", "code": "ExpiredToken"},
    "server": {"kind": "error", "code": "InternalError", "http": 500},
    "html": {"kind": "html"},
    "drop": {"kind": "drop"},
}


class AwsRig(Rig):
    region = REGION
    making = "RunInstances"
    machine = {"instance_type": "g4dn.xlarge", "gpu": "t4", "gpu_count": 1, "os": ("ubuntu", "24.04")}  # noqa: RUF012 - as the base says

    def __init__(self, ec2: Rehearsal, access: AwsAccess) -> None:
        self.ec2, self.access = ec2, access

    def cloud(self) -> AwsCloud:
        return AwsCloud(REGION, self.access)

    def calls(self) -> list[str]:
        return [call["action"] for call in control.ask(self.ec2, "calls")]

    def forget(self) -> None:
        control.ask(self.ec2, "calls", method="DELETE")

    def set(self, **settings: Any) -> None:
        control.ask(self.ec2, "settings", method="PUT", body=settings)

    def stock(self, left: dict[str, int]) -> None:
        self.set(zone_capacity=left)

    def no_quota(self) -> None:
        self.set(vcpu_limit={REGION: 3})

    def fail(self, how: Failure) -> None:
        control.ask(self.ec2, "faults", method="PUT", body=[{"action": "RunInstances", **FAULTS[how]}])

    def lose_reply(self) -> None:
        control.ask(self.ec2, "faults", method="PUT", body=[{"kind": "lost", "action": "RunInstances", "count": 1}])

    def subnet(self, zone: str) -> str:
        number = next(NETWORKS)
        vpc = self.client.create_vpc(CidrBlock=f"10.{number}.0.0/16")["Vpc"]["VpcId"]
        made = self.client.create_subnet(VpcId=vpc, CidrBlock=f"10.{number}.0.0/24", AvailabilityZone=zone)
        return str(made["Subnet"]["SubnetId"])

    def seen(self, instance: base.Instance) -> Seen:
        found = raw(self, instance.id)
        groups = self.client.describe_security_groups(GroupIds=[g["GroupId"] for g in found["SecurityGroups"]])["SecurityGroups"]
        assert {g["VpcId"] for g in groups} == {found["VpcId"]}
        rules = [rule for group in groups for rule in group["IpPermissions"]]
        opened = {r["CidrIp"] for rule in rules for r in rule["IpRanges"]} | {r["CidrIpv6"] for rule in rules for r in rule["Ipv6Ranges"]}
        return Seen(found.get("PublicIpAddress", ""), found["PrivateIpAddress"], found["SubnetId"], opened)

    def heal(self) -> None:
        control.ask(self.ec2, "faults", method="PUT", body=[])

    @property
    def client(self) -> Any:
        return client("ec2", REGION, self.access)


@pytest.fixture
def rig(ec2: Rehearsal, access: AwsAccess) -> AwsRig:
    return AwsRig(ec2, access)


class TestContract(CloudContract):
    """The suite of all clouds."""


def raw(rig: AwsRig, instance_id: str) -> dict[str, Any]:
    found: dict[str, Any] = rig.client.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]
    return found


def test_a_warm_launch_is_four_calls(rig: AwsRig) -> None:
    cloud = rig.cloud()
    image = cloud._image_id(rig.order())  # what a lock holds
    order = rig.order(count=64, minimum=64, image_id=image)
    rig.forget()
    cloud.find(order.name)
    assert len(cloud.launch(order)) == 64
    assert rig.calls() == ["DescribeInstances", "CreateSecurityGroup", "AuthorizeSecurityGroupIngress", "RunInstances"]


def test_several_zones_of_a_launch_share_one_group(rig: AwsRig) -> None:
    order = rig.order()
    cloud = rig.cloud()
    first, second, *_ = cloud.zones(order)
    rig.stock({first: 0})
    rig.forget()
    with pytest.raises(CapacityError):
        cloud.launch(order.at(first))
    cloud.launch(order.at(second))
    assert rig.calls().count("CreateSecurityGroup") == 1
    assert rig.calls().count("AuthorizeSecurityGroupIngress") == 1
    assert AwsCloud(REGION, rig.access).launch(order.at(second))  # another process finds the group by its name
    assert len([t for t in cloud.things(order.name) if t.kind == "security-group"]) == 1


@pytest.mark.parametrize("action", ["AuthorizeSecurityGroupIngress", "RunInstances"])
def test_a_group_that_ec2_does_not_show_yet_is_waited_for(rig: AwsRig, action: str) -> None:
    order = rig.order()
    rig.forget()
    fault = {"kind": "error", "action": action, "code": "InvalidGroup.NotFound", "count": 2}
    control.ask(rig.ec2, "faults", method="PUT", body=[fault])
    (made,) = rig.cloud().launch(order)
    assert rig.calls().count(action) == 3
    assert [i.id for i in rig.cloud().find(order.name)] == [made.id]


def test_the_first_boot_is_told_who_may_log_in_and_when_it_ends(rig: AwsRig) -> None:
    order = rig.order()
    (made,) = rig.cloud().launch(order)
    answer = rig.client.describe_instance_attribute(InstanceId=made.id, Attribute="userData")
    text = base64.b64decode(answer["UserData"]["Value"]).decode()
    told = json.loads(text.removeprefix("#cloud-config\n"))
    assert told["ssh_authorized_keys"] == [KEY]
    assert told["ssh_pwauth"] is False
    assert order.deadline.strftime("OnCalendar=%Y-%m-%d %H:%M:%S UTC") in text
    assert "KeyName" not in raw(rig, made.id)
    assert rig.client.describe_key_pairs(Filters=[{"Name": f"tag:{base.NAME_TAG}", "Values": [order.name]}])["KeyPairs"] == []


def test_spot_is_asked_for_once_and_its_interruption_is_announced(rig: AwsRig) -> None:
    order = rig.order(market="spot")
    cloud = rig.cloud()
    (made,) = cloud.launch(order)
    assert made.market == "spot"
    (request,) = [t for t in cloud.things(order.name) if t.kind == "spot-request"]
    assert raw(rig, made.id)["SpotInstanceRequestId"] == request.id
    assert cloud.notices([made]) == {}
    rig.set(spot_status={made.id: "marked-for-termination"})
    assert "marked-for-termination" in cloud.notices([made])[made.id][0]
    cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    assert alive(cloud, order.name) == []


def test_events_are_announced_until_they_are_over(rig: AwsRig) -> None:
    (made,) = rig.cloud().launch(rig.order())
    event = {
        "Code": "instance-retirement",
        "Description": "The instance is running on degraded hardware",
        "NotBefore": "2026-12-01T10:00:00+00:00",
    }
    over = {"Code": "system-reboot", "Description": "[Completed] scheduled reboot"}
    rig.set(events={made.id: [event, over]})
    (said,) = rig.cloud().notices([made])[made.id]
    assert "instance-retirement, not before 2026-12-01T10:00" in said
    assert "degraded hardware" in said


def test_a_new_address_after_off_and_on(rig: AwsRig) -> None:
    cloud = rig.cloud()
    (made,) = cloud.launch(rig.order())
    before = cloud.wait_running(made, timeout_s=20)
    cloud.stop([before], timeout_s=20)
    assert cloud.find(before.group)[0].address == ""
    (after,) = cloud.start(cloud.find(before.group), timeout_s=20)
    assert after.address not in {"", before.address}


def test_rules_that_others_added_are_closed_and_other_ports_left_alone(rig: AwsRig) -> None:
    order = rig.order(ssh_from=("192.0.2.0/24",))
    (made,) = rig.cloud().launch(order)
    group = raw(rig, made.id)["SecurityGroups"][0]["GroupId"]
    wide = {"IpProtocol": "tcp", "FromPort": 20, "ToPort": 30, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    web = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    rig.client.authorize_security_group_ingress(GroupId=group, IpPermissions=[wide, web])
    rig.cloud().allow(order.name, ["192.0.2.0/24", "2001:db8::/32"])
    rules = rig.client.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"]
    seen = {
        (r["FromPort"], r["ToPort"], c)
        for r in rules
        for c in [*(x["CidrIp"] for x in r["IpRanges"]), *(x["CidrIpv6"] for x in r["Ipv6Ranges"])]
    }
    assert seen == {(22, 22, "192.0.2.0/24"), (22, 22, "2001:db8::/32"), (443, 443, "0.0.0.0/0")}


def test_a_machine_that_ended_is_lost_at_once(rig: AwsRig) -> None:
    cloud = rig.cloud()
    (made,) = cloud.launch(rig.order())
    rig.client.terminate_instances(InstanceIds=[made.id])
    started = time.monotonic()
    with pytest.raises(InstanceLostError, match=made.id):
        cloud.wait_running(made, timeout_s=20)
    assert time.monotonic() - started < 2


def test_a_group_that_is_still_held_is_waited_for(rig: AwsRig) -> None:
    rig.set(ending_s=0.5)
    cloud = rig.cloud()
    order = rig.order()
    cloud.launch(order)
    started = time.monotonic()
    cloud.remove([t for t in cloud.things(order.name) if t.kind != "security-group"], on_step=lambda _: None)
    assert time.monotonic() - started < 1.5  # polled from 50 ms, not every second
    control.ask(
        rig.ec2,
        "faults",
        method="PUT",
        body=[{"kind": "error", "action": "DeleteSecurityGroup", "code": "DependencyViolation", "count": 3}],
    )
    cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    assert rig.calls().count("DeleteSecurityGroup") == 4
    assert alive(cloud, order.name) == []


def test_the_quota_that_is_short_is_named_with_its_use(rig: AwsRig) -> None:
    (made,) = rig.cloud().launch(rig.order())
    running = rig.cloud().wait_running(made, timeout_s=20)
    others = [i for i in rig.cloud().find() if i.state in {"pending", "running"} and i.market == "on-demand"]
    used = 4 * len(others)
    rig.set(vcpu_limit={REGION: used})
    order = rig.order()
    with pytest.raises(QuotaExceededError) as caught:
        rig.cloud().launch(order)
    assert "L-DB2E81BA" in caught.value.hint
    answers = {a.about: a for a in rig.cloud().examine(order)}
    assert answers["quota"] == base.Answer("quota", holds=False, said=f"4 vCPUs needed, {used} of {used} used (L-DB2E81BA)")
    spot = {a.about: a for a in rig.cloud().examine(rig.order(market="spot"))}
    assert "L-3819A6DF" in spot["quota"].said
    assert spot["quota"].holds
    assert running.id in {i.id for i in others}


def test_all_is_well_when_it_is(rig: AwsRig) -> None:
    answers = rig.cloud().examine(rig.order())
    assert [(a.about, a.holds) for a in answers] == [(n, True) for n in ("region", "offered", "quota", "image", "dry-run")]


def test_a_region_that_is_not_enabled_is_the_only_answer(rig: AwsRig) -> None:
    rig.set(not_opted_in=["ap-east-1"])
    hong_kong = AwsCloud("ap-east-1", rig.access)
    answers = hong_kong.examine(rig.order())
    assert [(a.about, a.holds) for a in answers] == [("region", False), *((n, None) for n in ("offered", "quota", "image", "dry-run"))]
    assert {a.said for a in answers} == {"ap-east-1 is not-opted-in"}


def test_what_is_not_offered_or_has_no_image_is_said(rig: AwsRig) -> None:
    answers = {a.about: a for a in rig.cloud().examine(rig.order(instance_type="p3.2xlarge", image_id="ami-0123456789abcdef0"))}
    assert answers["offered"].holds is False
    assert answers["image"].holds is False
    with pytest.raises(CloudInvalidError):
        rig.cloud().launch(rig.order(instance_type="p3.2xlarge"))


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


def test_without_anything_open_no_rule_is_asked_for(rig: AwsRig) -> None:
    order = rig.order(subnet=rig.subnet(f"{REGION}a"), public_address=False, ssh_from=())
    rig.forget()
    rig.cloud().launch(order)
    assert "AuthorizeSecurityGroupIngress" not in rig.calls()
    assert rig.calls().count("DescribeSubnets") == 1
