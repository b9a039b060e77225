"""An instance profile on AWS: how it is written, what handing it over needs, and what its role may then do, as far as it can be read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from provision import clouds
from provision.clouds import base
from provision.clouds.aws import firewall, identity
from provision.clouds.aws.permissions import permissions, policy_document
from provision.clouds.aws.place import AwsPlace, place_of
from provision.clouds.aws.requests import run_instances
from provision.errors import CloudInvalidError, PermissionRefusedError
from provision.structs import replace
from tests.clouds.aws.orders import order as plain
from tests.clouds.aws.rig import REGION, AwsRig, raw
from tests.clouds.aws.test_permissions import live, without

NODE = {"instance_profile": "gpu-node"}


def place(given: Any, *regions: str) -> AwsPlace:
    return AwsPlace.model_validate(
        {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": list(regions or (REGION,)), "identity": given}, strict=False
    )


def acting(order: base.Order, given: Any = NODE) -> base.Order:
    return replace(order, place=place(given))


def document(order: base.Order) -> dict[str, Any]:
    return policy_document(
        name=order.name,
        regions=[REGION],
        instance_types=[order.instance_type],
        spot=False,
        places=[place for place in [place_of(order)] if place],
    )


@pytest.mark.parametrize("given", ["none", NODE, {**NODE, "role": "service/gpu"}])
def test_an_identity_is_accepted_and_none_leaves_the_data_as_it_was(given: Any) -> None:
    dumped = place(given).model_dump(mode="json")
    assert ("identity" in dumped) == (given != "none")
    assert AwsPlace.model_validate(dumped, strict=False) == place(given)


@pytest.mark.parametrize(
    "given",
    [
        "gpu-node",
        {},
        {"role": "x"},
        {"instance_profile": ""},
        {"instance_profile": "a b"},
        {"instance_profile": "x\n"},
        {"instance_profile": "$(touch pwned)"},
        {**NODE, "role": "a//b"},
        {**NODE, "role": "*"},
        {"service_account": "a@b.iam.gserviceaccount.com"},
    ],
)
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(ValidationError):
        place(given)


def test_the_request_names_it_and_imds_stays_strict() -> None:
    request = run_instances(acting(plain()), REGION)
    assert request["IamInstanceProfile"] == {"Name": "gpu-node"}
    assert request["MetadataOptions"] == {"HttpTokens": "required", "HttpEndpoint": "enabled", "HttpPutResponseHopLimit": 1}
    assert "IamInstanceProfile" not in run_instances(plain(), REGION)
    assert "IamInstanceProfile" not in run_instances(acting(plain(), "none"), REGION)


def test_the_policy_hands_over_this_role_to_ec2_and_nothing_else() -> None:
    (statement,) = identity.statements([place({**NODE, "role": "service/gpu"}), place("none")])
    assert statement["Resource"] == ["arn:aws:iam::*:role/service/gpu"]
    assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com"]}}
    (china,) = identity.statements([place(NODE, "cn-north-1")])
    assert china["Resource"] == ["arn:aws-cn:iam::*:role/gpu-node"]
    assert china["Condition"]["StringEquals"]["iam:PassedToService"] == ["ec2.amazonaws.com.cn"]
    assert identity.statements([place("none")]) == []
    assert set(permissions(acting(plain()))) - set(permissions(plain())) == {"iam:PassRole"}


def test_with_the_policy_every_machine_has_the_role_and_without_pass_role_the_error_names_it(rig: AwsRig) -> None:
    order = acting(rig.order(count=2, minimum=2))
    given = document(order)
    rig.set(allowed=without(given, "iam:PassRole"))
    with pytest.raises(PermissionRefusedError, match=f"refuses iam:PassRole in {REGION}"):
        rig.cloud().launch(order)
    asked = {answer.about: answer for answer in rig.cloud().examine(order)}
    assert (asked["dry-run"].holds, "iam:PassRole" in asked["dry-run"].said) == (False, True)
    rig.set(allowed=given)
    for machine in rig.cloud().launch(order):
        assert raw(rig, machine.id)["IamInstanceProfile"]["Arn"].endswith("instance-profile/gpu-node")
    with pytest.raises(PermissionRefusedError, match="iam:PassRole"):
        rig.cloud().launch(acting(order, {"instance_profile": "admin"}))


def test_an_instance_profile_that_was_made_a_moment_ago_is_asked_for_again(rig: AwsRig) -> None:
    rig.set(profile_s=0.5)
    order = acting(rig.order(), {"instance_profile": "new"})
    (machine,) = rig.cloud().launch(order)
    assert rig.calls().count("RunInstances") > 1
    assert raw(rig, machine.id)["IamInstanceProfile"]["Arn"].endswith("instance-profile/new")


def test_an_instance_profile_that_does_not_exist_is_named(rig: AwsRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firewall, "UNSEEN_S", 0.2)
    rig.set(missing=["gone"])
    order = acting(rig.order(), {"instance_profile": "gone"})
    asked = {answer.about: answer for answer in rig.cloud().examine(order)}["identity"]
    assert (asked.holds, asked.said) == (False, "the account has no instance profile gone")
    with pytest.raises(CloudInvalidError, match=r"Value \(gone\) .* Invalid IAM Instance Profile name") as caught:
        rig.cloud().launch(order)
    assert caught.value.hint.startswith("correct `places: identity` in the profile")


def test_a_plan_that_asks_reads_the_policies_and_without_permission_it_is_not_known(rig: AwsRig) -> None:
    order = acting(rig.order(), {"instance_profile": "reader"})
    cloud = rig.cloud()

    def asked() -> base.Answer:
        return {answer.about: answer for answer in cloud.examine(order)}["identity"]

    assert (asked().holds, "allow nothing" in asked().said) == (True, True)
    iam = cloud._api.client("iam")
    iam.put_role_policy(RoleName="reader", PolicyName="read", PolicyDocument=json.dumps(allow("s3:GetObject", "arn:aws:s3:::data/*")))
    assert "named buckets" in asked().said
    made = iam.create_policy(PolicyName="wide", PolicyDocument=json.dumps(allow("*", "*")))["Policy"]["Arn"]
    iam.attach_role_policy(RoleName="reader", PolicyArn=made)
    assert (asked().holds, "high risk: it is administrator: * on * (policy wide)" in asked().said) == (False, True)
    rig.set(allowed=document(order))
    assert (asked().holds, "it is not known what reader may do" in asked().said) == (None, True)


def test_the_other_calls_of_a_life_need_nothing_more(rig: AwsRig) -> None:
    order = acting(rig.order())
    given = document(order)
    given["Statement"].append({"Sid": "Read", "Effect": "Allow", "Action": ["iam:Get*", "iam:List*"], "Resource": ["*"]})
    rig.set(allowed=given)
    live(rig, order)


def allow(action: Any, resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": action, "Resource": resource, **more}}


BUCKET, OBJECTS = "arn:aws:s3:::data", "arn:aws:s3:::data/*"


@pytest.mark.parametrize(
    ("document", "severity"),
    [
        (allow("*"), "high"),
        (allow("*:*"), "high"),
        (allow("iam:*"), "high"),
        (allow(["s3:GetObject", "iam:PassRole"], "arn:aws:iam::1:role/x"), "high"),
        (allow("IAM:putrolepolicy"), "high"),
        (allow("sts:AssumeRole"), "high"),
        (allow("sts:AssumeRole", "arn:aws:iam::1:role/x"), "medium"),
        ({"Statement": [{"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}]}, "high"),
        (allow("s3:PutObject"), "medium"),
        (allow("s3:PutObject", "arn:aws:s3:::*/x"), "medium"),
        (allow("s3:PutObject", "arn:aws:s3:::data*"), "medium"),
        (allow("s3:*", [BUCKET, OBJECTS]), "medium"),
        ({"Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "NotResource": OBJECTS}]}, "medium"),
        (allow("s3:GetObject"), "medium"),
        (allow("secretsmanager:GetSecretValue"), "medium"),
        (allow("dynamodb:PutItem", "arn:aws:dynamodb:us-east-1:1:table/t"), "medium"),
        (allow("s3:PutObject", OBJECTS, Condition={"Bool": {"aws:SecureTransport": "true"}}), "low"),
        (allow(["s3:GetObject", "s3:ListBucket"], [BUCKET, OBJECTS]), "low"),
        (allow("ec2:DescribeInstances"), "low"),
        (allow("iam:GetRole"), "medium"),
        ({"Statement": [{"Effect": "Deny", "Action": "*", "Resource": "*"}]}, "low"),
        ({"Statement": []}, "low"),
        (allow("*:Get*"), "medium"),
    ],
    ids=lambda value: json.dumps(value)[:70],
)
def test_a_role_is_graded_by_the_widest_that_it_may_do(document: dict[str, Any], severity: str) -> None:
    assert identity.authority({"p": document}).severity == severity
    assert identity.authority({"first": allow("s3:GetObject", OBJECTS), "p": document}).severity == severity
    assert identity.authority({"p": document, "last": allow("*")}).severity == "high"


def test_the_review_says_that_it_does_not_know_and_why_that_matters() -> None:
    (option,) = clouds.provider("aws").cloud_options(place(NODE))
    assert (option.key, option.severity, option.safer) == ("identity", "medium", False)
    assert "not known" in option.reason
    assert "`--ask`" in option.reason
    assert clouds.provider("aws").cloud_options(place("none")) == ()
