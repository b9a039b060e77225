"""An image that something starts its next machine from is not removed: through the command line, against the clouds without hosts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provision.cli import options
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.cli.conftest import Call, call
from tests.waiting import until
from tests.workflow.test_bake import cloud, settings, without
from tests.workflow.test_fleet import REGION, AwsGroups, GcpGroups
from tests.workflow.test_fleet_baked import bake, fleet, images, profile

__all__ = ["call", "cloud"]

pytestmark = [pytest.mark.matrix, pytest.mark.usefixtures("cloud")]


@pytest.fixture(params=["aws", "gcp"])
def where(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def given(tmp_path: Path, where: str) -> str:
    return profile(tmp_path / "bk.yml", where, "if-current")


def remove(call: Call, *more: str) -> tuple[int, str]:
    code, _, err = call("bake", "remove", "bk", "--rehearse", "--yes", *more)
    return code, err


def left(call: Call) -> set[str]:
    return {row["id"] for row in json.loads(call("bake", "list", "--rehearse", "--json")[1])["images"]}


def groups_of(rehearsal: Rehearsal, where: str) -> AwsGroups | GcpGroups:
    return AwsGroups(rehearsal) if where == "aws" else GcpGroups(rehearsal)


def up(call: Call, given: str, where: str) -> None:
    code, _, err = call(*fleet(given, where))
    assert code == 0, err


def roll(call: Call, rehearsal: Rehearsal, given: str, where: str) -> None:
    """Bring all members of the fleet to what the profile says now."""
    groups_of(rehearsal, where).serve()
    code, _, err = call("fleet", "roll", "ff", "--profile", given, "--pause", "0s")
    assert code == 0, err


def finish(groups: AwsGroups) -> None:
    """Let the refresh of the fleet come to its end."""

    def ended() -> bool:
        groups.serve()
        rows = groups.groups.describe_instance_refreshes(AutoScalingGroupName="gpuprov-ff")["InstanceRefreshes"]
        return {row["Status"] for row in rows} == {"Successful"}

    until(ended)


def test_an_image_of_a_fleet_stays_until_the_fleet_has_another(
    cloud: Rehearsal, call: Call, given: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = bake(call, given, where)["id"]
    up(call, given, where)
    with monkeypatch.context() as patch:  # nobody is asked to agree to what is refused
        patch.setattr(options, "confirm", lambda *_, **__: pytest.fail("asked"))
        code, err = remove(call)
    kind = "Auto Scaling group gpuprov-ff" if where == "aws" else "instance group gpuprov-ff in asia-east2"
    assert (code, "error[image-in-use]" in err, f"{image} in" in err, f"is used by {kind}\n" in err) == (2, True, True, True), err
    assert "`gpuprov fleet roll`" in err
    assert left(call) == {image}
    profile(Path(given), where, "never")
    roll(call, cloud, given, where)
    if where == "aws":  # which goes on by itself, and may go back
        finish(AwsGroups(cloud))
    assert remove(call)[0] == 0
    assert left(call) == set()


def test_it_is_free_when_its_fleet_has_ended(call: Call, given: str, where: str) -> None:
    bake(call, given, where)
    up(call, given, where)
    code, _, err = call("fleet", "down", "ff", "--yes")
    assert code == 0, err
    assert (remove(call)[0], left(call)) == (0, set())


def test_of_several_images_none_is_removed_where_one_is_used(call: Call, given: str, where: str) -> None:
    used = bake(call, given, where)["id"]
    up(call, given, where)
    profile(Path(given), where, "if-current", root_gb=201)
    newer = bake(call, given, where)["id"]
    code, err = remove(call)
    assert (code, f"{used} in" in err, f"{newer} in" in err) == (2, True, False), err
    assert left(call) == {used, newer}
    assert call("bake", "remove", newer, "--rehearse", "--yes")[0] == 0
    assert left(call) == {used}


def test_whoever_says_so_removes_it_anyway(call: Call, given: str, where: str) -> None:
    bake(call, given, where)
    up(call, given, where)
    assert (remove(call, "--even-if-used")[0], left(call)) == (0, set())


READS = {
    "aws": ["autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeInstanceRefreshes", "ec2:DescribeLaunchTemplateVersions"],
    "gcp": ["compute.instanceGroupManagers.list", "compute.instanceTemplates.list"],
}


@pytest.mark.matrix(of=5)
@pytest.mark.parametrize(("where", "action"), [(cloud, action) for cloud, actions in READS.items() for action in actions])
def test_what_cannot_be_asked_is_not_taken_as_unused(cloud: Rehearsal, call: Call, given: str, where: str, *, action: str) -> None:
    image = bake(call, given, where)["id"]
    up(call, given, where)
    plan = json.loads(call("bake", "plan", given, "--json")[1])
    assert action in plan["actions"][where]
    if where == "aws":
        allowed: dict[str, Any] = {"allowed": plan["policies"]["aws"]}
        fewer: dict[str, Any] = {"allowed": without(plan["policies"]["aws"], action)}
    else:
        allowed = {"gce_allowed": plan["actions"]["gcp"]}
        fewer = {"gce_allowed": [each for each in plan["actions"]["gcp"] if each != action]}
    settings(cloud, **allowed)
    assert "error[image-in-use]" in remove(call)[1]
    settings(cloud, **fewer)
    code, err = remove(call)
    assert (code, "error[permission-refused]" in err, action in err) == (4, True, True), err
    assert left(call) == {image}
    assert remove(call, "--even-if-used")[0] == 0


def test_a_fleet_goes_on_launching_from_an_image_that_a_newer_one_replaced(cloud: Rehearsal, call: Call, given: str, where: str) -> None:
    older = bake(call, given, where)["id"]
    up(call, given, where)
    groups = groups_of(cloud, where)
    until(lambda: groups.count() == 2)
    profile(Path(given), where, "if-current", root_gb=201)
    code, out, err = call("bake", "make", given, "--rehearse", where, "--without-gpu", "--json")
    assert (code, json.loads(out)["deprecated"]) == (0, [older]), err
    code, _, err = call("fleet", "scale", "ff", "3")
    assert code == 0, err
    until(lambda: groups.count() == 3)
    assert images(cloud, where) == {older}
    if where == "aws":
        rows = AwsGroups(cloud)
        ids = [row["InstanceId"] for row in rows.one()["Instances"]]
        found = [i for r in rows.ec2.describe_instances(InstanceIds=ids)["Reservations"] for i in r["Instances"]]
        assert [i["ImageId"] for i in found] == [older] * 3
    else:
        until(lambda: [member.instance_status for member in GcpGroups(cloud).members()] == ["RUNNING"] * 3)
        (state,) = (row["deprecated"] for row in control.ask(cloud, "settings")["gce_made_images"] if row["name"] == older)
        assert state == {"state": "DEPRECATED"}  # and no day on which it is obsolete or deleted


class Versions:
    """The versions of the fleet's template on AWS, beside what gpuprov does."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.groups = AwsGroups(rehearsal)
        self.ec2 = self.groups.ec2
        self.name = {"LaunchTemplateName": "gpuprov-ff"}

    def add(self, image: str) -> int:
        data = {"SourceVersion": "1", "LaunchTemplateData": {"ImageId": image}}
        return int(self.ec2.create_launch_template_version(**self.name, **data)["LaunchTemplateVersion"]["VersionNumber"])

    def base(self) -> str:
        found = self.ec2.describe_launch_template_versions(**self.name, Versions=["1"])["LaunchTemplateVersions"]
        return str(found[0]["LaunchTemplateData"]["ImageId"])

    def use(self, version: str) -> None:
        self.groups.groups.update_auto_scaling_group(AutoScalingGroupName="gpuprov-ff", LaunchTemplate={**self.name, "Version": version})


