"""Fleets that start from an image of ours, against the embedded clouds without hosts; the machine that is baked is a stand-in's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provision.launch import baked
from provision.rehearsal.control import Rehearsal
from tests.cli.conftest import Call, call
from tests.workflow.test_bake import cloud, written
from tests.workflow.test_bake_gcp import on_gcp
from tests.workflow.test_fleet import ACCOUNT, REGION, AwsGroups, GcpGroups

pytestmark = pytest.mark.matrix

__all__ = ["call", "cloud"]

STORES = {"aws": "s3://a-store/x", "gcp": "gs://a-store/x"}
IDENTITIES = {"aws": "{instance_profile: gpu-node}", "gcp": f"{{service_account: {ACCOUNT}}}"}


def profile(path: Path, where: str, use: str, *, root_gb: int = 200) -> str:
    """One place, whose machines have an identity and start from images as `use` says."""
    if where == "aws":
        written(path, use, regions=REGION, root_gb=root_gb)
    else:
        on_gcp(path, use, root_gb=root_gb)
    path.write_text(path.read_text().replace(f"baked_image: {use}", f"baked_image: {use}, identity: {IDENTITIES[where]}"))
    return str(path)


def fleet(given: str, where: str) -> tuple[str, ...]:
    return ("fleet", "up", given, "--count", "2", "--store", STORES[where], "--rehearse", where, "--without-gpu", "--name", "ff")


def bake(call: Call, given: str, where: str) -> dict[str, Any]:
    code, out, err = call("bake", "make", given, "--rehearse", where, "--without-gpu", "--json")
    assert code == 0, err
    image: dict[str, Any] = json.loads(out)["image"]
    return image


def images(rehearsal: Rehearsal, where: str) -> set[str]:
    """What the newest version of the group's template starts machines from."""
    if where == "gcp":
        return {Path(disk).name for disk in GcpGroups(rehearsal).source_images()}
    groups = AwsGroups(rehearsal)
    found = groups.ec2.describe_launch_template_versions(LaunchTemplateName="gpuprov-ff", Versions=["$Latest"])
    return {version["LaunchTemplateData"]["ImageId"] for version in found["LaunchTemplateVersions"]}


@pytest.mark.parametrize("where", ["aws", "gcp"])
def test_members_start_from_the_current_image_and_a_roll_leaves_a_stale_one(
    cloud: Rehearsal, call: Call, tmp_path: Path, where: str
) -> None:
    given = profile(tmp_path / "bk.yml", where, "if-current")
    image = bake(call, given, where)
    code, _, err = call(*fleet(given, where))
    assert (code, f"starting from {image['id']}, baked on" in err) == (0, True), err
    assert images(cloud, where) == {Path(image["id"]).name}
    code, _, err = call(*fleet(given, where))  # the record keeps the image, so that a repetition comes to the same
    assert (code, images(cloud, where)) == (0, {Path(image["id"]).name}), err
    shown = call("fleet", "status", "ff", "--json")[1]
    assert json.loads(shown)["baked_image"] == image["id"]
    (AwsGroups(cloud) if where == "aws" else GcpGroups(cloud)).serve()
    profile(tmp_path / "bk.yml", where, "if-current", root_gb=201)
    code, _, err = call("fleet", "roll", "ff", "--profile", given, "--pause", "0s")
    assert (code, "is stale: the lock (" in err) == (0, True), err
    assert Path(image["id"]).name not in images(cloud, where)


@pytest.mark.parametrize("where", ["aws", "gcp"])
def test_a_fleet_that_demands_an_image_is_not_made_without_one(cloud: Rehearsal, call: Call, tmp_path: Path, where: str) -> None:
    code, _, err = call(*fleet(profile(tmp_path / "bk.yml", where, "required"), where))
    assert (code, "error[image-not-found]" in err, "bake make" in err) == (4, True, True), err
    groups = AwsGroups(cloud) if where == "aws" else GcpGroups(cloud)
    assert (groups.all(), groups.left()) == ([], [])


@pytest.mark.parametrize("where", ["aws", "gcp"])
def test_the_status_says_when_another_image_is_current_and_when_the_one_in_use_is_stale(
    cloud: Rehearsal, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def said() -> str:
        return next((line for line in call("fleet", "status", "ff")[1].splitlines() if line.startswith("members start from")), "")

    given = profile(tmp_path / "bk.yml", where, "if-current")
    code, _, err = call(*fleet(given, where))
    assert (code, said()) == (0, ""), err
    image = bake(call, given, where)
    assert said() == f"members start from the base image; {image['id']} is current, and `gpuprov fleet roll` brings it"
    (AwsGroups(cloud) if where == "aws" else GcpGroups(cloud)).serve()
    code, _, err = call("fleet", "roll", "ff", "--pause", "0s")
    assert (code, said()) == (0, f"members start from the baked image {image['id']}"), err
    monkeypatch.setattr(baked, "CLEANING", 2)  # as a newer gpuprov has it
    assert "is stale: " in said()
    assert f"{image['id']} of " in json.loads(call("fleet", "status", "ff", "--json")[1])["other_image"]
