"""Images and regions."""

from typing import Any

from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.rehearsal.aws.conftest import HK, PARAMETER, refused


def test_every_region_has_its_own_image_of_ubuntu(access: AwsAccess) -> None:
    values = {r: client("ssm", r, access).get_parameter(Name=PARAMETER)["Parameter"]["Value"] for r in (HK, "us-east-1")}
    assert len(set(values.values())) == 2
    described = client("ec2", HK, access).describe_images(ImageIds=[values[HK]])["Images"][0]
    assert (described["OwnerId"], described["RootDeviceName"]) == ("099720109477", "/dev/sda1")


def test_regions_say_whether_they_are_enabled_and_refuse_credentials_when_not(ec2: Rehearsal, aws: Any, access: AwsAccess) -> None:
    control.ask(ec2, "settings", method="PUT", body={"not_opted_in": [HK]})
    home = client("ec2", "us-east-1", access)
    assert HK not in {r["RegionName"] for r in home.describe_regions()["Regions"]}
    (region,) = home.describe_regions(AllRegions=True, RegionNames=[HK])["Regions"]
    assert region["OptInStatus"] == "not-opted-in"
    assert refused(aws.describe_instances) == "AuthFailure"
    assert refused(home.describe_regions, RegionNames=["xx-nowhere-1"]) == "InvalidParameterValue"
