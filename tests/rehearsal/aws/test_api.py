"""The embedded EC2 behaves where moto does not: through real boto3 over HTTP, without hosts."""

import time
import uuid
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError

from provision.clouds.aws import data
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.errors import RehearsalFailedError
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal

HK = "ap-east-1"
IMAGE = data.image(("ubuntu", "24.04"))
assert IMAGE is not None
PARAMETER = IMAGE.parameter


@pytest.fixture
def aws(access: AwsAccess) -> Any:
    return client("ec2", HK, access, retried=False)


@pytest.fixture
def image(access: AwsAccess) -> str:
    return str(client("ssm", HK, access).get_parameter(Name=PARAMETER)["Parameter"]["Value"])


def run(aws: Any, image: str, **more: Any) -> Any:
    asked = {"ImageId": image, "InstanceType": "g4dn.xlarge", "MinCount": 1, "MaxCount": 1, "ClientToken": uuid.uuid4().hex, **more}
    return aws.run_instances(**asked)["Instances"][0]


def state(aws: Any, instance_id: str) -> str:
    return str(aws.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]["State"]["Name"])


def refused(call: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(*args, **kwargs)
    return str(caught.value.response["Error"]["Code"])


def test_one_token_makes_one_instance_and_other_parameters_are_refused(aws: Any, image: str) -> None:
    first = run(aws, image, ClientToken="one")
    assert run(aws, image, ClientToken="one")["InstanceId"] == first["InstanceId"]
    assert refused(run, aws, image, ClientToken="one", InstanceType="g4dn.2xlarge") == "IdempotentParameterMismatch"
    found = aws.describe_instances(Filters=[{"Name": "client-token", "Values": ["one"]}])["Reservations"]
    assert [i["InstanceId"] for r in found for i in r["Instances"]] == [first["InstanceId"]]
    assert run(aws, image)["InstanceId"] != run(aws, image)["InstanceId"]


def test_states_take_their_time(ec2: Rehearsal, aws: Any, image: str) -> None:
    control.ask(ec2, "settings", method="PUT", body={"pending_s": 0.6, "ending_s": 0.6})
    instance = run(aws, image)["InstanceId"]
    assert state(aws, instance) == "pending"
    time.sleep(0.7)
    assert state(aws, instance) == "running"
    for call, between, after in (
        (aws.stop_instances, "stopping", "stopped"),
        (aws.start_instances, "pending", "running"),
        (aws.terminate_instances, "shutting-down", "terminated"),
    ):
        call(InstanceIds=[instance])
        assert state(aws, instance) == between
        time.sleep(0.7)
        assert state(aws, instance) == after


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"InstanceType": "nosuch.type"}, "InvalidParameterValue"),
        ({"InstanceType": "p3.2xlarge"}, "InvalidParameterValue"),
        ({"InstanceType": "p3dn.24xlarge"}, "Unsupported"),
        ({"ImageId": "ami-0123456789abcdef0"}, "InvalidAMIID.NotFound"),
        ({"SecurityGroupIds": ["sg-0123456789abcdef0"]}, "InvalidGroup.NotFound"),
        ({"KeyName": "nobody-imported-it"}, "InvalidKeyPair.NotFound"),
        ({"MinCount": 2}, "InvalidParameterValue"),
        ({"Placement": {"AvailabilityZone": "us-east-1a"}}, "InvalidParameterValue"),
        ({"DryRun": True}, "DryRunOperation"),
    ],
)
def test_what_ec2_refuses_is_refused_with_its_code_and_makes_nothing(aws: Any, image: str, more: dict[str, Any], code: str) -> None:
    def count() -> int:
        return sum(len(r["Instances"]) for r in aws.describe_instances()["Reservations"])

    before = count()
    assert refused(run, aws, image, **more) == code
    assert count() == before


