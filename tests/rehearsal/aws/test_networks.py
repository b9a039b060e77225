"""Security groups and key pairs."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from moto.ec2.models.key_pairs import KeyPairBackend
from moto.ec2.models.security_groups import SecurityGroupBackend

from provision.rehearsal.aws import networks
from provision.rehearsal.aws.settings import AwsSettings
from tests.rehearsal.aws.conftest import refused, run, state
from tests.waiting import until


def test_a_group_in_use_cannot_be_deleted(aws: Any, image: str) -> None:
    group = aws.create_security_group(GroupName="used", Description="x")["GroupId"]
    instance = run(aws, image, SecurityGroupIds=[group])["InstanceId"]
    assert refused(aws.delete_security_group, GroupId=group) == "DependencyViolation"
    aws.terminate_instances(InstanceIds=[instance])
    until(lambda: state(aws, instance) == "terminated")
    aws.delete_security_group(GroupId=group)


def test_a_vpc_has_one_group_of_a_name_and_another_vpc_may_have_one_too(aws: Any) -> None:
    make = {"GroupName": uuid.uuid4().hex, "Description": "x"}
    first = aws.create_security_group(**make)["GroupId"]
    assert refused(aws.create_security_group, **make) == "InvalidGroup.Duplicate"
    vpc = aws.create_vpc(CidrBlock="10.60.0.0/16")["Vpc"]["VpcId"]
    second = aws.create_security_group(**make, VpcId=vpc)["GroupId"]
    assert refused(aws.create_security_group, **make, VpcId=vpc) == "InvalidGroup.Duplicate"
    shown = aws.describe_security_groups(Filters=[{"Name": "group-name", "Values": [make["GroupName"]]}])["SecurityGroups"]
    assert {group["GroupId"] for group in shown} == {first, second}
    aws.delete_security_group(GroupId=first)
    assert aws.create_security_group(**make)["GroupId"] not in {first, second}


@pytest.fixture
def own_moto(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Moto's classes in this process, which are put back afterwards."""
    for owner, method in (
        (KeyPairBackend, "import_key_pair"),
        (SecurityGroupBackend, "create_security_group"),
        (SecurityGroupBackend, "delete_security_group"),
        (SecurityGroupBackend, "describe_security_groups"),
    ):
        monkeypatch.setattr(owner, method, getattr(owner, method))
    return monkeypatch


def test_two_groups_are_never_made_at_once(own_moto: pytest.MonkeyPatch) -> None:
    """Moto looks for the name first and makes the group afterwards; between the two, another request would not see it."""
    both = threading.Barrier(2, timeout=0.1)

    def create(_self: Any, _name: str) -> SimpleNamespace:
        try:
            both.wait()
        except threading.BrokenBarrierError:
            return SimpleNamespace(name="default", alone=True)
        return SimpleNamespace(name="default", alone=False)

    own_moto.setattr(SecurityGroupBackend, "create_security_group", create)
    networks.patch(AwsSettings())
    make: Any = SecurityGroupBackend.create_security_group
    with ThreadPoolExecutor(2) as pool:
        world = SimpleNamespace(region_name="us-east-1")
        assert [group.alone for group in pool.map(lambda name: make(world, name), ("same", "same"))] == [True, True]


@pytest.mark.parametrize("material", [b"garbage", b"ssh-ed25519 AAAA", b""])
def test_a_key_that_is_none_is_refused(aws: Any, material: bytes) -> None:
    assert refused(aws.import_key_pair, KeyName=uuid.uuid4().hex, PublicKeyMaterial=material) in {
        "InvalidKey.Format",
        "InvalidKeyPair.Format",
        "MissingParameter",
    }
