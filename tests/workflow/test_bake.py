"""`gpuprov bake` against the embedded cloud without hosts: killed at every call, with one permission less, and what is current.

The images of real hosts are in tests/test_bake.py.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provision import paths
from provision.clouds.aws import bakery
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.clouds.baked import LINE_TAG
from provision.clouds.base import DEADLINE_TAG, NAME_TAG, OWNER_TAG
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.structs import replace
from tests import sample
from tests.cli.conftest import Call, call
from tests.embedded import PLAIN, Embedded
from tests.workflow.bake_stand_ins import stand_ins
from tests.workflow.killed import Killable

pytestmark = pytest.mark.matrix

__all__ = ["call"]

REGION = "ap-southeast-1"


@pytest.fixture
def cloud(own_home: Path, embedded: Embedded) -> Iterator[Rehearsal]:
    folder = own_home / "rehearsal"
    rehearsal = embedded.start(folder)
    settings(rehearsal, **{**PLAIN, "image_s": 0.05, "terminated_s": 1.0})  # of a matrix's machines, each call would list all that ended
    with stand_ins():
        yield rehearsal
    control.stop(folder)


def settings(rehearsal: Rehearsal, **changes: Any) -> dict[str, Any]:
    return dict(control.ask(rehearsal, "settings", method="PUT", body=changes))


def written(path: Path, use: str, *, regions: str = REGION, root_gb: int = 200) -> str:
    """A shipped profile with one place, which starts from images as `use` says."""
    text = (paths.profiles_dir() / "t4-train.yml").read_text().replace("name: t4-train", "name: bk", 1)
    head, rest = text.split("places:\n", 1)
    place = f"  - {{cloud: aws, instance_type: g4dn.xlarge, regions: [{regions}], baked_image: {use}}}\n\n"
    path.write_text(f"{head}places:\n{place}os:{rest.split('os:', 1)[1]}".replace("size_gb: 200", f"size_gb: {root_gb}"))
    return str(path)


@pytest.fixture
def profile(tmp_path: Path) -> str:
    return written(tmp_path / "bk.yml", "if-current")


@pytest.fixture
def ec2(cloud: Rehearsal) -> Any:
    return client("ec2", REGION, AwsAccess(**cloud.settings("aws")))


def make(profile: str, *more: str) -> tuple[str, ...]:
    return ("bake", "make", profile, "--rehearse", "--without-gpu", "--json", *more)


def machines(ec2: Any) -> list[dict[str, Any]]:
    """Those that are not terminated."""
    return [i for r in ec2.describe_instances()["Reservations"] for i in r["Instances"] if i["State"]["Name"] != "terminated"]


def seen_by_tag(machine: dict[str, Any]) -> bool:
    return {NAME_TAG, DEADLINE_TAG, OWNER_TAG} <= {tag["Key"] for tag in machine["Tags"]}


def left(ec2: Any) -> dict[str, list[str]]:
    """What there is beside the images: machines that are not terminated, volumes and groups of ours."""
    rows = machines(ec2)
    groups = [g["GroupId"] for g in ec2.describe_security_groups()["SecurityGroups"] if g["GroupName"] != "default"]
    return {
        "machines": [i["InstanceId"] for i in rows],
        "volumes": [v["VolumeId"] for v in ec2.describe_volumes()["Volumes"]],
        "groups": groups,
    }


NOTHING: dict[str, list[str]] = {"machines": [], "volumes": [], "groups": []}


def images(ec2: Any) -> list[dict[str, Any]]:
    return list(ec2.describe_images(Owners=["self"], IncludeDeprecated=True)["Images"])


def snapshots(ec2: Any) -> list[str]:
    """Those of ours; moto has some of its own."""
    found = ec2.describe_snapshots(OwnerIds=["self"], Filters=[{"Name": "tag-key", "Values": [LINE_TAG]}])["Snapshots"]
    return [snapshot["SnapshotId"] for snapshot in found]


def test_an_image_is_tagged_encrypted_and_of_the_root_disk_alone(ec2: Any, call: Call, profile: str) -> None:
    code, out, err = call(*make(profile))
    assert code == 0, err
    image, data = images(ec2)[0], json.loads(out)["image"]
    (intent,) = (entry for entry in json.loads(call("log", "--json")[1])["entries"] if entry["event"] == "intent")
    assert (intent["command"], len(intent["profile"]), len(intent["lock"])) == ("bake make", 64, 64)
    tags = {tag["Key"]: tag["Value"] for tag in image["Tags"]}
    assert (image["Name"], tags[LINE_TAG]) == (f"gpuprov/bk/sha256-{data['digest']}", "bk")
    assert not {key for key in tags if key in {"gpuprov:name", "gpuprov:launch", "gpuprov:deadline"}}
    (disk,) = image["BlockDeviceMappings"]
    assert [disk["Ebs"]["SnapshotId"]] == snapshots(ec2)
    assert disk["Ebs"]["Encrypted"]
    assert left(ec2) == NOTHING


def test_the_same_image_is_made_once(ec2: Any, call: Call, profile: str) -> None:
    assert call(*make(profile))[0] == 0
    code, out, _ = call(*make(profile))
    assert (code, json.loads(out)["made"], len(images(ec2))) == (0, False, 1)
    assert left(ec2) == NOTHING


def test_an_image_whose_tags_are_late_is_ours_all_the_same(cloud: Rehearsal, ec2: Any, call: Call, profile: str) -> None:
    settings(cloud, tags_s=2.0)
    code, out, err = call(*make(profile))
    assert code == 0, err
    assert [image["ImageId"] for image in images(ec2)] == [json.loads(out)["image"]["id"]]
    settings(cloud, tags_s=0.0)
    assert left(ec2) == NOTHING
    assert json.loads(call(*make(profile))[1])["image"]["id"] == json.loads(out)["image"]["id"]


def test_an_image_whose_tags_do_not_come_is_not_called_somebody_s(
    cloud: Rehearsal, ec2: Any, call: Call, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bakery, "_UNSEEN_S", 1.0)
    settings(cloud, tags_s=600.0)
    code, _, err = call(*make(profile))
    assert (code, "does not show" in err, "by hand" in err) == (4, True, False), err
    settings(cloud, tags_s=0.0)
    code, out, err = call(*make(profile))
    assert code == 0, err
    assert [image["ImageId"] for image in images(ec2)] == [json.loads(out)["image"]["id"]]
    assert left(ec2) == NOTHING


def test_what_an_earlier_run_left_in_another_region_is_named(cloud: Rehearsal, ec2: Any, call: Call, tmp_path: Path) -> None:
    profile = written(tmp_path / "bk.yml", "if-current", regions=f"{REGION}, ap-east-1")
    refused = {"kind": "error", "action": "CreateImage", "code": "UnauthorizedOperation", "http": 403, "count": 1}
    control.ask(cloud, "faults", method="PUT", body=[refused])
    assert call(*make(profile, "--region", REGION))[0] == 4
    (machine,) = machines(ec2)
    code, _, err = call(*make(profile, "--region", "ap-east-1"))
    assert (code, "error[usage]" in err, machine["InstanceId"] in err, f"--region {REGION}" in err) == (2, True, True, True), err
    assert call(*make(profile, "--region", REGION))[0] == 0
    assert left(ec2) == NOTHING


@pytest.mark.matrix
@pytest.mark.parametrize("when", ["before", "after"])
def test_kill_9_at_every_call(ec2: Any, call: Call, profile: str, killable: Killable, *, when: str) -> None:
    number, more = 0, True
    while more:
        number = sample.after(number)
        more = killable.run(number, when, *make(profile), stand_ins="bake_stand_ins").killed
        seen = {row["Name"] for row in images(ec2)}
        assert all(seen_by_tag(row) for row in machines(ec2)), number  # `ls`, `down` and `sweep` find machines so
        code, out, err = call(*make(profile))
        assert code == 0, (number, err)
        assert len(images(ec2)) == 1, number
        assert not seen or seen == {json.loads(out)["image"]["name"]}
        assert left(ec2) == NOTHING, number
        ec2.deregister_image(ImageId=images(ec2)[0]["ImageId"], DeleteAssociatedSnapshots=True)
        assert snapshots(ec2) == [], number
    assert number > 10


def policy_of(call: Call, profile: str) -> dict[str, Any]:
    code, out, err = call("bake", "plan", profile, "--json")
    assert code == 0, err
    policy: dict[str, Any] = json.loads(out)["policies"]["aws"]
    return policy


def without(given: dict[str, Any], action: str) -> dict[str, Any]:
    fewer = copy.deepcopy(given)
    for statement in fewer["Statement"]:
        statement["Action"] = [each for each in statement["Action"] if each != action]
    return fewer


@pytest.mark.matrix(of=9)
@pytest.mark.parametrize(
    "action",
    [
        "ec2:CreateImage",
        "ec2:CreateTags",
        "ec2:StopInstances",
        "ec2:DescribeImages",
        "ec2:DescribeSnapshots",
        "ec2:EnableImageDeprecation",
        "ec2:DisableImageDeprecation",
        "ec2:DeregisterImage",
        "ec2:DeleteSnapshot",
    ],
)
def test_the_computed_policy_is_enough_and_nothing_of_it_can_be_left_out(
    cloud: Rehearsal, ec2: Any, call: Call, tmp_path: Path, profile: str, *, action: str
) -> None:
    """Two images, of which the second replaces the first, which is taken into use again; then both are removed."""
    whole = policy_of(call, profile)

    def life() -> list[tuple[int, str]]:
        made = [call(*make(written(tmp_path / "bk.yml", "if-current", root_gb=root_gb))) for root_gb in (200, 201, 200)]
        return [(code, err) for code, _, err in (*made, call("bake", "remove", "bk", "--rehearse", "--yes"))]

    settings(cloud, allowed=whole, image_s=0.4)
    assert [code for code, _ in life()] == [0, 0, 0, 0]
    assert images(ec2) == []
    settings(cloud, allowed=without(whole, action))
    refused = [err for code, err in life() if code]
    assert refused
    assert action in refused[0]


def test_the_policy_does_not_reach_the_images_of_another_profile(
    cloud: Rehearsal, ec2: Any, call: Call, tmp_path: Path, profile: str
) -> None:
    other = tmp_path / "other.yml"
    other.write_text(Path(profile).read_text().replace("name: bk", "name: other", 1))
    assert call(*make(str(other)))[0] == 0
    settings(cloud, allowed=policy_of(call, profile))
    code, _, err = call("bake", "remove", "other", "--rehearse", "--yes")
    assert (code, "ec2:DeregisterImage" in err, len(images(ec2))) == (4, True, 1)


def up(profile: str, *more: str) -> tuple[str, ...]:
    return ("up", profile, "--name", "one", "--rehearse", "--without-gpu", "--json", *more)


def started_from(ec2: Any) -> str:
    (row,) = machines(ec2)
    return str(row["ImageId"])


def test_a_launch_takes_the_current_image_and_says_so(ec2: Any, call: Call, profile: str) -> None:
    image = json.loads(call(*make(profile))[1])["image"]
    code, _, err = call(*up(profile))
    assert code == 0, err
    assert (started_from(ec2), f"starting from {image['id']}, baked on" in err) == (image["id"], True)


@pytest.mark.parametrize(("use", "code"), [("if-current", 0), ("required", 4)])
def test_a_stale_image_is_never_taken(ec2: Any, call: Call, tmp_path: Path, *, use: str, code: int) -> None:
    path = tmp_path / "bk.yml"
    image = json.loads(call(*make(written(path, use)))[1])["image"]
    ended, _, err = call(*up(written(path, use, root_gb=201)))
    assert ended == code
    assert f"{image['id']} of {image['made_at'][:10]} is stale: the lock (" in err
    if code:
        assert ("error[image-not-found]" in err, left(ec2)) == (True, NOTHING)
    else:
        assert started_from(ec2) == image["parts"]["base"]


@pytest.mark.parametrize("part", ["roles", "engine", "base", "scope"])
def test_every_part_makes_an_image_stale_and_is_named(
    cloud: Rehearsal, call: Call, profile: str, monkeypatch: pytest.MonkeyPatch, *, part: str
) -> None:
    if part == "base":
        golden = 'image: {owner: "123456789012", name: golden-*}, baked_image:'
        Path(profile).write_text(Path(profile).read_text().replace("baked_image:", golden, 1))
    assert call(*make(profile))[0] == 0
    words = up(profile)
    if part == "base":
        newer = {"Region": REGION, "Name": "golden-2", "OwnerId": "123456789012", "CreationDate": "2026-11-20T00:00:00.000Z"}
        settings(cloud, amis=[*control.ask(cloud, "settings")["amis"], newer])
    elif part == "scope":
        words = tuple(word for word in words if word != "--without-gpu")
    else:
        from provision.launch import baked

        real, changed = baked.recipe_of, dict[str, Any]({part: "another"})
        monkeypatch.setattr("provision.workflow.up.recipe_of", lambda *a, **k: replace(real(*a, **k), **changed))
    _, _, err = call(*words)
    named = {"roles": "the roles", "engine": "gpuprov", "base": "the base image", "scope": "--without-gpu"}[part]
    assert f"is stale: {named} (" in err


def test_a_failed_image_is_said_and_replaced(cloud: Rehearsal, ec2: Any, call: Call, profile: str) -> None:
    settings(cloud, image_failure="the volume could not be read")
    code, _, err = call(*make(profile))
    assert (code, "error[image-failed]" in err, "the volume could not be read" in err) == (4, True, True)
    settings(cloud, image_failure="")
    code, out, err = call(*make(profile))
    assert code == 0, err
    assert [row["ImageId"] for row in images(ec2)] == [json.loads(out)["image"]["id"]]
    assert left(ec2) == NOTHING


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bake", "make", "no-such-profile"), "profile-not-found"),
        (("bake", "remove", "ami-0123456789abcdef0", "--rehearse", "--yes"), "no image of ours"),
        (("bake", "remove", "bk"), "--yes"),
    ],
)
@pytest.mark.usefixtures("cloud")
def test_wrong_words_are_refused(call: Call, words: tuple[str, ...], said: str) -> None:
    code, _, err = call(*words)
    assert (code, said in err) == (2, True)


@pytest.mark.parametrize(("place", "said"), [("spot", "cannot be stopped"), ("elsewhere", "has no place in")])
@pytest.mark.usefixtures("cloud")
def test_a_place_that_cannot_be_baked_at_is_refused(call: Call, profile: str, *, place: str, said: str) -> None:
    path = Path(profile)
    more: tuple[str, ...] = ("--region", "eu-west-1") if place == "elsewhere" else ()
    if place == "spot":
        path.write_text(path.read_text().replace("baked_image:", "market: spot, baked_image:", 1))
    code, _, err = call(*make(profile, *more))
    assert (code, said in err) == (2, True)


def test_a_cloud_without_images_of_ours_refuses(call: Call, tmp_path: Path) -> None:
    path = Path(written(tmp_path / "bk.yml", "never"))
    aws = f"{{cloud: aws, instance_type: g4dn.xlarge, regions: [{REGION}], baked_image: never}}"
    place = "{cloud: digitalocean, instance_type: gpu-h100x1-80gb, regions: [nyc2]}"
    text = path.read_text().replace(aws, place).replace("model: t4", "model: h100")
    path.write_text(re.sub(r"application_clocks:.*\n.*\n.*\n", "application_clocks: default\n", text))
    code, _, err = call("bake", "plan", str(path))
    assert (code, "bakes no images on" in err) == (2, True), err