def test_every_region_has_its_own_image_of_ubuntu(access: AwsAccess) -> None:
    values = {r: client("ssm", r, access).get_parameter(Name=PARAMETER)["Parameter"]["Value"] for r in (HK, "us-east-1")}
    assert len(set(values.values())) == 2
    described = client("ec2", HK, access).describe_images(ImageIds=[values[HK]])["Images"][0]
    assert (described["OwnerId"], described["RootDeviceName"]) == ("099720109477", "/dev/sda1")


def test_the_vcpu_quota_counts_what_runs(ec2: Rehearsal, access: AwsAccess) -> None:
    region = "eu-west-1"
    aws = client("ec2", region, access, retried=False)
    image = client("ssm", region, access).get_parameter(Name=PARAMETER)["Parameter"]["Value"]
    control.ask(ec2, "settings", method="PUT", body={"vcpu_limit": {region: 4}})
    first = run(aws, image)["InstanceId"]
    assert refused(run, aws, image) == "VcpuLimitExceeded"
    aws.terminate_instances(InstanceIds=[first])
    time.sleep(0.2)
    run(aws, image)


def test_a_group_in_use_cannot_be_deleted(aws: Any, image: str) -> None:
    group = aws.create_security_group(GroupName="used", Description="x")["GroupId"]
    instance = run(aws, image, SecurityGroupIds=[group])["InstanceId"]
    assert refused(aws.delete_security_group, GroupId=group) == "DependencyViolation"
    aws.terminate_instances(InstanceIds=[instance])
    time.sleep(0.2)
    aws.delete_security_group(GroupId=group)


@pytest.mark.parametrize("material", [b"garbage", b"ssh-ed25519 AAAA", b""])
def test_a_key_that_is_none_is_refused(aws: Any, material: bytes) -> None:
    assert refused(aws.import_key_pair, KeyName=uuid.uuid4().hex, PublicKeyMaterial=material) in {
        "InvalidKey.Format",
        "InvalidKeyPair.Format",
        "MissingParameter",
    }


# --- faults -------------------------------------------------------------------------------------------------------


def put(ec2: Rehearsal, **rule: Any) -> None:
    control.ask(ec2, "faults", method="PUT", body=[rule])


def test_a_fault_counts_down_and_matches_action_region_and_parameters(ec2: Rehearsal, aws: Any, image: str) -> None:
    put(
        ec2,
        kind="error",
        action="RunInstances",
        region=HK,
        params={"InstanceType": "g4dn.xlarge"},
        count=1,
        code="InsufficientInstanceCapacity",
        http=500,
    )
    run(aws, image, InstanceType="g4dn.2xlarge")
    assert refused(run, aws, image) == "InsufficientInstanceCapacity"
    run(aws, image)


def test_an_error_comes_in_the_protocol_of_its_service(ec2: Rehearsal, access: AwsAccess) -> None:
    put(ec2, kind="error", action="GetParameter", code="AccessDeniedException", message="not <you>")
    with pytest.raises(ClientError) as caught:
        client("ssm", HK, access).get_parameter(Name=PARAMETER)
    assert caught.value.response["Error"] == {"Code": "AccessDeniedException", "Message": "not <you>"}


def test_a_dropped_connection_and_a_page_instead_of_an_answer(ec2: Rehearsal, aws: Any) -> None:
    put(ec2, kind="drop", action="DescribeInstances", count=1)
    with pytest.raises((ConnectionClosedError, EndpointConnectionError)):
        aws.describe_instances()
    put(ec2, kind="html", action="DescribeInstances", count=1)
    assert refused(aws.describe_instances) == "502"


def test_a_lost_reply_was_executed(ec2: Rehearsal, aws: Any, image: str) -> None:
    put(ec2, kind="lost", action="RunInstances", count=1)
    with pytest.raises((ConnectionClosedError, EndpointConnectionError)):
        run(aws, image, ClientToken="lost-one")
    found = aws.describe_instances(Filters=[{"Name": "client-token", "Values": ["lost-one"]}])["Reservations"]
    assert len(found) == 1
    assert run(aws, image, ClientToken="lost-one")["InstanceId"] == found[0]["Instances"][0]["InstanceId"]


