"""Our things in a region and the order of their removal, without HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from provision.clouds import base
from provision.clouds.aws import removal
from provision.errors import InstanceLostError, PermissionRefusedError
from provision.structs import replace
from tests.clock import still
from tests.clouds.aws.scripted import ScriptedApi, refusal

TAGS = [{"Key": base.NAME_TAG, "Value": "train"}, {"Key": base.LAUNCH_TAG, "Value": "f00d"}]
GONE = refusal("InvalidThing.NotFound")


def thing(kind: str, thing_id: str, *, alive: bool = True) -> base.Thing:
    return base.Thing(kind, thing_id, "train", "f00d", "isa@example.org", "us-east-1", alive)


def machines(**states: str) -> dict[str, Any]:
    return {
        "Reservations": [{"Instances": [{"InstanceId": name, "State": {"Name": state}, "Tags": TAGS} for name, state in states.items()]}]
    }


def removed(api: ScriptedApi, *things: base.Thing) -> list[str]:
    return removal.remove(api, things, on_step=lambda _: None)


def test_only_kinds_that_carry_our_tag_are_asked_for() -> None:
    types = {"Tags": [{"ResourceType": "instance"}, {"ResourceType": "elastic-ip"}, {"ResourceType": "spot-instances-request"}]}
    spots = [{"SpotInstanceRequestId": f"sir-{s}", "State": s, "Tags": TAGS} for s in ("open", "active", "closed", "cancelled", "failed")]
    api = ScriptedApi(
        describe_tags=[types],
        describe_instances=[machines(a="running", b="terminated", c="shutting-down", d="stopped")],
        describe_spot_instance_requests=[{"SpotInstanceRequests": spots}],
    )
    existing = removal.things(api, "train")
    assert [(t.kind, t.id, t.alive) for t in existing] == [
        ("spot-request", "sir-open", True),
        ("spot-request", "sir-active", True),
        ("instance", "a", True),
        ("instance", "b", False),
        ("instance", "c", False),
        ("instance", "d", True),
    ]
    assert {(t.group, t.launch_id, t.where) for t in existing} == {("train", "f00d", "us-east-1")}
    filters = [{"Name": "key", "Values": ["gpuprov:name"]}, {"Name": "value", "Values": ["train"]}]
    assert api.sent[0] == ("describe_tags", {"Filters": filters})
    by_name = {"Filters": [{"Name": "tag:gpuprov:name", "Values": ["train"]}]}
    assert sorted(api.sent[1:]) == [(f"describe_{k}", by_name) for k in ("instances", "spot_instance_requests")]
    removal.things(api, None)
    assert ("describe_tags", {"Filters": filters[:1]}) in api.sent
    assert ("describe_instances", {"Filters": [{"Name": "tag-key", "Values": ["gpuprov:name"]}]}) in api.sent
    assert "describe_addresses" not in api.methods(), "nothing of ours has one, so nobody needs the permission to see them"


LAUNCH = base.Known("train", "f00d", "isa@example.org", (("i-1", "us-east-1a"),))


def untagged(**states: str) -> dict[str, Any]:
    """Machines as EC2 shows them before their tags."""
    return {"Reservations": [{"Instances": [{"InstanceId": name, "State": {"Name": state}} for name, state in states.items()]}]}


def test_a_launch_is_found_by_its_ids_its_tokens_and_the_name_of_its_group_before_ec2_shows_a_tag() -> None:
    attempts = (("token-1", "us-east-1a", ("train-1",)), ("", "us-east-1b", ("train-2",)), ("token-2", "", ()))
    launch = replace(LAUNCH, machines=(("i-2", "us-east-1a"), ("i-1", "")), attempts=attempts)
    groups = {"sg-1": "gpuprov train: SSH, launch f00d", "sg-2": "gpuprov train: SSH, launch beef", "sg-3": "for the lab"}
    api = ScriptedApi(
        describe_instances=[
            [untagged(**{"i-2": "running"}), untagged(**{"i-1": "stopped"})],
            untagged(**{"i-2": "running", "i-3": "pending"}),
        ],
        describe_security_groups=[{"SecurityGroups": [{"GroupId": group, "Description": text} for group, text in groups.items()]}],
    )
    assert removal.known(api, launch) == [*(thing("instance", f"i-{number}") for number in (2, 1, 3)), thing("security-group", "sg-1")]
    assert api.sent == [
        ("describe_instances", {"Filters": [{"Name": "instance-id", "Values": ["i-2", "i-1"]}]}),
        ("describe_instances", {"Filters": [{"Name": "client-token", "Values": ["token-1", "token-2"]}]}),
        ("describe_security_groups", {"Filters": [{"Name": "group-name", "Values": ["gpuprov-train"]}]}),
    ]


def test_of_a_launch_without_machines_or_tokens_only_the_group_is_asked_for() -> None:
    tagged = {"SecurityGroups": [{"GroupId": "sg-1", "Description": "gpuprov train: SSH", "Tags": TAGS}, {"GroupId": "sg-2", "Tags": []}]}
    api = ScriptedApi(describe_security_groups=[tagged])
    launch = replace(LAUNCH, machines=(), attempts=(("", "us-east-1a", ("train",)),))
    assert removal.known(api, launch) == [thing("security-group", "sg-1")]
    assert api.methods() == ["describe_security_groups"]


# The states of docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-lifecycle.html; and a machine that EC2 does not show.
@pytest.mark.parametrize("young", [True, False])
@pytest.mark.parametrize(
    ("shown", "alive"),
    [
        ({"i-1": "pending"}, True),
        ({"i-1": "running"}, True),
        ({"i-1": "stopping"}, True),
        ({"i-1": "stopped"}, True),
        ({"i-1": "shutting-down"}, False),
        ({"i-1": "terminated"}, False),
        ({}, None),
    ],
)
def test_a_machine_that_ec2_does_not_show_is_alive_while_its_launch_is_young(
    shown: dict[str, str], *, alive: bool | None, young: bool
) -> None:
    api = ScriptedApi(describe_instances=[untagged(**shown)], describe_security_groups=[{"SecurityGroups": []}])
    expected = young if alive is None else alive
    assert removal.known(api, replace(LAUNCH, young=young)) == [thing("instance", "i-1", alive=expected)]


@pytest.mark.parametrize("method", ["DescribeInstances", "DescribeSecurityGroups"])
def test_where_ec2_refuses_to_say_what_there_is_nothing_is_taken_for_gone(method: str) -> None:
    answers: dict[str, list[Any]] = {"describe_instances": [untagged()], "describe_security_groups": [{"SecurityGroups": []}]}
    refused = {"DescribeInstances": "describe_instances", "DescribeSecurityGroups": "describe_security_groups"}[method]
    with pytest.raises(PermissionRefusedError, match=f"ec2:{method} in us-east-1 "):
        removal.known(ScriptedApi(**answers | {refused: [refusal("UnauthorizedOperation")]}), LAUNCH)


@pytest.mark.parametrize(
    ("kind", "method", "key", "field"),
    [
        ("security-group", "describe_security_groups", "SecurityGroups", "GroupId"),
        ("launch-template", "describe_launch_templates", "LaunchTemplates", "LaunchTemplateId"),
        ("network-interface", "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId"),
        ("volume", "describe_volumes", "Volumes", "VolumeId"),
    ],
)
def test_every_kind_is_found_on_every_page(kind: str, method: str, key: str, field: str) -> None:
    pages = [{key: [{field: f"x-{number}", "TagSet" if number else "Tags": TAGS}]} for number in range(2)]
    fleets: list[list[dict[str, list[str]]]] = [[{"AutoScalingGroups": []}]]  # asked for where there is a template
    api = ScriptedApi(
        describe_tags=[[{"Tags": []}, {"Tags": [{"ResourceType": kind}]}]], describe_auto_scaling_groups=fleets, **{method: [pages]}
    )
    assert [(t.kind, t.id, t.group) for t in removal.things(api, "train")] == [(kind, "x-0", "train"), (kind, "x-1", "train")]


def test_what_others_depend_on_goes_last() -> None:
    ids = {
        "launch-template": ("lt-1", "delete_launch_template", {"LaunchTemplateId": "lt-1"}),
        "security-group": ("sg-1", "delete_security_group", {"GroupId": "sg-1"}),
        "network-interface": ("eni-1", "delete_network_interface", {"NetworkInterfaceId": "eni-1"}),
        "volume": ("vol-1", "delete_volume", {"VolumeId": "vol-1"}),
        "instance": ("i-1", "terminate_instances", {"InstanceIds": ["i-1"]}),
        "spot-request": ("sir-1", "cancel_spot_instance_requests", {"SpotInstanceRequestIds": ["sir-1"]}),
    }
    api = ScriptedApi(
        describe_instances=[machines(**{"i-1": "terminated"})],
        describe_volumes=[{"Volumes": [{"VolumeId": "vol-1", "State": "available"}]}, {"Volumes": []}],
        describe_network_interfaces=[
            {"NetworkInterfaces": [{"NetworkInterfaceId": "eni-1", "Status": "available"}]},
            {"NetworkInterfaces": []},
        ],
    )
    said: list[str] = []
    phrases = removal.remove(api, [thing(kind, each[0]) for kind, each in ids.items()], on_step=said.append)
    assert phrases == [f"{kind} {each[0]} in us-east-1" for kind, each in reversed(ids.items())]
    assert said == [f"removing {phrase}" for phrase in phrases]
    assert [(m, p) for m, p in api.sent if not m.startswith("describe")] == [each[1:] for each in reversed(ids.values())]
    assert ("describe_volumes", {"Filters": [{"Name": "volume-id", "Values": ["vol-1"]}]}) in api.sent
    assert ("describe_network_interfaces", {"Filters": [{"Name": "network-interface-id", "Values": ["eni-1"]}]}) in api.sent
    assert ("describe_instances", {"Filters": [{"Name": "instance-id", "Values": ["i-1"]}]}) in api.sent


def test_a_machine_that_ended_before_is_not_told_of() -> None:
    api = ScriptedApi(describe_instances=[machines()])
    assert removal.remove(api, [thing("instance", "i-1", alive=False)], on_step=lambda _: pytest.fail("said")) == []
    assert api.methods() == ["terminate_instances", "describe_instances"]
    assert removed(ScriptedApi()) == []


def test_one_machine_that_ec2_no_longer_knows_does_not_save_the_others() -> None:
    api = ScriptedApi(terminate_instances=[GONE, GONE, {}], describe_instances=[machines()])
    removed(api, thing("instance", "i-1", alive=False), thing("instance", "i-2"))
    assert [p["InstanceIds"] for m, p in api.sent if m == "terminate_instances"] == [["i-1", "i-2"], ["i-1"], ["i-2"]]


def test_machines_are_waited_for_until_they_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = still(monkeypatch)
    api = ScriptedApi(describe_instances=[machines(a="shutting-down", b="terminated"), machines(a="terminated")])
    removed(api, thing("instance", "a"), thing("instance", "b"))
    assert clock.pauses == [0.05]
    stuck = ScriptedApi(describe_instances=[machines(a="shutting-down", b="running")])
    with pytest.raises(InstanceLostError) as caught:
        removed(stuck, thing("instance", "a"), thing("instance", "b"))
    assert caught.value.message == "a, b in us-east-1: the end is under way, and not over after 20 min"
    assert "the same command again" in caught.value.hint


@pytest.mark.parametrize("state", ["deleting", "deleted"])
def test_a_volume_that_ends_with_its_machine_is_not_deleted(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    still(monkeypatch)
    volumes = [{"Volumes": [{"VolumeId": "vol-1", "State": s}]} for s in ("in-use", state)]
    api = ScriptedApi(describe_volumes=volumes)
    assert removed(api, thing("volume", "vol-1")) == ["volume vol-1 in us-east-1"]
    assert api.methods() == ["describe_volumes"] * 2


def test_a_volume_that_stays_in_use_is_an_error_with_its_region(monkeypatch: pytest.MonkeyPatch) -> None:
    still(monkeypatch)
    api = ScriptedApi(describe_volumes=[{"Volumes": [{"VolumeId": "vol-1", "State": "in-use"}]}])
    with pytest.raises(InstanceLostError, match="vol-1 in us-east-1: the end is under way, and not over after 20 min"):
        removed(api, thing("volume", "vol-1"))
    assert set(api.methods()) == {"describe_volumes"}


@pytest.mark.parametrize(
    "code", ["DependencyViolation", "VolumeInUse", "IncorrectState", "InvalidNetworkInterface.InUse", "InvalidGroup.InUse"]
)
def test_what_is_still_held_is_asked_for_again_and_what_is_gone_is_gone(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    clock = still(monkeypatch)
    api = ScriptedApi(delete_security_group=[refusal(code), refusal(code), refusal(code), GONE])
    assert removed(api, thing("security-group", "sg-1")) == ["security-group sg-1 in us-east-1"]
    assert [round(pause, 4) for pause in clock.pauses] == [0.05, 0.075, 0.1125]


def test_no_thing_that_is_held_is_waited_for_longer_than_five_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = still(monkeypatch)
    with pytest.raises(Exception, match="DependencyViolation"):
        removed(ScriptedApi(delete_security_group=[refusal("DependencyViolation")]), thing("security-group", "sg-1"))
    assert 300 <= clock.now < 306
    assert max(clock.pauses) == 5


@pytest.mark.parametrize(
    ("answers", "action"),
    [
        ({"describe_tags": [0]}, "ec2:DescribeTags"),
        ({"describe_tags": [{"Tags": [{"ResourceType": "volume"}]}], "describe_volumes": [0]}, "ec2:DescribeVolumes"),
        ({"terminate_instances": [0]}, "ec2:TerminateInstances"),
        ({"delete_launch_template": [0]}, "ec2:DeleteLaunchTemplate"),
        ({"describe_volumes": [0]}, "ec2:DescribeVolumes"),
        ({"delete_auto_scaling_group": [0]}, "autoscaling:DeleteAutoScalingGroup"),
        ({"describe_auto_scaling_groups": [0]}, "autoscaling:DescribeAutoScalingGroups"),
        (
            {"describe_tags": [{"Tags": [{"ResourceType": "launch-template"}]}], "describe_auto_scaling_groups": [0]},
            "autoscaling:DescribeAutoScalingGroups",
        ),
    ],
)
def test_a_refusal_names_its_permission(answers: dict[str, list[Any]], action: str) -> None:
    no = refusal("UnauthorizedOperation")
    api = ScriptedApi(**{method: [no if answer == 0 else answer for answer in given] for method, given in answers.items()})
    kinds = {"ec2:TerminateInstances": "instance", "ec2:DeleteLaunchTemplate": "launch-template", "autoscaling": "auto-scaling-group"}
    kind = kinds.get(action, kinds.get(action.partition(":")[0], "volume"))
    with pytest.raises(PermissionRefusedError, match=f"{action} in us-east-1 "):
        removal.things(api, None) if "describe_tags" in answers else removed(api, thing(kind, "x"))


FLEET = {"AutoScalingGroupName": "gpuprov-train", "Tags": TAGS}


def test_a_fleet_is_looked_for_where_there_is_a_template_and_not_elsewhere() -> None:
    template = {"LaunchTemplates": [{"LaunchTemplateId": "lt-1", "Tags": TAGS}]}
    pages = [{"AutoScalingGroups": []}, {"AutoScalingGroups": [FLEET]}]
    types = {"Tags": [{"ResourceType": "launch-template"}, {"ResourceType": "security-group"}]}
    groups = {"SecurityGroups": [{"GroupId": "sg-1", "Tags": TAGS}]}
    api = ScriptedApi(
        describe_tags=[types], describe_launch_templates=[template], describe_auto_scaling_groups=[pages], describe_security_groups=[groups]
    )
    found = removal.things(api, "train")
    assert [(each.kind, each.id, each.group, each.where, each.alive) for each in found] == [
        ("auto-scaling-group", "gpuprov-train", "train", "us-east-1", True),
        ("security-group", "sg-1", "train", "us-east-1", True),
        ("launch-template", "lt-1", "train", "us-east-1", True),
    ]
    assert ("describe_auto_scaling_groups", {"Filters": [{"Name": "tag:gpuprov:name", "Values": ["train"]}]}) in api.sent
    alone = ScriptedApi(describe_tags=[{"Tags": [{"ResourceType": "security-group"}]}], describe_security_groups=[groups])
    assert [each.kind for each in removal.things(alone, "train")] == ["security-group"]
    assert "describe_auto_scaling_groups" not in alone.methods()


def test_a_fleet_goes_first_with_its_members_and_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = still(monkeypatch)
    api = ScriptedApi(describe_auto_scaling_groups=[{"AutoScalingGroups": [FLEET]}, {"AutoScalingGroups": []}])
    removed(api, thing("launch-template", "lt-1"), thing("auto-scaling-group", "gpuprov-train"))
    asked = ("describe_auto_scaling_groups", {"AutoScalingGroupNames": ["gpuprov-train"]})
    assert api.sent == [
        ("delete_auto_scaling_group", {"AutoScalingGroupName": "gpuprov-train", "ForceDelete": True}),
        asked,
        asked,
        ("delete_launch_template", {"LaunchTemplateId": "lt-1"}),
    ]
    assert len(clock.pauses) == 1
    gone = ScriptedApi(delete_auto_scaling_group=[refusal("ValidationError")], describe_auto_scaling_groups=[{"AutoScalingGroups": []}])
    assert removed(gone, thing("auto-scaling-group", "gpuprov-train")) == ["auto-scaling-group gpuprov-train in us-east-1"]
    stays = ScriptedApi(describe_auto_scaling_groups=[{"AutoScalingGroups": [FLEET]}])
    with pytest.raises(InstanceLostError, match="gpuprov-train in us-east-1: the end is under way, and not over after 20 min"):
        removed(stays, thing("auto-scaling-group", "gpuprov-train"))
