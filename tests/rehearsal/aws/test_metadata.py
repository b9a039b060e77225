"""The metadata service and the buckets of the embedded AWS: a machine has the credentials of its role, which its policy holds."""

import base64
import hashlib
import http.client
import urllib.parse
import uuid
from typing import Any

import pytest
from botocore.exceptions import ClientError

from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.rehearsal.aws.conftest import HK, refused, run
from tests.rehearsal.aws.machine import Machine
from tests.waiting import until

ROLE = "gpu-node"


@pytest.fixture
def machine(aws: Any, image: str, access: AwsAccess) -> Machine:
    made = run(aws, image, IamInstanceProfile={"Name": ROLE})
    until(lambda: aws.describe_instances(InstanceIds=[made["InstanceId"]])["Reservations"][0]["Instances"][0].get("PublicIpAddress"))
    return Machine(aws, access, made["InstanceId"])


@pytest.fixture
def bucket(access: AwsAccess) -> str:
    name = f"b-{uuid.uuid4().hex[:12]}"
    client("s3", HK, access).create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": HK})
    return name


def allow(ec2: Rehearsal, *statements: dict[str, Any]) -> None:
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **each} for each in statements]}
    control.ask(ec2, "settings", method="PUT", body={"role_policies": {ROLE: document}})


def test_only_a_session_token_opens_the_metadata(machine: Machine) -> None:
    assert machine.ask("meta-data/instance-id")[0] == 401
    assert machine.ask("api/token", "PUT")[0] == 400
    assert machine.metadata("instance-id") == machine.id
    assert machine.metadata("placement/region") == HK


def test_whoever_is_not_a_machine_is_told_nothing(machine: Machine) -> None:
    machine.address = "127.0.0.1"
    assert machine.ask("api/token", "PUT", X_aws_ec2_metadata_token_ttl_seconds="60")[0] == 404


def test_a_role_without_a_policy_may_do_nothing(machine: Machine, bucket: str) -> None:
    assert refused(machine.client("s3").put_object, Bucket=bucket, Key="a", Body=b"x") == "AccessDenied"
    assert refused(machine.client("ec2").describe_instances) == "UnauthorizedOperation"


def test_a_machine_writes_below_its_own_prefix_and_nowhere_else(ec2: Rehearsal, machine: Machine, bucket: str) -> None:
    allow(ec2, {"Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/evidence/${{aws:userid}}/*"})
    s3, me = machine.client("s3"), machine.client("sts").get_caller_identity()["UserId"]
    assert me.endswith(f":{machine.id}")
    s3.put_object(Bucket=bucket, Key=f"evidence/{me}/1.json", Body=b"mine", IfNoneMatch="*")
    assert refused(s3.put_object, Bucket=bucket, Key=f"evidence/{me[:-1]}/1.json", Body=b"x") == "AccessDenied"
    assert refused(s3.get_object, Bucket=bucket, Key=f"evidence/{me}/1.json") == "AccessDenied"
    again = refused(s3.put_object, Bucket=bucket, Key=f"evidence/{me}/1.json", Body=b"other", IfNoneMatch="*")
    assert again == "PreconditionFailed"


@pytest.mark.parametrize(
    ("field", "code"),
    [("SecretAccessKey", "SignatureDoesNotMatch"), ("Token", "InvalidAccessKeyId"), ("AccessKeyId", "InvalidAccessKeyId")],
)
def test_forged_credentials_are_refused(ec2: Rehearsal, machine: Machine, bucket: str, field: str, code: str) -> None:
    allow(ec2, {"Action": "s3:*", "Resource": "*"})
    assert refused(machine.client("s3", **{field: "ASIAFORGED"}).list_objects_v2, Bucket=bucket) == code


def test_an_ended_machine_keeps_no_rights(ec2: Rehearsal, aws: Any, machine: Machine, bucket: str) -> None:
    allow(ec2, {"Action": "s3:*", "Resource": "*"})
    s3 = machine.client("s3")
    s3.list_objects_v2(Bucket=bucket)
    aws.terminate_instances(InstanceIds=[machine.id])
    assert refused(s3.list_objects_v2, Bucket=bucket) == "AccessDenied"


def test_the_owners_signature_is_checked_and_unsigned_or_presigned_requests_are_refused(access: AwsAccess, bucket: str) -> None:
    s3 = client("s3", HK, access)
    s3.put_object(Bucket=bucket, Key="a b/ü?c", Body=b"x")
    assert s3.get_object(Bucket=bucket, Key="a b/ü?c")["Body"].read() == b"x"
    assert [row["Key"] for row in s3.list_objects_v2(Bucket=bucket, Prefix="a b/")["Contents"]] == ["a b/ü?c"]
    forged = AwsAccess(access.endpoint_url, "rehearsal", "another")
    assert refused(client("s3", HK, forged).list_objects_v2, Bucket=bucket) == "SignatureDoesNotMatch"
    address = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a b/ü?c"})
    where = urllib.parse.urlsplit(address)
    for target in (f"{where.path}?{where.query}", where.path):
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20)
        connection.request("GET", target)
        assert connection.getresponse().status == 403


def test_a_checksum_that_is_not_the_bodys_is_refused(access: AwsAccess, bucket: str) -> None:
    s3, wrong = client("s3", HK, access), hashlib.sha256(b"y").digest()
    with pytest.raises(ClientError) as caught:
        s3.put_object(Bucket=bucket, Key="a", Body=b"x", ChecksumSHA256=base64.b64encode(wrong).decode())
    assert caught.value.response["Error"]["Code"] == "BadDigest"