def test_a_delay_delays(ec2: Rehearsal, aws: Any) -> None:
    put(ec2, kind="delay", action="DescribeInstances", delay_s=0.4)
    started = time.monotonic()
    aws.describe_instances()
    assert time.monotonic() - started >= 0.4


@pytest.mark.parametrize("rule", [{"kind": "explode"}, {"kind": "error", "action": "("}, {"kind": "error", "colour": "red"}, "drop"])
def test_a_rule_that_is_none_is_refused_and_none_is_taken(ec2: Rehearsal, rule: Any) -> None:
    put(ec2, kind="delay", action="Nothing")
    with pytest.raises(RehearsalFailedError):
        control.ask(ec2, "faults", method="PUT", body=[rule])
    assert [r["action"] for r in control.ask(ec2, "faults")] == ["Nothing"]


# --- zones, quotas, spot, events ----------------------------------------------------------------------------------


def everywhere(aws: Any, image: str, **more: Any) -> tuple[str, int]:
    """Zone and number of the machines of one RunInstances."""
    asked = {"ImageId": image, "InstanceType": "g4dn.xlarge", "ClientToken": uuid.uuid4().hex, **more}
    made = aws.run_instances(**asked)["Instances"]
    (zone,) = {i["Placement"]["AvailabilityZone"] for i in made}
    assert sorted(i["AmiLaunchIndex"] for i in made) == list(range(len(made)))
    return zone, len(made)


def test_a_zone_runs_out_and_the_answer_names_the_others(ec2: Rehearsal, aws: Any, image: str) -> None:
    control.ask(ec2, "settings", method="PUT", body={"zone_capacity": {"ap-east-1a": 3, "ap-east-1b": 0}})
    at_a = {"Placement": {"AvailabilityZone": "ap-east-1a"}}
    assert everywhere(aws, image, MinCount=1, MaxCount=2, **at_a) == ("ap-east-1a", 2)
    with pytest.raises(ClientError) as caught:
        everywhere(aws, image, MinCount=2, MaxCount=2, **at_a)
    error = caught.value.response
    assert (error["Error"]["Code"], error["ResponseMetadata"]["HTTPStatusCode"]) == ("InsufficientInstanceCapacity", 500)
    assert error["Error"]["Message"].endswith("choosing ap-east-1c.")
    assert everywhere(aws, image, MinCount=1, MaxCount=2, **at_a) == ("ap-east-1a", 1)  # what there is, when it is enough
    assert everywhere(aws, image, MinCount=2, MaxCount=2) == ("ap-east-1c", 2)
    control.ask(ec2, "settings", method="PUT", body={"zone_capacity": dict.fromkeys(["ap-east-1a", "ap-east-1b", "ap-east-1c"], 0)})
    assert refused(everywhere, aws, image, MinCount=1, MaxCount=1) == "InsufficientInstanceCapacity"
    left = control.ask(ec2, "settings")["zone_capacity"]
    assert left == {"ap-east-1a": 0, "ap-east-1b": 0, "ap-east-1c": 0}


def test_a_quota_limits_how_many_of_those_asked_for(ec2: Rehearsal, access: AwsAccess) -> None:
    region = "eu-central-1"
    aws = client("ec2", region, access, retried=False)
    image = client("ssm", region, access).get_parameter(Name=PARAMETER)["Parameter"]["Value"]
    control.ask(ec2, "settings", method="PUT", body={"vcpu_limit": {region: 9}})
    assert everywhere(aws, image, MinCount=1, MaxCount=5)[1] == 2
    spot = {"InstanceMarketOptions": {"MarketType": "spot"}}
    assert everywhere(aws, image, MinCount=2, MaxCount=2, **spot)[1] == 2  # another quota
    assert refused(everywhere, aws, image, MinCount=1, MaxCount=1, **spot) == "MaxSpotInstanceCountExceeded"
    quotas = client("service-quotas", region, access)
    assert quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-DB2E81BA")["Quota"]["Value"] == 9
    assert refused(quotas.get_service_quota, ServiceCode="ec2", QuotaCode="L-00000000") == "NoSuchResourceException"


