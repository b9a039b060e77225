"""Which of the images that EC2 describes is taken, and what is said of the others."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from provision.clouds.aws.image_choice import Wanted, choose, problem
from provision.errors import ImageNotFoundError

NOW = dt.datetime(2026, 11, 22, tzinfo=dt.UTC)
WANT = Wanted("g4dn.xlarge", owner="792107900819", name="Rocky-9-*")


def image(number: int = 1, **fields: Any) -> dict[str, Any]:
    plain = {
        "ImageId": f"ami-{number:017x}",
        "Name": f"Rocky-9-{number}",
        "OwnerId": "792107900819",
        "CreationDate": f"2026-0{number}-01T00:00:00.000Z",
        "State": "available",
        "Architecture": "x86_64",
        "VirtualizationType": "hvm",
        "EnaSupport": True,
        "RootDeviceType": "ebs",
        "RootDeviceName": "/dev/xvda",
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 30, "Encrypted": True}}],
    }
    return plain | fields


def test_the_newest_is_taken_with_its_own_root_device_and_size() -> None:
    found = choose([image(1), image(3), image(2)], WANT, "us-east-1", NOW)
    assert (found.id, found.root_device, found.created, found.owner) == (f"ami-{3:017x}", "/dev/xvda", "2026-03-01", "792107900819")
    assert (found.root_gb, found.encrypted) == (30, True)


REFUSED = [
    ({"State": "pending"}, "is pending"),
    ({"ProductCodes": [{"ProductCodeId": "x", "ProductCodeType": "marketplace"}]}, "is a copy in AWS's Marketplace"),
    ({"Platform": "windows"}, "is of Windows"),
    ({"DeprecationTime": "2026-11-21T00:00:00.000Z"}, "is deprecated since 2026-11-21"),
    ({"VirtualizationType": "paravirtual"}, "is of paravirtual virtualization"),
    ({"EnaSupport": False}, "has no ENA driver"),
    ({"RootDeviceType": "instance-store"}, "starts from no EBS volume"),
    ({"ImageAllowed": False}, "is not allowed in this account (Allowed AMIs)"),
    ({"Architecture": "arm64"}, "is for arm64, and g4dn.xlarge has x86_64"),
]


@pytest.mark.parametrize(("fields", "why"), REFUSED, ids=[why.split(",")[0].replace(" ", "-") for _, why in REFUSED])
def test_an_image_that_no_machine_starts_from_is_passed_over_and_said_where_it_is_the_only_one(fields: dict[str, Any], why: str) -> None:
    assert choose([image(1), image(2, **fields)], WANT, "us-east-1", NOW).id == f"ami-{1:017x}"
    with pytest.raises(ImageNotFoundError) as caught:
        choose([image(2, **fields)], WANT, "us-east-1", NOW)
    assert f"ami-{2:017x} {why}" in caught.value.message
    assert "'Rocky-9-*' of 792107900819 in us-east-1" in caught.value.message


def test_an_image_that_will_be_deprecated_is_no_worse_today() -> None:
    assert problem(image(DeprecationTime="2026-11-23T00:00:00.000Z"), "g4dn.xlarge", NOW) == ""


def test_a_date_that_nobody_can_read_is_none() -> None:
    assert problem(image(DeprecationTime="2020-09-24T13:31:456.000Z"), "g4dn.xlarge", NOW) == ""  # of a recording of cloud-custodian


@pytest.mark.parametrize(
    ("instance_type", "mode", "fits"),
    [
        ("p4d.24xlarge", "uefi", False),
        ("p4d.24xlarge", "uefi-preferred", True),
        ("p4d.24xlarge", "legacy-bios", True),
        ("g4dn.xlarge", "uefi", True),
        ("g4dn.xlarge", "", True),
    ],
)
def test_a_type_starts_only_by_the_firmware_that_it_has(instance_type: str, mode: str, fits: bool) -> None:  # noqa: FBT001 - a table
    said = problem(image(BootMode=mode), instance_type, NOW)
    assert (said == "") is fits
    if not fits:
        assert said == f"starts by {mode} only, and {instance_type} by legacy-bios"


def test_of_many_only_a_few_are_named() -> None:
    with pytest.raises(ImageNotFoundError, match=r"; and 2 more$"):
        choose([image(n, EnaSupport=False) for n in range(1, 6)], WANT, "us-east-1", NOW)


def test_none_at_all_says_where_it_was_looked_for() -> None:
    with pytest.raises(ImageNotFoundError, match=r"^us-east-1 has no image 'Rocky-9-\*' of 792107900819$") as caught:
        choose([], WANT, "us-east-1", NOW)
    assert "shared it with this account" in caught.value.hint
