"""Security groups and key pairs."""

import uuid
from typing import Any

import pytest

from tests.rehearsal.aws.conftest import refused, run, state
from tests.waiting import until


def test_a_group_in_use_cannot_be_deleted(aws: Any, image: str) -> None:
    group = aws.create_security_group(GroupName="used", Description="x")["GroupId"]
    instance = run(aws, image, SecurityGroupIds=[group])["InstanceId"]
    assert refused(aws.delete_security_group, GroupId=group) == "DependencyViolation"
    aws.terminate_instances(InstanceIds=[instance])
    until(lambda: state(aws, instance) == "terminated")
    aws.delete_security_group(GroupId=group)


@pytest.mark.parametrize("material", [b"garbage", b"ssh-ed25519 AAAA", b""])
def test_a_key_that_is_none_is_refused(aws: Any, material: bytes) -> None:
    assert refused(aws.import_key_pair, KeyName=uuid.uuid4().hex, PublicKeyMaterial=material) in {
        "InvalidKey.Format",
        "InvalidKeyPair.Format",
        "MissingParameter",
    }
