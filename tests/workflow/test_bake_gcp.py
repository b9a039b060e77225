"""`gpuprov bake` against the embedded GCP without hosts: killed at every change, with one permission less, and what is current."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.cloud import GcpCloud
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests import sample
from tests.cli.conftest import Call, call
from tests.workflow.killed import Killable
from tests.workflow.test_bake import cloud, settings, written

pytestmark = pytest.mark.matrix

__all__ = ["call", "cloud"]

PLACE = "{cloud: gcp, instance_type: n1-standard-8, gpu: t4, zones: [asia-east2-a], baked_image: USE}"


def on_gcp(path: Path, use: str = "if-current", *, root_gb: int = 200) -> str:
    written(path, "USE", root_gb=root_gb)
    text = path.read_text()
    begin, end = text.index("{cloud: aws"), text.index("}", text.index("{cloud: aws")) + 1
    path.write_text(text[:begin] + PLACE.replace("USE", use) + text[end:])
    return str(path)


def make(profile: str) -> tuple[str, ...]:
    return ("bake", "make", profile, "--rehearse", "gcp", "--without-gpu", "--json")


def made(rehearsal: Rehearsal) -> list[dict[str, Any]]:
    """The images of the project."""
    return list(control.ask(rehearsal, "settings")["gce_made_images"])


def test_the_image_is_of_the_boot_disk_and_found_by_its_label(cloud: Rehearsal, call: Call, tmp_path: Path) -> None:
    code, out, err = call(*make(on_gcp(tmp_path / "bk.yml")))
    assert code == 0, err
    (image,) = made(cloud)
    data = json.loads(out)["image"]
    assert (image["name"], image["labels"]["gpuprov-baked"], image["status"]) == (f"gpuprov-bk-{data['digest']}", "bk", "READY")
    assert image["sourceDisk"].endswith("/zones/asia-east2-a/disks/gpuprov-bake-bk")
    assert "gpuprov-launch" not in image["labels"]
    again = json.loads(call(*make(on_gcp(tmp_path / "bk.yml")))[1])
    assert (again["made"], len(made(cloud))) == (False, 1)


def test_a_launch_starts_from_it_while_it_is_current(cloud: Rehearsal, call: Call, tmp_path: Path) -> None:
    path = tmp_path / "bk.yml"
    image = json.loads(call(*make(on_gcp(path)))[1])["image"]
    words = ("--name", "one", "--rehearse", "gcp", "--without-gpu")
    code, _, err = call("up", on_gcp(path), *words)
    assert (code, f"starting from {image['id']}, baked on" in err) == (0, True), err
    assert call("down", "one", "--yes")[0] == 0
    code, _, err = call("up", on_gcp(path, "required", root_gb=201), *words)
    assert (code, "is stale: the lock (" in err, "error[image-not-found]" in err) == (4, True, True), err
    assert len(made(cloud)) == 1


@pytest.mark.matrix
@pytest.mark.parametrize("when", ["before", "after"])
def test_kill_9_at_every_change(cloud: Rehearsal, call: Call, tmp_path: Path, killable: Killable, *, when: str) -> None:
    profile, google = on_gcp(tmp_path / "bk.yml"), GcpCloud("asia-east2", GcpAccess(**cloud.settings("gcp")))
    number, more = 0, True
    while more:
        number = sample.after(number)
        more = killable.run(number, when, *make(profile), stand_ins="bake_stand_ins").killed
        seen = {image["name"] for image in made(cloud)}
        code, out, err = call(*make(profile))
        assert code == 0, (number, err)
        name = json.loads(out)["image"]["name"]
        assert seen <= {name}
        assert [(image["name"], image["status"]) for image in made(cloud)] == [(name, "READY")], number
        assert [str(thing) for thing in google.things()] == [], number
        assert call("bake", "remove", "bk", "--rehearse", "--yes")[0] == 0
        assert made(cloud) == [], number
    assert number > 5


@pytest.mark.matrix(of=9)
@pytest.mark.parametrize(
    "action",
    [
        "compute.disks.useReadOnly",
        "compute.globalOperations.get",
        "compute.images.create",
        "compute.images.delete",
        "compute.images.deprecate",
        "compute.images.list",
        "compute.images.setLabels",
        "compute.instances.stop",
    ],
)
def test_the_computed_permissions_are_enough_and_none_can_be_left_out(cloud: Rehearsal, call: Call, tmp_path: Path, *, action: str) -> None:
    """Two images, of which the second replaces the first, which is taken into use again; then both are removed."""
    path = tmp_path / "bk.yml"
    whole = json.loads(call("bake", "plan", on_gcp(path), "--json")[1])["actions"]["gcp"]
    assert action in whole

    def life() -> list[tuple[int, str]]:
        ended = [call(*make(on_gcp(path, root_gb=root_gb))) for root_gb in (200, 201, 200)]
        return [(code, err) for code, _, err in (*ended, call("bake", "remove", "bk", "--rehearse", "--yes"))]

    settings(cloud, gce_allowed=whole)
    assert [code for code, _ in life()] == [0, 0, 0, 0]
    assert made(cloud) == []
    settings(cloud, gce_allowed=[each for each in whole if each != action])
    refused = [err for code, err in life() if code]
    assert refused
    assert action in refused[0]


def test_an_older_image_is_deprecated_and_not_taken(cloud: Rehearsal, call: Call, tmp_path: Path) -> None:
    path = tmp_path / "bk.yml"
    first = json.loads(call(*make(on_gcp(path)))[1])["image"]["id"]
    assert json.loads(call(*make(on_gcp(path, root_gb=201)))[1])["deprecated"] == [first]
    assert {row["name"]: row.get("deprecated", {}).get("state") for row in made(cloud)}[first] == "DEPRECATED"
    _, _, err = call("up", on_gcp(path), "--name", "one", "--rehearse", "gcp", "--without-gpu")
    assert f"({first} is deprecated): starting from the base image" in err
