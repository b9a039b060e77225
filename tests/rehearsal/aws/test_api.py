"""The log, and faults on the wire in the protocols of EC2 and SSM."""

from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError

from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.rehearsal.aws.conftest import HK, PARAMETER, put, refused, run


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
    aws.describe_instances()
    assert control.ask(ec2, "calls")[-1]["seconds"] >= 0.4


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
