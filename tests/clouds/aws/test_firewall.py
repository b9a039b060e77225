"""The security group of a launch: made once, opened to exactly the networks that may come in."""

from __future__ import annotations

from typing import Any

import pytest

from provision.clouds import base
from provision.clouds.aws import firewall
from provision.clouds.aws.cloud import AwsCloud
from provision.clouds.aws.place import AwsPlace
from provision.clouds.aws.requests import ingress, security_group
from provision.clouds.claim import taken
from provision.errors import (
    CapacityError,
    CloudInvalidError,
    CloudUnreachableError,
    InstanceNotFoundError,
    NameTakenError,
    PermissionRefusedError,
)
from provision.rehearsal import control
from tests.clock import still
from tests.clouds.aws.orders import LAUNCH, order
from tests.clouds.aws.rig import REGION, AwsRig, raw
from tests.clouds.aws.scripted import ScriptedApi, refusal


def test_several_zones_of_a_launch_share_one_group(rig: AwsRig) -> None:
    ordered = rig.order()
    cloud = rig.cloud()
    first, second, *_ = cloud.zones(ordered)
    rig.stock({first: 0})
    rig.forget()
    with pytest.raises(CapacityError):
        cloud.launch(ordered.at(first))
    cloud.launch(ordered.at(second))
    assert rig.calls().count("CreateSecurityGroup") == 1
    assert rig.calls().count("AuthorizeSecurityGroupIngress") == 1
    assert AwsCloud(REGION, rig.access).launch(ordered.at(second))  # another process finds the group by its name
    assert len([t for t in cloud.things(ordered.name) if t.kind == "security-group"]) == 1


@pytest.mark.parametrize("action", ["AuthorizeSecurityGroupIngress", "RunInstances"])
def test_a_group_that_ec2_does_not_show_yet_is_waited_for(rig: AwsRig, action: str) -> None:
    ordered = rig.order()
    rig.forget()
    fault = {"kind": "error", "action": action, "code": "InvalidGroup.NotFound", "count": 2}
    control.ask(rig.ec2, "faults", method="PUT", body=[fault])
    (machine,) = rig.cloud().launch(ordered)
    assert rig.calls().count(action) == 3
    assert [i.id for i in rig.cloud().find(ordered.name)] == [machine.id]


