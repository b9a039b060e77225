"""Images as a launch finds them, through real boto3 over HTTP against the embedded EC2."""

from __future__ import annotations

from typing import Any

import pytest

from provision.clouds.aws.permissions import NEEDS, permissions, policy_document
from provision.clouds.aws.place import AwsPlace
from provision.clouds.aws.requests import LOGIN_TAG
from provision.errors import CloudInvalidError, ImageNotFoundError, PermissionRefusedError
from tests.clouds.aws.rig import REGION, AwsRig, raw
from tests.clouds.aws.test_permissions import without

ID = "ami-0123456789abcdef0"
OWN: dict[str, Any] = {"ImageId": ID, "Region": REGION, "Name": "golden-2026-11", "OwnerId": "210987654321", "RootDeviceName": "/dev/xvda"}


def place(**image: Any) -> AwsPlace:
    return AwsPlace.model_validate({"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": [REGION], "image": image})


def mapped(device: str, size_gb: int) -> list[dict[str, Any]]:
    return [{"DeviceName": device, "Ebs": {"VolumeSize": size_gb, "SnapshotId": "snap-1"}}]


@pytest.mark.parametrize(
    "system",
    [
        *((name, version) for name in ("rocky", "alma", "centos-stream") for version in ("9", "10")),
        *(("debian", "13"), ("ubuntu", "26.04"), ("amazon-linux", "2023")),
    ],
)
def test_a_system_is_launched_from_its_publishers_newest_image_and_no_copy_of_it(rig: AwsRig, system: tuple[str, str]) -> None:
    (machine,) = rig.cloud().launch(rig.order(os=system))
    described = rig.client.describe_images(ImageIds=[raw(rig, machine.id)["ImageId"]])["Images"][0]
    assert "ProductCodes" not in described
    assert (described["Architecture"], described["CreationDate"][:10]) == ("x86_64", "2026-11-01")


@pytest.mark.parametrize(
    "found_by",
    [{"id": ID}, {"owner": "210987654321", "name": "golden-*"}, {"parameter": "/golden/ubuntu"}],
    ids=["id", "name", "parameter"],
)
def test_an_own_image_is_launched_with_its_own_root_device_and_login(rig: AwsRig, found_by: dict[str, str]) -> None:
    own = {**OWN, "BlockDeviceMappings": mapped("/dev/xvda", 20), "Parameter": "/golden/ubuntu"}
    rig.set(amis=[own, {**own, "ImageId": "ami-0fedcba9876543210", "CreationDate": "2025-01-01T00:00:00.000Z", "Parameter": "/old"}])
    order = rig.order(place=place(**found_by, login="svc-ops"), root_gb=40)
    (machine,) = rig.cloud().launch(order)
    assert (raw(rig, machine.id)["ImageId"], machine.login) == (ID, "svc-ops")
    assert raw(rig, machine.id)["BlockDeviceMappings"][0]["DeviceName"] == "/dev/xvda"
    assert {"Key": LOGIN_TAG, "Value": "svc-ops"} in raw(rig, machine.id)["Tags"]
    assert rig.cloud().find(order.name)[0].login == "svc-ops"  # told by its tags, to whoever asks later


NOT_USABLE = [
    ({}, {"id": "ami-00000000000000000"}, r"The image id '\[ami-00000000000000000\]' does not exist"),
    ({}, {"owner": "self", "name": "golden-*"}, "us-east-1 has no image 'golden-\\*' of self"),
    ({"ProductCodes": [{"ProductCodeId": "c", "ProductCodeType": "marketplace"}]}, {"id": ID}, "Marketplace"),
    ({"DeprecationTime": "2026-01-15T00:00:00.000Z"}, {"owner": "210987654321", "name": "golden-*"}, "is deprecated since 2026-01-15"),
    ({"Architecture": "arm64"}, {"id": ID}, "is for arm64, and g4dn.xlarge has x86_64"),
]


@pytest.mark.parametrize(("fields", "found_by", "said"), NOT_USABLE, ids=["id", "owner", "marketplace", "deprecated", "architecture"])
def test_an_own_image_that_cannot_be_used_is_refused_and_nothing_is_made(
    rig: AwsRig, fields: dict[str, Any], found_by: dict[str, str], said: str
) -> None:
    rig.set(amis=[{**OWN, **fields}])
    order = rig.order(place=place(**found_by))
    with pytest.raises(ImageNotFoundError, match=said) as caught:
        rig.cloud().launch(order)
    assert caught.value.hint
    assert rig.cloud().things(order.name) == []
    answers = {answer.about: answer for answer in rig.cloud().examine(order)}
    assert answers["image"].holds is False


def test_a_root_disk_below_the_images_own_is_refused_with_the_size_to_write(rig: AwsRig) -> None:
    rig.set(amis=[{**OWN, "BlockDeviceMappings": mapped("/dev/xvda", 120)}])
    with pytest.raises(CloudInvalidError, match=r"root volume of 120 GB, and disks\.root\.size_gb is 100") as caught:
        rig.cloud().launch(rig.order(place=place(id=ID), root_gb=100))
    assert "disks.root.size_gb: 120" in caught.value.hint


def test_plan_ask_tells_the_image_with_its_owner_and_day_and_that_it_is_encrypted(rig: AwsRig) -> None:
    disk = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20, "Encrypted": True, "SnapshotId": "snap-1"}}
    rig.set(amis=[{**OWN, "BlockDeviceMappings": [disk], "CreationDate": "2026-11-10T01:02:03.000Z"}])
    answers = {answer.about: answer for answer in rig.cloud().examine(rig.order(place=place(id=ID)))}
    said = f"{ID} golden-2026-11 (owner 210987654321, 2026-11-10), encrypted: its key's policy must let this account use it"
    assert (answers["image"].holds, answers["image"].said) == (True, said)


def policy(order: Any, commands: tuple[Any, ...], parameters: tuple[str, ...]) -> dict[str, Any]:
    given = {"name": order.name, "regions": [REGION], "instance_types": ["g4dn.xlarge"], "spot": False}
    return policy_document(**given, parameters=parameters, commands=commands)


def test_a_launch_by_owner_and_name_needs_to_describe_images_and_its_lack_is_named(rig: AwsRig) -> None:
    order = rig.order(os=("rocky", "9"))
    allowed = policy(order, ("launch", "find"), ())
    assert "ssm:GetParameter" not in str(allowed)
    assert "ssm:GetParameter" not in permissions(order)
    rig.set(allowed=without(allowed, "ec2:DescribeImages"))
    with pytest.raises(PermissionRefusedError, match=f"refuses ec2:DescribeImages in {REGION}"):
        rig.cloud().launch(order)
    rig.set(allowed=allowed)
    rig.cloud().launch(order)
    assert "ec2:DescribeImages" in NEEDS["launch"]


def test_a_policy_for_an_own_parameter_opens_that_one_and_no_other(rig: AwsRig) -> None:
    rig.set(amis=[{**OWN, "Parameter": "/golden/ubuntu"}])
    mine, other = rig.order(place=place(parameter="/golden/ubuntu")), rig.order(place=place(parameter="/golden/debian"))
    rig.set(allowed=policy(mine, ("launch", "find"), ("/golden/ubuntu",)))
    rig.cloud().launch(mine)
    with pytest.raises(PermissionRefusedError, match=f"refuses ssm:GetParameter in {REGION}"):
        rig.cloud().launch(other)
