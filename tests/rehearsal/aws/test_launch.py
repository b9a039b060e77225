"""RunInstances: tokens, refusals, zones with room."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.rehearsal.aws.conftest import everywhere, refused, run


def test_one_token_makes_one_instance_and_other_parameters_are_refused(aws: Any, image: str) -> None:
    first = run(aws, image, ClientToken="one")
    assert run(aws, image, ClientToken="one")["InstanceId"] == first["InstanceId"]
    assert refused(run, aws, image, ClientToken="one", InstanceType="g4dn.2xlarge") == "IdempotentParameterMismatch"
    found = aws.describe_instances(Filters=[{"Name": "client-token", "Values": ["one"]}])["Reservations"]
    assert [i["InstanceId"] for r in found for i in r["Instances"]] == [first["InstanceId"]]
    assert run(aws, image)["InstanceId"] != run(aws, image)["InstanceId"]


def test_a_token_whose_instance_has_ended_is_spent(aws: Any, image: str) -> None:
    first = run(aws, image, ClientToken="spent")
    aws.terminate_instances(InstanceIds=[first["InstanceId"]])
    assert refused(run, aws, image, ClientToken="spent") == "IdempotentInstanceTerminated"


def test_tags_are_shown_and_found_by_after_a_while(ec2: Rehearsal, aws: Any, image: str) -> None:
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "late", "Value": "1"}]}]
    control.ask(ec2, "settings", method="PUT", body={"tags_s": 60.0})
    made = run(aws, image, TagSpecifications=tags)["InstanceId"]

    def shown() -> tuple[int, int, int]:
        (reservation,) = aws.describe_instances(InstanceIds=[made])["Reservations"]
        by_tag = aws.describe_instances(Filters=[{"Name": "tag:late", "Values": ["1"]}])["Reservations"]
        rows = aws.describe_tags(Filters=[{"Name": "key", "Values": ["late"]}])["Tags"]
        return len(reservation["Instances"][0].get("Tags", [])), len(by_tag), len(rows)

    assert shown() == (0, 0, 0)
    control.ask(ec2, "settings", method="PUT", body={"tags_s": 0.0})
    assert shown() == (1, 1, 1)


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
