"""One region of the embedded EC2, and how it is made to fail."""

from __future__ import annotations

import itertools
from typing import Any

from provision.clouds import base
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.clouds.aws.cloud import AwsCloud
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.clouds.contract import Failure, Rig, Seen

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
        result = raw(self, instance.id)
        groups = self.client.describe_security_groups(GroupIds=[g["GroupId"] for g in result["SecurityGroups"]])["SecurityGroups"]
        assert {g["VpcId"] for g in groups} == {result["VpcId"]}
        rules = [rule for group in groups for rule in group["IpPermissions"]]
        opened = {r["CidrIp"] for rule in rules for r in rule["IpRanges"]} | {r["CidrIpv6"] for rule in rules for r in rule["Ipv6Ranges"]}
        return Seen(result.get("PublicIpAddress", ""), result["PrivateIpAddress"], result["SubnetId"], opened)

    def heal(self) -> None:
        control.ask(self.ec2, "faults", method="PUT", body=[])

    @property
    def client(self) -> Any:
        return client("ec2", REGION, self.access)


def raw(rig: AwsRig, instance_id: str) -> dict[str, Any]:
    found: dict[str, Any] = rig.client.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]
    return found
