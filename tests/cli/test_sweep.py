"""`gpuprov sweep`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from provision import clouds
from provision.clouds.base import Thing, has_tags
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.workflow.session import Session
from tests.cli.conftest import Call, aws, launch, rows, written


def test_sweep_removes_what_has_no_machine_and_never_touches_what_is_of_others(call: Call, cloud: Rehearsal) -> None:
    launch(call, "left")
    launch(call, "kept")
    left = next(r for r in rows(call) if r["name"] == "left")
    aws(cloud).terminate_instances(InstanceIds=[left["id"]])
    tags = [{"Key": k, "Value": v} for k, v in {"gpuprov:name": "theirs", "gpuprov:owner": "a@b.example", "gpuprov:launch": "1"}.items()]
    theirs = aws(cloud).create_security_group(
        GroupName="theirs", Description="x", TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}]
    )["GroupId"]
    foreign = aws(cloud).create_security_group(GroupName="gpuprov-looks-like-ours", Description="x")["GroupId"]
    assert call("sweep", "--rehearse")[0] == 2  # nobody can answer
    code, out, _ = call("sweep", "--rehearse", "--dry-run", "--json")
    found = json.loads(out)
    assert code == 0
    assert {item["group"] for item in found["left"]} == {"left"}
    assert found["removed"] == []
    assert theirs not in out
    code, out, _ = call("sweep", "--rehearse", "--yes")
    assert code == 0
    assert "removed security-group" in out
    assert foreign not in out
    assert call("sweep", "--rehearse", "--yes")[1] == "no leftovers\n"
    assert [r["name"] for r in rows(call)] == ["kept"]
    code, out, _ = call("sweep", "--rehearse", "--yes", "--all-owners", "--json")
    assert [item["id"] for item in json.loads(out)["left"]] == [theirs]
    assert aws(cloud).describe_security_groups(GroupIds=[foreign])["SecurityGroups"]


@pytest.mark.parametrize("kind", ["aws", "gcp"])
def test_sweep_removes_only_what_has_the_tags(call: Call, cloud: Rehearsal, tmp_path: Path, kind: str) -> None:
    control.ask(cloud, "settings", method="PUT", body={"gce_guest_attributes_s": 3600.0})
    path = Path(written(tmp_path, kind))
    text = path.read_text()
    for name, team in (("one", "Vision"), ("two", "Speech")):
        path.write_text(f"{text}tags: {{Team: {team}}}\n")
        call("up", "--profile", str(path), "--rehearse", kind, "--name", name, "--without-gpu")
        Session.open().journal.drop(name)  # the tags are found at the cloud, not in memory
    end = {"aws": clouds.connect("aws", "ap-southeast-1", clouds.access_from("aws", cloud.settings("aws")))}
    end["gcp"] = clouds.connect("gcp", "asia-east1", clouds.access_from("gcp", cloud.settings("gcp")))
    for item in (thing for thing in end[kind].things() if thing.kind == "instance" and kind == "aws"):
        aws(cloud, "ap-southeast-1").terminate_instances(InstanceIds=[item.id])
    if kind == "gcp":  # what is left of a launch on GCP whose machine is gone is a rule, which has no labels
        end[kind].remove([thing for thing in end[kind].things() if thing.kind == "instance"], on_step=lambda _: None)
    code, out, err = call("sweep", "--rehearse", "--yes", "--all-owners", "--tag", "Team=Speech", "--json")
    assert code == 0, err
    told = json.loads(out)
    if kind == "aws":
        assert {item["group"] for item in told["left"]} == {"two"}
        assert told["removed"]
        assert {thing.group for thing in end[kind].things() if thing.alive} == {"one"}
    else:
        assert told["left"] == told["removed"] == [], "unknown is never a match"
        assert any("nothing shows which tags its launch had" in problem for problem in told["problems"])
        assert {thing.group for thing in end[kind].things()} == {"one", "two"}


def test_a_disk_shows_its_tags_in_the_form_of_labels() -> None:
    disk = Thing.tagged("disk", "d", "asia-east1-a", {"costcenter": "cost-42", "gpuprov:name": "x"})
    assert disk.tags == (("costcenter", "cost-42"),)
    assert has_tags(dict(disk.tags), {"CostCenter": "Cost 42"})
    assert not has_tags(dict(disk.tags), {"CostCenter": "Cost 4"})


def test_where_a_region_did_not_answer_the_end_is_unknown(call: Call, cloud: Rehearsal) -> None:
    launch(call)
    rule = {"action": "DescribeSecurityGroups", "kind": "error", "code": "UnauthorizedOperation", "http": 403}
    control.ask(cloud, "faults", method="PUT", body=[rule])
    code, out, _ = call("sweep", "--rehearse", "--dry-run")
    assert (code, out.splitlines()[0]) == (3, "whether there are leftovers is not known")
    assert out.splitlines()[1].startswith("not asked: ap-east-1: AWS refuses ec2:DescribeSecurityGroups")
    code, out, _ = call("sweep", "--rehearse", "--dry-run", "--json")
    assert (code, json.loads(out)["left"]) == (3, [])
    control.ask(cloud, "faults", method="PUT", body=[])
    assert call("sweep", "--rehearse", "--dry-run")[:2] == (0, "no leftovers\n")
