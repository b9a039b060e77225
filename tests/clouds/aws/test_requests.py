"""What EC2 gets for an order."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from provision.clouds import base
from provision.clouds.aws import requests
from provision.clouds.aws.place import AwsPlace
from provision.clouds.userdata import Downloads, user_data
from tests.clouds.aws.orders import DEADLINE, order
from tests.clouds.aws.rig import AwsRig, raw
from tests.clouds.contract import KEY

TAGS = [
    {"Key": "Name", "Value": "gpuprov-train"},
    {"Key": "gpuprov:name", "Value": "train"},
    {"Key": "gpuprov:os", "Value": "ubuntu 24.04"},
    {"Key": "gpuprov:owner", "Value": "isa@example.org"},
]


def run(group: str = "sg-1", **changes: Any) -> dict[str, Any]:
    return requests.run_instances(order(**changes), "us-east-1", group)


def specifications(*kinds: str) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": TAGS} for kind in kinds]


# --- the whole requests, so that no field comes, goes or changes unnoticed ---------------------------------------------


def test_a_machine_is_asked_for_with_exactly_these_fields() -> None:
    assert run() == {
        "InstanceType": "g4dn.xlarge",
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": order().token("us-east-1"),
        "UserData": user_data(deadline=DEADLINE, authorized_key=KEY),
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpTokens": "required", "HttpEndpoint": "enabled", "HttpPutResponseHopLimit": 1},
        "BlockDeviceMappings": [
            {
                "DeviceName": "/dev/sda1",
                "Ebs": {"VolumeSize": 100, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True},
            }
        ],
        "SecurityGroupIds": ["sg-1"],
        "TagSpecifications": specifications("instance", "volume", "network-interface"),
    }


def test_whatever_an_order_can_ask_for_is_in_the_request_and_nothing_else() -> None:
    full = run(
        market="spot",
        volume_gb=500,
        zone="us-east-1b",
        count=3,
        minimum=2,
        subnet="subnet-1",
        public_address=False,
        os=("debian", "12"),
        tags={},
    )
    tags = [
        {"Key": "Name", "Value": "gpuprov-train"},
        {"Key": "gpuprov:address", "Value": "private"},
        {"Key": "gpuprov:os", "Value": "debian 12"},
    ]
    kinds = ("instance", "volume", "network-interface", "spot-instances-request")
    changes = {
        "MinCount": 2,
        "MaxCount": 3,
        "ClientToken": order(market="spot", zone="us-east-1b", count=3, minimum=2).token("us-east-1"),
        "BlockDeviceMappings": [
            {"DeviceName": name, "Ebs": {"VolumeSize": size, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True}}
            for name, size in (("/dev/xvda", 100), ("/dev/sdf", 500))
        ],
        "NetworkInterfaces": [
            {
                "DeviceIndex": 0,
                "AssociatePublicIpAddress": False,
                "DeleteOnTermination": True,
                "SubnetId": "subnet-1",
                "Groups": ["sg-1"],
            }
        ],
        "Placement": {"AvailabilityZone": "us-east-1b"},
        "InstanceMarketOptions": {
            "MarketType": "spot",
            "SpotOptions": {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"},
        },
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in kinds],
    }
    assert full == {key: value for key, value in run().items() if key != "SecurityGroupIds"} | changes


def test_an_image_of_ones_own_and_a_baked_one_are_told_by_tags_and_a_key_encrypts_every_disk() -> None:
    key = f"arn:aws:kms:us-east-1:123456789012:key/mrk-{'0123456789abcdef' * 2}"  # of several regions, so that the region counts
    image = {"id": "ami-0123456789abcdef0", "login": "ml"}
    plain = {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": ["us-east-1"]}
    place = AwsPlace.model_validate({**plain, "image": image, "disk_key": key})
    request = run(place=place, baked="ami-0fedcba9876543210", volume_gb=500)
    tags = {tag["Key"]: tag["Value"] for tag in request["TagSpecifications"][0]["Tags"]}
    assert (tags[requests.LOGIN_TAG], tags[base.IMAGE_TAG]) == ("ml", "ami-0fedcba9876543210")
    assert [disk["Ebs"]["KmsKeyId"] for disk in request["BlockDeviceMappings"]] == [key, key]
    nameless = AwsPlace.model_validate({**plain, "image": {"id": image["id"]}})
    assert requests.LOGIN_TAG not in {tag["Key"] for tag in requests.tag_list(order(place=nameless))}


def test_what_an_order_downloads_at_the_first_boot_is_in_the_user_data() -> None:
    early = Downloads((("torch", "ab" * 32),), "https://pypi.org/simple", packages=("git",))
    assert run(downloads=early)["UserData"] == user_data(deadline=DEADLINE, authorized_key=KEY, downloads=early) != run()["UserData"]


def test_one_adapter_is_a_card_with_a_public_address() -> None:
    plain = {"cloud": "aws", "instance_type": "g6.8xlarge", "regions": ["us-east-1"], "capacity": {"efa": True}}
    card = {"DeviceIndex": 0, "AssociatePublicIpAddress": True, "DeleteOnTermination": True, "Groups": ["sg-1"], "InterfaceType": "efa"}
    assert run(place=AwsPlace.model_validate(plain))["NetworkInterfaces"] == [card]
    two = run(place=AwsPlace.model_validate({**plain, "instance_type": "g6e.24xlarge"}))["NetworkInterfaces"]
    assert ["AssociatePublicIpAddress" in each for each in two] == [False, False]  # EC2 gives none where there are several


def test_a_group_is_asked_for_with_exactly_these_fields() -> None:
    expected = {
        "GroupName": "gpuprov-train",
        "Description": "gpuprov train: SSH, launch 0123456789abcdef0123456789abcdef",
        "TagSpecifications": specifications("security-group"),
    }
    assert requests.security_group(order()) == expected
    assert requests.security_group(order(), "vpc-1") == expected | {"VpcId": "vpc-1"}


def test_the_rule_opens_port_22_to_each_family_and_nothing_else() -> None:
    assert requests.ingress(["203.0.113.7/32", "2001:db8::/64", "10.0.0.0/8"]) == {
        "IpProtocol": "tcp",
        "FromPort": 22,
        "ToPort": 22,
        "IpRanges": [{"CidrIp": "203.0.113.7/32", "Description": "SSH"}, {"CidrIp": "10.0.0.0/8", "Description": "SSH"}],
        "Ipv6Ranges": [{"CidrIpv6": "2001:db8::/64", "Description": "SSH"}],
    }


# --- what is secure, each with its reason ------------------------------------------------------------------------------


def test_the_metadata_service_wants_a_session_token_and_answers_only_to_the_machine_itself() -> None:
    """With IMDSv1 a forged request of a web application reads it; with two hops a container does. Tags are not shown there."""
    assert run()["MetadataOptions"] == {"HttpTokens": "required", "HttpEndpoint": "enabled", "HttpPutResponseHopLimit": 1}


@pytest.mark.parametrize("changes", [{}, {"volume_gb": 500}, {"market": "spot", "volume_gb": 1, "subnet": "subnet-1"}])
def test_every_disk_is_encrypted_and_ends_with_its_machine(changes: dict[str, Any]) -> None:
    """A disk that stays costs money for ever, and can be read by whoever may attach it."""
    disks = run(**changes)["BlockDeviceMappings"]
    assert len(disks) == 1 + ("volume_gb" in changes)
    assert {(disk["Ebs"]["Encrypted"], disk["Ebs"]["DeleteOnTermination"]) for disk in disks} == {(True, True)}


def test_a_power_off_ends_the_machine() -> None:
    """The timer on the host keeps the deadline by a power-off; a machine that only stopped would cost money."""
    assert run()["InstanceInitiatedShutdownBehavior"] == "terminate"


def test_spot_is_asked_for_once_and_an_interruption_ends_the_machine() -> None:
    """A persistent request starts a machine again after its deadline, when nobody waits for it."""
    options = run(market="spot")["InstanceMarketOptions"]
    assert options["SpotOptions"] == {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    assert "InstanceMarketOptions" not in run()


def test_aws_itself_holds_a_spot_machine_to_the_limit() -> None:
    assert run(market="spot", spot_limit_usd=0.4321)["InstanceMarketOptions"]["SpotOptions"]["MaxPrice"] == "0.4321"


@pytest.mark.parametrize(
    ("market", "kinds"),
    [
        ("on-demand", {"instance", "volume", "network-interface"}),
        ("spot", {"instance", "volume", "network-interface", "spot-instances-request"}),
    ],
)
def test_all_that_a_launch_makes_is_tagged_at_once(market: str, kinds: set[str]) -> None:
    """What has no tag is never found, and so never removed."""
    tagged = run(market=market, subnet="subnet-1", public_address=False)["TagSpecifications"]
    assert {each["ResourceType"] for each in tagged} == kinds
    for each in [*tagged, *requests.security_group(order())["TagSpecifications"]]:
        assert {"Key": base.NAME_TAG, "Value": "train"} in each["Tags"]


@pytest.mark.parametrize(("public", "subnet"), [(False, ""), (False, "subnet-1"), (True, "subnet-1")])
def test_an_address_is_given_only_where_the_profile_says_so(public: bool, subnet: str) -> None:  # noqa: FBT001 - a table
    """A subnet may give public addresses by itself, so the request always says which."""
    request = run(public_address=public, subnet=subnet)
    (card,) = request["NetworkInterfaces"]
    assert card["AssociatePublicIpAddress"] is public
    assert card.get("SubnetId", "") == subnet
    assert card["Groups"] == ["sg-1"]
    assert "SecurityGroupIds" not in request
    assert ({"Key": "gpuprov:address", "Value": "private"} in request["TagSpecifications"][0]["Tags"]) is not public


def test_a_machine_gets_no_role_and_no_key_pair() -> None:
    """A role would let whoever is on the machine act for the account; a key pair is one more thing to remove."""
    for request in (run(), run(market="spot", subnet="subnet-1", volume_gb=1)):
        assert not {"IamInstanceProfile", "KeyName"} & set(request)


def test_a_dry_run_comes_before_there_is_a_group() -> None:
    assert "SecurityGroupIds" not in requests.run_instances(order(), "us-east-1")
    assert "Groups" not in run(group="", subnet="subnet-1")["NetworkInterfaces"][0]


def test_a_system_without_an_image_has_the_usual_root_device() -> None:
    assert run(os=("nosuch", "1"))["BlockDeviceMappings"][0]["DeviceName"] == "/dev/sda1"


def test_the_first_boot_is_told_who_may_log_in_and_when_it_ends(rig: AwsRig) -> None:
    sent = rig.order()
    (machine,) = rig.cloud().launch(sent)
    answer = rig.client.describe_instance_attribute(InstanceId=machine.id, Attribute="userData")
    text = base64.b64decode(answer["UserData"]["Value"]).decode()
    data = json.loads(text.removeprefix("#cloud-config\n"))
    assert data["ssh_authorized_keys"] == [KEY]
    assert data["ssh_pwauth"] is False
    assert sent.deadline.strftime("OnCalendar=%Y-%m-%d %H:%M:%S UTC") in text
    assert "KeyName" not in raw(rig, machine.id)
    assert rig.client.describe_key_pairs(Filters=[{"Name": f"tag:{base.NAME_TAG}", "Values": [sent.name]}])["KeyPairs"] == []