@pytest.fixture
def versions(cloud: Rehearsal, call: Call, tmp_path: Path) -> tuple[Versions, str, str]:
    """A fleet from the base image, with an image beside it and the profile."""
    path = tmp_path / "bk.yml"
    up(call, profile(path, "aws", "never"), "aws")
    image = bake(call, profile(path, "aws", "if-current"), "aws")["id"]
    return Versions(cloud), image, str(path)


@pytest.mark.matrix(of=3)
@pytest.mark.parametrize(
    ("order", "version", "used"),
    [
        (("image", "base"), "2", True),  # as after a roll that went back: neither the newest nor the default version
        (("image", "base"), "3", False),
        (("image", "base"), "1", False),
        (("base", "image"), "1", False),  # as after a roll to it that went back
        (("base", "image"), "$Latest", True),
        (("image", "base"), "$Latest", False),
        (("base", "image"), "$Default", False),
    ],
)
def test_the_version_that_the_group_has_counts_and_no_other(
    versions: tuple[Versions, str, str], call: Call, order: tuple[str, ...], version: str, *, used: bool
) -> None:
    template, image, _ = versions
    for what in order:
        template.add(image if what == "image" else template.base())
    template.use(version)
    code, err = remove(call)
    assert (code, "error[image-in-use]" in err) == ((2, True) if used else (0, False)), err


def test_a_roll_that_is_under_way_uses_both_images(versions: tuple[Versions, str, str], call: Call) -> None:
    template, image, path = versions
    template.groups.serve()
    code, _, err = call("fleet", "roll", "ff", "--profile", path, "--pause", "0s")
    assert (code, template.groups.one()["LaunchTemplate"]["Version"]) == (0, "1"), err
    assert "error[image-in-use]" in remove(call)[1]
    finish(template.groups)
    profile(Path(path), "aws", "if-current", root_gb=201)
    newer = bake(call, path, "aws")["id"]
    code, _, err = call("fleet", "roll", "ff", "--profile", path, "--pause", "0s")
    assert code == 0, err
    _, err = remove(call)
    assert all(f"{each} in {REGION} is used by" in err for each in (image, newer)), err


def test_a_template_that_no_group_has_counts_by_its_newest_and_its_default_version(cloud: Rehearsal, call: Call, tmp_path: Path) -> None:
    """Beside more templates than one page has."""
    image = bake(call, profile(tmp_path / "bk.yml", "aws", "if-current"), "aws")["id"]
    ec2 = client("ec2", REGION, AwsAccess(**cloud.settings("aws")))
    for number in range(105):  # two versions of each are asked for
        ec2.create_launch_template(LaunchTemplateName=f"other-{number}", LaunchTemplateData={"ImageId": "ami-0123456789abcdef0"})
    own = {"LaunchTemplateName": "by-hand"}
    ec2.create_launch_template(**own, LaunchTemplateData={"ImageId": image})
    code, err = remove(call)
    assert (code, "is used by launch template by-hand\n" in err) == (2, True), err
    ec2.create_launch_template_version(**own, LaunchTemplateData={"ImageId": "ami-0123456789abcdef0"})
    assert "is used by launch template by-hand\n" in remove(call)[1]  # its default version is the first one
    ec2.modify_launch_template(**own, DefaultVersion="2")
    assert remove(call)[0] == 0
