"""Clients of boto3: made once, and told how often a call may be sent."""

from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client

ACCESS = AwsAccess("http://127.0.0.1:9", "x", "y", timeout_s=7)


def test_the_same_client_is_returned_again() -> None:
    assert client("ssm", "us-east-1", ACCESS) is client("ssm", "us-east-1", ACCESS)
    assert client("ssm", "us-east-1", ACCESS) is not client("ssm", "us-east-2", ACCESS)


def test_a_client_for_calls_that_make_something_sends_each_once() -> None:
    config = client("ssm", "us-east-1", ACCESS, retried=False).meta.config
    assert config.retries == {"mode": "standard", "total_max_attempts": 1}
    assert config.read_timeout == 7
    assert client("ssm", "us-east-1", ACCESS).meta.config.retries["total_max_attempts"] == 4


def test_the_secret_key_is_in_no_text() -> None:
    assert "s3cret" not in repr(AwsAccess(access_key_id="AKIA", secret_access_key="s3cret"))
