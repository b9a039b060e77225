"""What EC2's descriptions mean."""

import datetime as dt
from typing import Any

import pytest

from provision.clouds import base
from provision.clouds.aws.answers import instance_of, instances_of


def described(**changes: Any) -> dict[str, Any]:
    tags = {base.NAME_TAG: "train", base.COUNT_TAG: "3", base.FIRST_TAG: "2", **changes.pop("tags", {})}
    return {
        "InstanceId": "i-1",
        "InstanceType": "g4dn.xlarge",
        "State": {"Name": "running"},
        "LaunchTime": dt.datetime(2026, 11, 21, tzinfo=dt.UTC),
        "PublicIpAddress": "203.0.113.7",
        "PrivateIpAddress": "10.0.0.7",
        "AmiLaunchIndex": 1,
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
        **changes,
    }


def test_the_number_among_several_follows_from_the_place_in_its_own_call() -> None:
    assert instance_of(described(), "us-east-1").name == "train-3"


@pytest.mark.parametrize("text", ["", "many", "-1", "²"])
def test_a_count_that_is_no_number_counts_as_one(text: str) -> None:
    assert instance_of(described(tags={base.COUNT_TAG: text}), "us-east-1").name == "train"


def test_a_private_machine_shows_its_private_address() -> None:
    assert instance_of(described(), "us-east-1").address == "203.0.113.7"
    assert instance_of(described(tags={"gpuprov:address": "private"}), "us-east-1").address == "10.0.0.7"


@pytest.mark.parametrize(("system", "login"), [("debian 12", "admin"), ("ubuntu 24.04", "ubuntu"), ("nobody 1", "ubuntu")])
def test_the_login_is_that_of_the_system(system: str, login: str) -> None:
    assert instance_of(described(tags={"gpuprov:os": system}), "us-east-1").login == login


def test_the_oldest_comes_first() -> None:
    later = described(InstanceId="i-2", LaunchTime=dt.datetime(2026, 11, 22, tzinfo=dt.UTC))
    assert [i.id for i in instances_of([later, described()], "us-east-1")] == ["i-1", "i-2"]
