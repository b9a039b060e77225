"""What EC2 refuses and moto does not."""

from functools import partial
from typing import Any

import pytest

from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.rehearsal.aws.conftest import HK, refused, run, state
from tests.waiting import until

LONG = {"UserData": "x" * 16_385}
HOPS = {"MetadataOptions": {"HttpPutResponseHopLimit": 65}}
OURS = {"TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "aws:mine", "Value": "1"}]}]}


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (LONG, "InvalidParameterValue"),
        (HOPS, "InvalidParameterValue"),
        (OURS, "InvalidParameterValue"),
        ({"ImageId": "ubuntu"}, "InvalidAMIID.Malformed"),
        ({"ImageId": "ami-1"}, "InvalidAMIID.Malformed"),
    ],
)
def test_a_launch_that_nobody_may_ask_for(aws: Any, image: str, more: dict[str, Any], code: str) -> None:
    assert refused(run, aws, image, **more) == code


def test_what_is_just_within_the_limits_is_launched(aws: Any, image: str) -> None:
    within = {"UserData": "x" * 16_384, "MetadataOptions": {"HttpPutResponseHopLimit": 64}}
    aws.terminate_instances(InstanceIds=[run(aws, image, **within)["InstanceId"]])


def test_an_id_that_is_none_is_malformed_and_a_filter_finds_nothing(aws: Any) -> None:
    for call in (aws.describe_instances, aws.terminate_instances, aws.start_instances):
        assert refused(call, InstanceIds=["i-1"]) == "InvalidInstanceID.Malformed"
    assert refused(aws.describe_images, ImageIds=["ami-xyz"]) == "InvalidAMIID.Malformed"
    assert refused(aws.describe_instances, InstanceIds=["i-0123456789abcdef0"]) == "InvalidInstanceID.NotFound"
    assert aws.describe_instances(Filters=[{"Name": "instance-id", "Values": ["i-1"]}])["Reservations"] == []


def test_a_machine_that_ended_neither_starts_nor_stops_and_one_that_runs_goes_on(aws: Any, image: str) -> None:
    instance = run(aws, image)["InstanceId"]
    until(lambda: state(aws, instance) == "running")
    (row,) = aws.start_instances(InstanceIds=[instance])["StartingInstances"]
    assert (row["PreviousState"]["Name"], row["CurrentState"]["Name"], state(aws, instance)) == ("running",) * 3
    aws.terminate_instances(InstanceIds=[instance])
    until(lambda: state(aws, instance) == "terminated")
    assert refused(aws.start_instances, InstanceIds=[instance]) == "IncorrectInstanceState"
    assert refused(aws.stop_instances, InstanceIds=[instance]) == "IncorrectInstanceState"
    aws.terminate_instances(InstanceIds=[instance])  # which is idempotent


def test_a_protected_machine_keeps_those_of_its_zone_and_no_others(aws: Any, image: str) -> None:
    """The example of API_TerminateInstances."""

    def made(zone: str, **more: Any) -> str:
        return str(run(aws, image, Placement={"AvailabilityZone": f"{HK}{zone}"}, **more)["InstanceId"])

    first, kept, protected = made("a"), made("b"), made("b", DisableApiTermination=True)
    assert refused(aws.terminate_instances, InstanceIds=[first, kept, protected]) == "OperationNotPermitted"
    until(lambda: state(aws, first) == "terminated")
    assert {state(aws, each) for each in (kept, protected)} <= {"pending", "running"}
    aws.modify_instance_attribute(InstanceId=protected, DisableApiTermination={"Value": False})
    aws.terminate_instances(InstanceIds=[kept, protected])
    until(lambda: {state(aws, each) for each in (kept, protected)} == {"terminated"})


def test_a_machine_that_is_protected_against_it_is_not_stopped(aws: Any, image: str) -> None:
    instance = run(aws, image, DisableApiStop=True)["InstanceId"]
    until(lambda: state(aws, instance) == "running")
    assert refused(aws.stop_instances, InstanceIds=[instance]) == "OperationNotPermitted"
    aws.terminate_instances(InstanceIds=[instance])


@pytest.mark.parametrize(("code", "reads"), [("OptInRequired", False), ("PendingVerification", True), ("Blocked", True)])
def test_the_state_of_an_account_refuses_in_its_region(ec2: Rehearsal, aws: Any, image: str, code: str, reads: bool) -> None:  # noqa: FBT001 - a table
    control.ask(ec2, "settings", method="PUT", body={"account_state": {HK: code}})
    assert refused(run, aws, image) == code
    assert bool(aws.describe_instances()) if reads else refused(aws.describe_instances) == code
    control.ask(ec2, "settings", method="PUT", body={"account_state": {"us-east-1": code}})
    aws.terminate_instances(InstanceIds=[run(aws, image)["InstanceId"]])


def test_a_region_without_a_default_vpc_needs_one_that_is_named(ec2: Rehearsal, aws: Any, image: str) -> None:
    vpc = aws.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    subnet = aws.create_subnet(VpcId=vpc, CidrBlock="10.9.0.0/24")["Subnet"]
    control.ask(ec2, "settings", method="PUT", body={"no_default_vpc": [HK]})
    make = partial(aws.create_security_group, GroupName="no-default", Description="x")
    assert (refused(make), refused(run, aws, image)) == ("VPCIdNotSpecified", "VPCIdNotSpecified")
    assert aws.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"] == []
    group = make(VpcId=subnet["VpcId"])["GroupId"]
    instance = run(aws, image, SubnetId=subnet["SubnetId"], SecurityGroupIds=[group])["InstanceId"]
    aws.terminate_instances(InstanceIds=[instance])
