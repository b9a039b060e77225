"""The embedded AWS through real boto3 over HTTP, without hosts."""

import uuid
from typing import Any

import pytest
from botocore.exceptions import ClientError

from provision.clouds.aws import data
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
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


def everywhere(aws: Any, image: str, **more: Any) -> tuple[str, int]:
    """Zone and number of the machines of one RunInstances."""
    asked = {"ImageId": image, "InstanceType": "g4dn.xlarge", "ClientToken": uuid.uuid4().hex, **more}
    made = aws.run_instances(**asked)["Instances"]
    (zone,) = {i["Placement"]["AvailabilityZone"] for i in made}
    assert sorted(i["AmiLaunchIndex"] for i in made) == list(range(len(made)))
    return zone, len(made)


def put(ec2: Rehearsal, **rule: Any) -> None:
    control.ask(ec2, "faults", method="PUT", body=[rule])