def test_regions_say_whether_they_are_enabled_and_refuse_credentials_when_not(ec2: Rehearsal, aws: Any, access: AwsAccess) -> None:
    control.ask(ec2, "settings", method="PUT", body={"not_opted_in": [HK]})
    home = client("ec2", "us-east-1", access)
    assert HK not in {r["RegionName"] for r in home.describe_regions()["Regions"]}
    (region,) = home.describe_regions(AllRegions=True, RegionNames=[HK])["Regions"]
    assert region["OptInStatus"] == "not-opted-in"
    assert refused(aws.describe_instances) == "AuthFailure"
    assert refused(home.describe_regions, RegionNames=["xx-nowhere-1"]) == "InvalidParameterValue"


def test_spot_has_requests_and_prices(aws: Any, image: str) -> None:
    tags = [{"ResourceType": "spot-instances-request", "Tags": [{"Key": "a", "Value": "b"}]}]
    made = run(aws, image, InstanceMarketOptions={"MarketType": "spot"}, TagSpecifications=tags)
    (request,) = aws.describe_spot_instance_requests(Filters=[{"Name": "tag:a", "Values": ["b"]}])["SpotInstanceRequests"]
    assert (request["InstanceId"], request["State"], request["Status"]["Code"]) == (made["InstanceId"], "active", "fulfilled")
    aws.terminate_instances(InstanceIds=[made["InstanceId"]])
    by_id = aws.describe_spot_instance_requests(SpotInstanceRequestIds=[request["SpotInstanceRequestId"]])["SpotInstanceRequests"]
    assert by_id[0]["State"] == "closed"
    assert refused(aws.describe_spot_instance_requests, SpotInstanceRequestIds=["sir-00000000"]) == "InvalidSpotInstanceRequestID.NotFound"
    prices = aws.describe_spot_price_history(InstanceTypes=["g4dn.xlarge"], ProductDescriptions=["Linux/UNIX"])["SpotPriceHistory"]
    assert {p["AvailabilityZone"] for p in prices} == {"ap-east-1a", "ap-east-1b", "ap-east-1c"}
    assert all(0.01 < float(p["SpotPrice"]) < 0.526 for p in prices)


# --- policies -----------------------------------------------------------------------------------------------------


def test_a_policy_is_enforced_with_ec2s_code_and_names_the_action(ec2: Rehearsal, aws: Any, access: AwsAccess) -> None:
    statement = {
        "Effect": "Allow",
        "Action": "ec2:Describe*",
        "Resource": "*",
        "Condition": {"StringEquals": {"aws:RequestedRegion": [HK]}},
    }
    control.ask(ec2, "settings", method="PUT", body={"allowed": {"Version": "2012-10-17", "Statement": [statement]}})
    aws.describe_instances()
    with pytest.raises(ClientError) as caught:
        aws.create_security_group(GroupName="x", Description="x")
    error = caught.value.response
    assert (error["Error"]["Code"], error["ResponseMetadata"]["HTTPStatusCode"]) == ("UnauthorizedOperation", 403)
    assert "ec2:CreateSecurityGroup" in error["Error"]["Message"]
    assert refused(client("ec2", "us-east-1", access).describe_instances) == "UnauthorizedOperation"
    assert refused(client("ssm", HK, access).get_parameter, Name=PARAMETER) == "AccessDeniedException"
    statements = [statement, {"Effect": "Deny", "Action": "*", "Resource": "*"}]
    control.ask(ec2, "settings", method="PUT", body={"allowed": {"Version": "2012-10-17", "Statement": statements}})
    assert refused(aws.describe_instances) == "UnauthorizedOperation"
