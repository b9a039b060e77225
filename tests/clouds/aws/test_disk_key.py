"""A key of the account's own on AWS: where it is valid, on which volumes it is, what its use needs, and what happens without that."""

from __future__ import annotations

import types
from typing import Any

import pytest
from pydantic import ValidationError

from provision import clouds
from provision.clouds import base
from provision.clouds.aws import disk_key
from provision.clouds.aws.permissions import permissions, policy_document
from provision.clouds.aws.place import AwsPlace, place_of
from provision.clouds.aws.requests import run_instances
from provision.errors import DiskKeyRefusedError, PermissionRefusedError
from provision.structs import replace
from tests.clouds.aws.orders import order as plain
from tests.clouds.aws.rig import REGION, AwsRig
from tests.clouds.aws.test_permissions import live, without

ID = "1234abcd-12ab-34cd-56ef-1234567890ab"
MULTI = "mrk-1234abcd12ab34cd56ef1234567890ab"


def arn(region: str = REGION, name: str = f"key/{ID}", account: str = "210987654321") -> str:
    return f"arn:aws:kms:{region}:{account}:{name}"


def place(key: str | None, *regions: str) -> AwsPlace:
    named = {"disk_key": key} if key else {}
    return AwsPlace.model_validate(
        {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": list(regions or (REGION,)), **named}, strict=False
    )


def keyed(order: base.Order, key: str) -> base.Order:
    return replace(order, place=place(key))


def document(order: base.Order) -> dict[str, Any]:
    where = place_of(order)
    return policy_document(
        name=order.name,
        regions=[REGION],
        instance_types=[order.instance_type],
        spot=order.market == "spot",
        places=[where] if where else [],
    )


@pytest.mark.parametrize(
    ("key", "regions"),
    [
        (arn(), ()),
        (arn(name="alias/isa/disks_1"), ()),
        ("alias/isa", ("us-east-1", "ap-east-1")),
        (arn(name=f"key/{MULTI}"), ("ap-east-1", "us-east-1")),
        ("arn:aws-cn:kms:cn-north-1:210987654321:key/" + ID, ("cn-north-1",)),
    ],
)
def test_a_key_of_the_places_regions_is_accepted(key: str, regions: tuple[str, ...]) -> None:
    assert place(key, *regions).model_dump(mode="json")["disk_key"] == key


@pytest.mark.parametrize(
    ("key", "regions", "why"),
    [
        (arn("eu-west-1"), (), "is of eu-west-1"),
        (arn(), ("us-east-1", "ap-east-1"), "in us-east-1 alone"),
        (arn(name="alias/isa"), ("us-east-1", "ap-east-1"), "in us-east-1 alone"),
        (arn("eu-west-1", f"key/{MULTI}"), (), "is of eu-west-1"),
        ("alias/aws/ebs", (), "AWS's own key"),
        (arn(name="alias/aws/ebs"), (), "AWS's own key"),
        (ID, (), "ARN of a key or an alias"),
        (arn(name="key/../x"), (), "ARN of a key or an alias"),
        (arn() + '"}; touch pwned', (), "ARN of a key or an alias"),
        (arn() + "\n", (), "ARN of a key or an alias"),
        ("alias/", (), "ARN of a key or an alias"),
        ("", (), "ARN of a key or an alias"),
    ],
)
def test_another_key_is_refused_with_the_reason(key: str, regions: tuple[str, ...], why: str) -> None:
    given = {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": list(regions or (REGION,)), "disk_key": key}
    with pytest.raises(ValidationError) as caught:
        AwsPlace.model_validate(given, strict=False)
    (error,) = caught.value.errors()
    assert error["loc"] == ("disk_key",)
    assert why in error["msg"] or error["type"] == "string_pattern_mismatch"
    assert (error["type"] == "string_pattern_mismatch") == (why == "ARN of a key or an alias")


def test_a_place_without_a_key_is_dumped_as_before() -> None:
    assert list(place(None).model_dump(mode="json")) == ["cloud", "instance_type", "market", "regions"]


def test_every_volume_has_the_key_of_the_region() -> None:
    order = replace(plain(volume_gb=50), place=place(arn(name=f"key/{MULTI}"), "us-east-1", "ap-east-1"))
    for region in ("us-east-1", "ap-east-1"):
        volumes = [mapping["Ebs"] for mapping in run_instances(order, region)["BlockDeviceMappings"]]
        assert [(v["KmsKeyId"], v["Encrypted"]) for v in volumes] == [(arn(region, f"key/{MULTI}"), True)] * 2
    assert not any("KmsKeyId" in mapping["Ebs"] for mapping in run_instances(plain(volume_gb=50), REGION)["BlockDeviceMappings"])


def test_the_policy_names_the_key_and_an_alias_by_its_condition() -> None:
    use, grant = disk_key.statements([place(arn())])
    assert (use["Resource"], grant["Resource"]) == ([arn()], [arn()])
    assert "Condition" not in use
    assert grant["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    use, grant = disk_key.statements([place("alias/isa", "us-east-1", "ap-east-1")])
    assert use["Resource"] == ["arn:aws:kms:us-east-1:*:key/*", "arn:aws:kms:ap-east-1:*:key/*"]
    assert use["Condition"] == {"ForAnyValue:StringEquals": {"kms:ResourceAliases": ["alias/isa"]}}
    assert set(grant["Condition"]) == {"ForAnyValue:StringEquals", "Bool"}
    both = disk_key.statements([place(arn()), place(arn(name="alias/isa")), place(arn())])
    assert len(both) == len({statement["Sid"] for statement in both}) == 4
    assert disk_key.statements([place(None)]) == []
    assert set(permissions(keyed(plain(), arn()))) - set(permissions(plain())) == set(disk_key.ACTIONS)


@pytest.mark.parametrize("key", [arn(), "alias/isa", arn(name="alias/shared")])
def test_a_whole_life_needs_no_more_than_the_policy(rig: AwsRig, key: str) -> None:
    order = keyed(rig.order(volume_gb=20), key)
    rig.set(allowed=document(order))
    live(rig, order)


@pytest.mark.parametrize("action", disk_key.ACTIONS)
def test_without_one_action_the_error_names_it_and_the_key(rig: AwsRig, action: str) -> None:
    order = keyed(rig.order(), arn())
    rig.set(allowed=without(document(order), action))
    cloud = rig.cloud()
    with pytest.raises(DiskKeyRefusedError) as caught:
        cloud.launch(order)
    assert arn() in caught.value.message
    assert "(Client.InternalError)" in caught.value.message
    assert action in caught.value.hint
    asked = {answer.about: answer for answer in cloud.examine(order)}["disk-key"]
    assert (asked.holds, "kms:DescribeKey" in asked.said) == ((None, True) if action == "kms:DescribeKey" else (True, False))


def test_the_policy_allows_no_other_key_no_other_alias_and_no_grant_to_anybody_but_aws(rig: AwsRig) -> None:
    order = keyed(rig.order(), arn())
    named = document(order)
    (grant,) = [statement for statement in named["Statement"] if statement["Sid"] == "GrantDiskKey"]
    grant["Condition"]["Bool"]["kms:GrantIsForAWSResource"] = "false"
    mine = keyed(rig.order(), "alias/mine")
    other = keyed(rig.order(), arn())  # with a token of its own: that of an instance which has ended is spent
    for launched, allowed in (
        (other, document(keyed(other, arn(account="123456789012")))),
        (order, named),
        (mine, document(keyed(mine, "alias/theirs"))),
    ):
        rig.set(allowed=allowed)
        with pytest.raises(DiskKeyRefusedError):
            rig.cloud().launch(launched)


def test_a_key_that_does_not_exist_or_is_disabled_is_named_before_and_after(rig: AwsRig) -> None:
    kms = rig.cloud()._api.client("kms")
    made = kms.create_key()["KeyMetadata"]
    kms.disable_key(KeyId=made["KeyId"])
    disabled = str(made["Arn"])
    rig.set(missing=["alias/gone"])
    for key, code, said in (
        ("alias/gone", "Client.InternalError", "KMS has no"),
        (disabled, "Client.InvalidKMSKey.InvalidState", "Disabled"),
    ):
        order = keyed(rig.order(), key)
        cloud = rig.cloud()
        asked = {answer.about: answer for answer in cloud.examine(order)}["disk-key"]
        assert (asked.holds, said in asked.said, key in asked.said) == (False, True, True)
        with pytest.raises(DiskKeyRefusedError) as caught:
            cloud.launch(order)
        assert key in caught.value.message
        assert f"({code})" in caught.value.message
        assert [thing.kind for thing in cloud.things(order.name) if thing.alive] == ["security-group"]


def test_no_key_asks_nothing(rig: AwsRig) -> None:
    assert "disk-key" not in {answer.about for answer in rig.cloud().examine(rig.order())}


def test_the_review_says_what_the_key_covers_and_what_not() -> None:
    aws = clouds.provider("aws")
    key, nvme = aws.cloud_options(place("alias/isa"))
    assert (key.safer, key.severity, "alias/isa" in key.summary) == (True, None, True)
    assert (nvme.safer, nvme.severity, nvme.key) == (False, "note", "disk_key")
    bare = AwsPlace.model_validate(
        {"cloud": "aws", "instance_type": "p3.2xlarge", "regions": [REGION], "disk_key": "alias/isa"}, strict=False
    )
    assert [option.safer for option in aws.cloud_options(bare)] == [True]
    assert aws.cloud_options(place(None)) == ()


def test_a_machine_lost_to_the_accounts_own_key_says_the_reason(rig: AwsRig) -> None:
    """The profile names no key; a policy for all keys of the account denies the one that a volume got by default."""
    order = keyed(rig.order(), arn())
    rig.set(missing=[arn()])
    reply = rig.client.run_instances(ImageId=rig.cloud()._images.of(order).id, **run_instances(order, REGION))
    (machine,) = rig.cloud().launch(replace(rig.order("other")))
    lost = replace(machine, id=reply["Instances"][0]["InstanceId"])
    with pytest.raises(Exception, match=r"it is terminated \(Client.InternalError\)") as caught:
        rig.cloud().wait_running(lost, timeout_s=60)
    assert "kms:CreateGrant" in str(getattr(caught.value, "hint", ""))
    assert not isinstance(caught.value, PermissionRefusedError)


@pytest.mark.parametrize("key", [None, "alias/isa"])
def test_an_image_of_ones_own_is_said_to_need_its_own_key_where_it_is_encrypted(key: str | None) -> None:
    own = types.SimpleNamespace(disk_key=key, image="ami-0123456789abcdef0")
    (*_, note) = disk_key.options(own, nvme=False)
    assert (note.key, note.severity, "kms:ReEncrypt*" in note.reason) == ("image", "note", True)
    own.image = types.SimpleNamespace(snapshot_key="alias/golden")
    (*_, named) = disk_key.options(own, nvme=False)
    assert (named.key, "alias/golden" in named.summary, "kms:ReEncrypt*" in named.reason) == ("image", True, False)
    own.image = None
    assert "image" not in {option.key for option in disk_key.options(own, nvme=False)}


IMAGE_KEY = arn(name="key/0000abcd-12ab-34cd-56ef-1234567890ab")


def of_image(order: base.Order, key: str = IMAGE_KEY, disk: str | None = None) -> base.Order:
    """The order from an own image whose snapshot is under a key."""
    image = {"owner": "210987654321", "name": "golden-*", "snapshot_key": key}
    named = {"disk_key": disk} if disk else {}
    given = {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": [REGION], "image": image, **named}
    return replace(order, place=AwsPlace.model_validate(given, strict=False))


def offered(rig: AwsRig, key: str = IMAGE_KEY) -> None:
    row = {"Region": REGION, "Name": "golden-1", "OwnerId": "210987654321", "Login": "ubuntu", "System": "ubuntu 24.04", "SnapshotKey": key}
    rig.set(amis=[row])


def test_an_encrypted_image_is_launched_with_the_computed_policy_and_both_keys_are_in_it(rig: AwsRig) -> None:
    offered(rig)
    order = of_image(rig.order(volume_gb=20), disk=arn())
    allowed = document(order)
    assert {key for each in allowed["Statement"] if "DiskKey" in each["Sid"] for key in each["Resource"]} == {arn(), IMAGE_KEY}
    rig.set(allowed=allowed)
    live(rig, order)


@pytest.mark.parametrize("action", disk_key.ACTIONS)
def test_an_encrypted_image_without_one_action_ends_with_an_error_that_names_its_key(rig: AwsRig, action: str) -> None:
    offered(rig)
    order = of_image(rig.order())
    rig.set(allowed=without(document(order), action))
    with pytest.raises(DiskKeyRefusedError) as caught:
        rig.cloud().launch(order)
    assert IMAGE_KEY in caught.value.message
    assert action in caught.value.hint


def test_an_image_s_key_that_is_not_there_is_said_before_a_launch_and_another_s_policy_does_not_do(rig: AwsRig) -> None:
    offered(rig)
    order = of_image(rig.order())
    asked = {answer.about: answer for answer in rig.cloud().examine(order)}
    assert (asked["image-key"].holds, IMAGE_KEY in asked["image-key"].said) == (True, True)
    assert "encrypted" in asked["image"].said
    assert "disk-key" not in asked
    rig.set(allowed=document(of_image(order, arn())))
    with pytest.raises(DiskKeyRefusedError):
        rig.cloud().launch(order)
    rig.set(allowed=None, missing=["alias/gone"])
    gone = of_image(order, "alias/gone")
    assert {answer.about: answer.holds for answer in rig.cloud().examine(gone)}["image-key"] is False


def test_an_image_s_key_is_of_the_place_s_regions() -> None:
    with pytest.raises(ValidationError, match="is of eu-west-1"):
        of_image(plain(), arn("eu-west-1"))
    with pytest.raises(ValidationError, match=r"leave image\.snapshot_key out"):
        of_image(plain(), "alias/aws/ebs")