def test_rules_that_others_added_are_closed_and_other_ports_left_alone(rig: AwsRig) -> None:
    ordered = rig.order(ssh_from=("192.0.2.0/24",))
    (machine,) = rig.cloud().launch(ordered)
    group = raw(rig, machine.id)["SecurityGroups"][0]["GroupId"]
    wide = {"IpProtocol": "tcp", "FromPort": 20, "ToPort": 30, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    web = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    rig.client.authorize_security_group_ingress(GroupId=group, IpPermissions=[wide, web])
    rig.cloud().allow(ordered.name, ["192.0.2.0/24", "2001:db8::/32"])
    rules = rig.client.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"]
    seen = {
        (r["FromPort"], r["ToPort"], c)
        for r in rules
        for c in [*(x["CidrIp"] for x in r["IpRanges"]), *(x["CidrIpv6"] for x in r["Ipv6Ranges"])]
    }
    assert seen == {(22, 22, "192.0.2.0/24"), (22, 22, "2001:db8::/32"), (443, 443, "0.0.0.0/0")}


def test_without_anything_open_no_rule_is_asked_for(rig: AwsRig) -> None:
    ordered = rig.order(subnet=rig.subnet(f"{REGION}a"), public_address=False, ssh_from=())
    rig.forget()
    rig.cloud().launch(ordered)
    assert "AuthorizeSecurityGroupIngress" not in rig.calls()
    assert rig.calls().count("DescribeSubnets") == 1


# --- asked without HTTP ------------------------------------------------------------------------------------------------

OURS = {"GroupId": "sg-ours", "VpcId": "vpc-1", "Tags": [{"Key": base.LAUNCH_TAG, "Value": LAUNCH}]}
THEIRS = {"GroupId": "sg-theirs", "VpcId": "vpc-1", "Tags": [{"Key": base.LAUNCH_TAG, "Value": "another"}]}
SUBNET = {"Subnets": [{"VpcId": "vpc-1", "AvailabilityZone": "us-east-1b"}]}
DUPLICATE = refusal("InvalidGroup.Duplicate")


def test_a_new_group_gets_its_rule_and_neither_call_is_sent_twice() -> None:
    api = ScriptedApi(create_security_group=[{"GroupId": "sg-1"}])
    assert firewall.ensure_group(api, order()) == "sg-1"
    assert api.sent == [
        ("once:create_security_group", security_group(order())),
        ("once:authorize_security_group_ingress", {"GroupId": "sg-1", "IpPermissions": [ingress(["203.0.113.7/32"])]}),
    ]


def test_a_group_stands_in_the_vpc_of_the_subnet() -> None:
    api = ScriptedApi(describe_subnets=[SUBNET], create_security_group=[{"GroupId": "sg-1"}])
    assert firewall.ensure_group(api, order(subnet="subnet-1", ssh_from=())) == "sg-1"
    assert api.sent == [
        ("describe_subnets", {"SubnetIds": ["subnet-1"]}),
        ("once:create_security_group", security_group(order(), "vpc-1")),
    ]
    assert firewall.subnet_of(api, order(subnet="subnet-1")) == firewall.AwsSubnet("vpc-1", "us-east-1b")
    assert firewall.subnet_of(api, order()) is None


TELLS = security_group(order())["Description"]


@pytest.mark.parametrize(
    ("shown", "launch"),
    [
        ({"Description": TELLS}, LAUNCH),
        ({"Description": TELLS, "Tags": THEIRS["Tags"]}, LAUNCH),  # nobody can change a description
        ({"Description": "gpuprov train: SSH", "Tags": OURS["Tags"]}, LAUNCH),
        ({"Tags": OURS["Tags"]}, LAUNCH),
        ({"Description": "the lab's", "Tags": [{"Key": base.NAME_TAG, "Value": "train"}]}, ""),
        ({"Description": f"{TELLS}, and more"}, ""),
        ({"Description": f"was {TELLS}"}, ""),
        ({"Description": "gpuprov train: SSH, launch "}, ""),
        ({"Tags": []}, ""),
        ({}, ""),
    ],
)
def test_the_launch_of_a_group_stands_in_its_description_or_in_its_tags(shown: dict[str, Any], launch: str) -> None:
    assert firewall.launch_of(shown) == launch


EARLY = {"GroupId": "sg-ours", "VpcId": "vpc-1", "Description": TELLS}  # EC2 shows its tags later


@pytest.mark.parametrize("subnet", ["", "subnet-1"])
@pytest.mark.parametrize("groups", [[OURS], [THEIRS, OURS], [OURS, {**OURS, "GroupId": "sg-z"}], [EARLY], [THEIRS, EARLY]])
def test_the_group_that_an_earlier_try_made_is_used_again(groups: list[dict[str, Any]], subnet: str) -> None:
    shown = {"describe_subnets": [SUBNET], "describe_security_groups": [{"SecurityGroups": groups}]}
    api = ScriptedApi(create_security_group=[DUPLICATE], **shown)
    assert firewall.ensure_group(api, order(ssh_from=(), subnet=subnet)) == "sg-ours"
    assert api.sent[-1] == ("describe_security_groups", {"Filters": [{"Name": "group-name", "Values": ["gpuprov-train"]}]})


@pytest.mark.parametrize("group", [{**THEIRS, "Tags": []}, {"GroupId": "sg-theirs", "VpcId": "vpc-1"}])
def test_a_group_of_that_name_that_somebody_else_made_is_neither_used_nor_changed(group: dict[str, Any]) -> None:
    """It may be open to everybody."""
    api = ScriptedApi(create_security_group=[DUPLICATE], describe_security_groups=[{"SecurityGroups": [group]}])
    with pytest.raises(CloudInvalidError) as caught:
        firewall.ensure_group(api, order())
    assert caught.value.message == "security group gpuprov-train in us-east-1 is not of gpuprov"
    assert caught.value.hint == "ask its owner to rename it, or choose another --name"
    assert api.methods() == ["once:create_security_group", "describe_security_groups"]


@pytest.mark.parametrize("subnet", ["", "subnet-1"])
@pytest.mark.parametrize(
    ("more", "tags"),
    [
        ({}, {base.LAUNCH_TAG: "another"}),
        ({"Description": "gpuprov train: SSH, launch beef", "Tags": []}, {base.LAUNCH_TAG: "beef"}),
        (
            {"Description": "gpuprov train: SSH, launch beef", "Tags": [{"Key": base.OWNER_TAG, "Value": "her@example.org"}]},
            {base.LAUNCH_TAG: "beef", base.OWNER_TAG: "her@example.org"},
        ),
    ],
    ids=["tags", "description", "both"],
)
def test_the_group_of_another_launch_says_whose_the_name_is(
    monkeypatch: pytest.MonkeyPatch, subnet: str, more: dict[str, Any], tags: dict[str, str]
) -> None:
    still(monkeypatch)
    shown: dict[str, list[Any]] = {"describe_subnets": [SUBNET], "describe_security_groups": [{"SecurityGroups": [{**THEIRS, **more}]}]}
    api = ScriptedApi(create_security_group=[DUPLICATE], **shown)
    with pytest.raises(NameTakenError) as caught:
        firewall.ensure_group(api, order(subnet=subnet))
    assert caught.value.message == taken("train", "security group sg-theirs in us-east-1", tags).message
    assert "once:authorize_security_group_ingress" not in api.methods()


def test_whose_the_name_is_stands_in_tags_that_come_after_the_group() -> None:
    early = {**THEIRS, "Description": "gpuprov train: SSH, launch beef", "Tags": []}
    late = {**early, "Tags": [{"Key": base.OWNER_TAG, "Value": "her@example.org"}]}
    shown: list[Any] = [{"SecurityGroups": [early]}, {"SecurityGroups": [late]}]
    with pytest.raises(NameTakenError, match="launch beef of her@example"):
        firewall.ensure_group(ScriptedApi(create_security_group=[DUPLICATE], describe_security_groups=shown), order())


@pytest.mark.parametrize(("groups", "subnet"), [([], ""), ([], "subnet-1"), ([{**OURS, "VpcId": "vpc-2"}], "subnet-1")])
def test_a_group_that_ec2_has_and_does_not_show_yet_is_asked_for_again_later(
    monkeypatch: pytest.MonkeyPatch, groups: list[Any], subnet: str
) -> None:
    still(monkeypatch)
    api = ScriptedApi(describe_subnets=[SUBNET], create_security_group=[DUPLICATE], describe_security_groups=[{"SecurityGroups": groups}])
    with pytest.raises(CloudUnreachableError) as caught:
        firewall.ensure_group(api, order(subnet=subnet))
    assert caught.value.message == "EC2 has security group gpuprov-train in us-east-1 but does not show it yet"
    assert caught.value.hint == "run the same command again; it goes on where it stopped"


def test_a_rule_that_is_there_is_no_error_and_every_refusal_names_its_permission() -> None:
    made: dict[str, list[Any]] = {"create_security_group": [{"GroupId": "sg-1"}]}
    api = ScriptedApi(**made, authorize_security_group_ingress=[refusal("InvalidPermission.Duplicate")])
    assert firewall.ensure_group(api, order()) == "sg-1"
    no = refusal("UnauthorizedOperation")
    rule = {"GroupId": "sg-1", "IpPermissions": [ingress(["0.0.0.0/0"])], "Description": TELLS}
    for action, answers in (
        ("ec2:CreateSecurityGroup", {"create_security_group": [no]}),
        ("ec2:AuthorizeSecurityGroupIngress", {**made, "authorize_security_group_ingress": [no]}),
        ("ec2:DescribeSecurityGroups", {"create_security_group": [DUPLICATE], "describe_security_groups": [no]}),
    ):
        with pytest.raises(PermissionRefusedError, match=f"AWS refuses {action} in us-east-1 "):
            firewall.ensure_group(ScriptedApi(**answers), order())
    with pytest.raises(PermissionRefusedError, match="ec2:DescribeSubnets in us-east-1 "):
        firewall.subnet_of(ScriptedApi(describe_subnets=[no]), order(subnet="subnet-1"))
    shown: dict[str, list[Any]] = {"describe_security_groups": [{"SecurityGroups": [rule]}]}
    with pytest.raises(PermissionRefusedError, match="ec2:RevokeSecurityGroupIngress in us-east-1 "):
        firewall.allow(ScriptedApi(**shown, revoke_security_group_ingress=[no]), "train", [])


def with_efa() -> base.Order:
    """An order whose machines have network adapters that talk to one another."""
    place = {"cloud": "aws", "instance_type": "p4d.24xlarge", "regions": ["us-east-1"], "capacity": {"efa": True}}
    return order(place=AwsPlace.model_validate(place), ssh_from=())


def test_machines_with_efa_may_reach_one_another_both_ways() -> None:
    made: dict[str, list[Any]] = {"create_security_group": [{"GroupId": "sg-1"}]}
    rule = {"GroupId": "sg-1", "IpPermissions": [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-1"}]}]}
    api = ScriptedApi(**made, authorize_security_group_egress=[refusal("InvalidPermission.Duplicate")])
    assert firewall.ensure_group(api, with_efa()) == "sg-1"
    assert api.sent[1:] == [("once:authorize_security_group_ingress", rule), ("once:authorize_security_group_egress", rule)]
    for action, method in (
        ("ec2:AuthorizeSecurityGroupIngress", "authorize_security_group_ingress"),
        ("ec2:AuthorizeSecurityGroupEgress", "authorize_security_group_egress"),
    ):
        with pytest.raises(PermissionRefusedError, match=f"AWS refuses {action} in us-east-1 "):
            firewall.ensure_group(ScriptedApi(**made, **{method: [refusal("UnauthorizedOperation")]}), with_efa())


def test_a_group_that_ec2_does_not_know_yet_is_joined_when_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    still(monkeypatch)
    unknown = [refusal("InvalidGroup.NotFound"), refusal("InvalidGroup.NotFound"), {}]
    api = ScriptedApi(create_security_group=[{"GroupId": "sg-1"}], authorize_security_group_egress=unknown)
    assert firewall.ensure_group(api, with_efa()) == "sg-1"
    assert api.methods().count("once:authorize_security_group_egress") == 3


def test_another_error_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = still(monkeypatch)
    api = ScriptedApi(create_security_group=[{"GroupId": "sg-1"}], authorize_security_group_ingress=[refusal("UnauthorizedOperation")])
    with pytest.raises(PermissionRefusedError):
        firewall.ensure_group(api, order())
    assert clock.pauses == []


def test_the_caller_is_asked_for_where_the_account_of_the_region_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provision.clouds.caller.caller_address", {"http://127.0.0.1:9/": "203.0.113.9/32"}.get)
    api = ScriptedApi(create_security_group=[{"GroupId": "sg-1"}])
    firewall.ensure_group(api, order(ssh_from=("caller",)))
    assert api.sent[-1][1]["IpPermissions"] == [ingress(["203.0.113.9/32"])]


def test_the_members_of_a_group_may_reach_one_another_and_those_of_another_group_may_not() -> None:
    joined = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-1"}]}
    strange = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-1"}, {"GroupId": "sg-2"}]}
    api = ScriptedApi(
        describe_security_groups=[{"SecurityGroups": [{"GroupId": "sg-1", "IpPermissions": [joined, strange], "Description": TELLS}]}]
    )
    firewall.allow(api, "train", [])
    closed = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-2"}]}
    assert api.sent[1:] == [("revoke_security_group_ingress", {"GroupId": "sg-1", "IpPermissions": [closed]})]


def test_a_group_that_ec2_does_not_know_yet_is_asked_for_at_growing_pauses_for_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = still(monkeypatch)
    api = ScriptedApi(create_security_group=[{"GroupId": "sg-1"}], authorize_security_group_ingress=[refusal("InvalidGroup.NotFound")])
    with pytest.raises(CloudInvalidError, match=r"InvalidGroup\.NotFound"):
        firewall.ensure_group(api, order())
    assert [round(pause, 4) for pause in clock.pauses[:4]] == [0.1, 0.15, 0.225, 0.3375]
    assert max(clock.pauses) == 2
    assert 10 <= clock.now < 12


def rule(protocol: str, low: int | None, high: int | None, *sources: str, **more: Any) -> dict[str, Any]:
    ports = {} if low is None else {"FromPort": low, "ToPort": high}
    ranges = {"IpRanges": [{"CidrIp": s, "Description": "x"} for s in sources if ":" not in s]}
    ranges["Ipv6Ranges"] = [{"CidrIpv6": s} for s in sources if ":" in s]
    return {"IpProtocol": protocol, **ports, **ranges, **more}


HERE, THERE, SIX = "192.0.2.0/24", "198.51.100.0/24", "2001:db8::/64"


@pytest.mark.parametrize(
    ("existing", "opened", "closed"),
    [
        ([rule("tcp", 22, 22, HERE, SIX)], [], []),
        ([rule("6", 22, 22, HERE, SIX)], [], []),
        ([rule("tcp", 22, 22, HERE)], [SIX], []),
        ([], [HERE, SIX], []),
        (
            [rule("tcp", 22, 22, HERE, SIX, THERE)],
            [],
            [{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": THERE}]}],
        ),
        # Other ports than exactly 22 do not open port 22 as it should be opened, even to the right networks.
        (
            [rule("tcp", 22, 23, HERE)],
            [HERE, SIX],
            [{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 23, "IpRanges": [{"CidrIp": HERE}]}],
        ),
        (
            [rule("tcp", 21, 22, SIX)],
            [HERE, SIX],
            [{"IpProtocol": "tcp", "FromPort": 21, "ToPort": 22, "Ipv6Ranges": [{"CidrIpv6": SIX}]}],
        ),
        ([rule("-1", None, None, HERE)], [HERE, SIX], [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": HERE}]}]),
        ([rule("-1", 443, 443, HERE)], [HERE, SIX], [{"IpProtocol": "-1", "FromPort": 443, "ToPort": 443, "IpRanges": [{"CidrIp": HERE}]}]),
        ([rule("tcp", None, None, HERE)], [HERE, SIX], [{"IpProtocol": "tcp", "IpRanges": [{"CidrIp": HERE}]}]),
        # A group or a prefix list admits machines that the profile does not name.
        (
            [rule("tcp", 22, 22, HERE, SIX, UserIdGroupPairs=[{"GroupId": "sg-9"}], PrefixListIds=[])],
            [],
            [{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "UserIdGroupPairs": [{"GroupId": "sg-9"}]}],
        ),
        (
            [rule("tcp", 22, 22, HERE, SIX, PrefixListIds=[{"PrefixListId": "pl-1"}])],
            [],
            [{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "PrefixListIds": [{"PrefixListId": "pl-1"}]}],
        ),
        # EC2 may leave out the family that a rule has nothing of.
        (
            [{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": HERE}]}],
            [SIX],
            [],
        ),
        # What does not reach port 22 is left alone.
        (
            [rule("tcp", 443, 443, THERE), rule("tcp", 23, 80, THERE), rule("tcp", 1, 21, THERE), rule("udp", 22, 22, THERE)],
            [HERE, SIX],
            [],
        ),
        ([rule("tcp", 22, 22, HERE), rule("tcp", 22, 22, SIX)], [], []),
        ([rule("udp", 22, 22, THERE), rule("tcp", 22, 22, HERE, SIX)], [], []),
        ([rule("-1", 22, 22, SIX)], [HERE, SIX], [{"IpProtocol": "-1", "FromPort": 22, "ToPort": 22, "Ipv6Ranges": [{"CidrIpv6": SIX}]}]),
    ],
)
def test_a_group_is_opened_to_what_is_missing_before_it_is_closed_to_what_is_too_much(
    existing: list[dict[str, Any]], opened: list[str], closed: list[dict[str, Any]]
) -> None:
    api = ScriptedApi(describe_security_groups=[{"SecurityGroups": [{"GroupId": "sg-1", "IpPermissions": existing, "Description": TELLS}]}])
    firewall.allow(api, "train", [HERE, SIX])
    look = ("describe_security_groups", {"Filters": [{"Name": "group-name", "Values": ["gpuprov-train"]}]})
    opening = [("once:authorize_security_group_ingress", {"GroupId": "sg-1", "IpPermissions": [ingress(opened)]})] if opened else []
    closing = [("revoke_security_group_ingress", {"GroupId": "sg-1", "IpPermissions": closed})] if closed else []
    assert api.sent == [look, *opening, *closing]


def test_a_launch_without_a_group_cannot_be_opened() -> None:
    with pytest.raises(InstanceNotFoundError) as caught:
        firewall.allow(ScriptedApi(describe_security_groups=[{"SecurityGroups": []}]), "train", [HERE])
    assert caught.value.message == "'train' has no security group in us-east-1"
    assert caught.value.hint == "`gpuprov ls` shows what exists"
