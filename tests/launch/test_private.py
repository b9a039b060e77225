"""A profile of a private network, launched: in its subnet and in no other place, and nothing left where that has no machine."""

import datetime as dt
import ipaddress
from pathlib import Path
from typing import Any

import pytest

from provision import clouds
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.errors import CapacityError
from provision.launch.attempts import LaunchRequest
from provision.launch.journal import Journal
from provision.launch.launcher import Launcher
from provision.launch.patience import Patience
from provision.launch.plan import plan
from provision.profile import load
from provision.profile.lock import build
from provision.profile.model import Profile
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP6Z8Eyq6a8dy/8jo/NfTxIr+kYmRfiGzsEyoPLj1JoS test"
REGION = "ap-southeast-1"
PLACE = {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": [REGION]}
JUMP = {"jump": "bastion", "ssh_from": ["10.40.1.4/32"]}


def profile(subnet: str, **network: Any) -> Profile:
    base = load.load(load.find("t4-train")).dump()
    return Profile.model_validate({**base, "places": [PLACE], "network": {"address": "private", "subnet": subnet, **network}})


def subnet_in(access: AwsAccess, zone: str) -> str:
    ec2 = client("ec2", REGION, access)
    vpc = ec2.create_vpc(CidrBlock="10.40.0.0/16")["Vpc"]["VpcId"]
    return str(ec2.create_subnet(VpcId=vpc, CidrBlock="10.40.1.0/24", AvailabilityZone=zone)["Subnet"]["SubnetId"])


def launcher_of(access: AwsAccess, folder: Path, *, rehearsal: bool) -> Launcher:
    quick = Patience(throttled_s=0.5, unanswered=2, pause_s=0.02, round_s=0.1)
    return Launcher(lambda c, r: clouds.connect(c, r, access), Journal(folder), rehearsal=rehearsal, on_step=lambda _: None, patience=quick)


def ensure(launcher: Launcher, name: str, asked: Profile) -> dict[str, Any]:
    """Launch, and the machine as EC2's own client sees it."""
    (made,) = launcher.ensure(LaunchRequest(plan(asked, build(asked, dt.date(2026, 11, 21)), name), KEY))
    handle: Any = launcher.connect("aws", REGION)
    running = handle.wait_running(made, timeout_s=240)
    found: dict[str, Any] = handle._api.ec2.describe_instances(InstanceIds=[running.id])["Reservations"][0]["Instances"][0]
    assert running.address == found["PrivateIpAddress"]
    return found


def open_to(access: AwsAccess, machine: dict[str, Any]) -> list[str]:
    groups = [group["GroupId"] for group in machine["SecurityGroups"]]
    found = client("ec2", REGION, access).describe_security_groups(GroupIds=groups)["SecurityGroups"]
    return [entry["CidrIp"] for group in found for rule in group["IpPermissions"] for entry in rule["IpRanges"]]


@pytest.mark.parametrize(("way", "opened"), [(JUMP, ["10.40.1.4/32"]), ({"via": "ssm"}, [])])
def test_a_private_machine_stands_in_its_subnet_and_opens_what_its_way_needs(
    access: AwsAccess, tmp_path: Path, way: dict[str, Any], opened: list[str]
) -> None:
    subnet = subnet_in(access, f"{REGION}b")
    name = "jumped" if opened else "managed"
    machine = ensure(launcher_of(access, tmp_path, rehearsal=False), name, profile(subnet, **way))
    assert (machine["SubnetId"], machine["Placement"]["AvailabilityZone"]) == (subnet, f"{REGION}b")
    assert "PublicIpAddress" not in machine
    assert ipaddress.ip_address(machine["PrivateIpAddress"]) in ipaddress.ip_network("10.40.1.0/24")
    assert open_to(access, machine) == opened


def test_a_subnet_without_capacity_is_asked_for_in_no_other_zone(access: AwsAccess, ec2: Rehearsal, tmp_path: Path) -> None:
    control.ask(ec2, "settings", method="PUT", body={"zone_capacity": {f"{REGION}b": 0}})  # others have some, and EC2 says so
    launcher = launcher_of(access, tmp_path, rehearsal=False)
    with pytest.raises(CapacityError):
        ensure(launcher, "full", profile(subnet_in(access, f"{REGION}b"), **JUMP))
    assert [(a.zone, a.outcome) for a in launcher.attempts] == [("", "no-capacity"), (f"{REGION}b", "no-capacity")]
    handle = launcher.connect("aws", REGION)
    assert [thing for thing in handle.things("full") if thing.alive] == []


def test_the_embedded_cloud_has_no_subnet_of_the_user_and_the_machine_is_private_all_the_same(access: AwsAccess, tmp_path: Path) -> None:
    machine = ensure(launcher_of(access, tmp_path, rehearsal=True), "rehearsed", profile("subnet-0123456789abcdef0", **JUMP))
    assert "PublicIpAddress" not in machine
    assert open_to(access, machine) == ["10.40.1.4/32"]
