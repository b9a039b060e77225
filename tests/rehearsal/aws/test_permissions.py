"""IAM policies."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.rehearsal.aws.conftest import HK, PARAMETER, refused


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
