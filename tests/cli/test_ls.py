"""`gpuprov ls`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provision.clouds import base
from provision.clouds.digitalocean.requests import tag as do_tag
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.cli.conftest import Call, aws, gpuprov, launch, rows, written
from tests.clouds.digitalocean.rig import DigitalOceanRig
from tests.clouds.gcp.rig import GcpRig

SUBNET = "subnet-0123456789abcdef0"
HK = "ap-east-1"


def test_not_asked_is_not_none() -> None:
    listed = json.loads(gpuprov("ls", "--json").stdout)
    assert any("no AWS credentials" in problem for problem in listed["problems"])
    assert [gpuprov(*words).returncode for words in (["ls"], ["ls", "--json"], ["cost"], ["cost", "--json"])] == [3, 3, 3, 3]


@pytest.mark.parametrize(("words", "things"), [(("ls",), "instances"), (("sweep", "-n"), "leftovers"), (("bake", "list"), "images")])
def test_what_was_not_asked_is_said_where_the_answer_is_and_is_no_none(
    call: Call, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], things: str
) -> None:
    monkeypatch.setenv("NO_GCE_CHECK", "true")  # no metadata server is looked for
    code, out, _ = call(*words)
    first, *gaps = out.splitlines()
    assert (code, first) == (3, f"whether there are {things} is not known")
    assert "not asked: aws: no AWS credentials were found" in gaps
    assert len(gaps) == len({gap.split(": ")[1] for gap in gaps})  # one line for each cloud


def test_ls_says_zone_market_age_owner_and_what_it_has_cost(call: Call, cloud: Rehearsal) -> None:
    launch(call)
    (row,) = rows(call)
    assert (row["zone"][:-1], row["market"], row["owner"]) == (HK, "on-demand", "gpu-platform@example.com")
    assert row["age_h"] >= 0
    assert row["cost_usd"] == pytest.approx(0.843932 * row["age_h"], abs=0.02)
    control.ask(cloud, "settings", method="PUT", body={"events": {row["id"]: [{"Code": "instance-retirement", "Description": "old"}]}})
    (row,) = rows(call)
    assert any("instance-retirement" in notice for notice in row["notices"])
    code, out, _ = call("ls", "--rehearse")
    assert code == 0
    assert "instance-retirement" in out


@pytest.mark.usefixtures("cloud")
def test_a_machine_is_listed_with_the_tags_of_its_profile(call: Call, tmp_path: Path) -> None:
    path = Path(written(tmp_path, "aws"))
    path.write_text(path.read_text() + "tags: {CostCenter: '4711', Project: Vision}\n")
    launch(call, profile=str(path))
    (row,) = rows(call)
    assert row["tags"] == {"CostCenter": "4711", "Project": "Vision"}
    assert "CostCenter=4711, Project=Vision" in call("ls", "--rehearse", "--wide")[1]


@pytest.mark.usefixtures("cloud")
@pytest.mark.parametrize("way", [{"via": "ssm"}, {"jump": "gpuprov-a", "ssh_from": ["10.77.0.0/16"]}])
def test_a_private_machine_is_listed_with_its_address_and_its_way(call: Call, tmp_path: Path, way: dict[str, Any]) -> None:
    path = written(tmp_path, "aws", address="private", subnet=SUBNET, **way)
    code, _, err = call("up", "--profile", path, "--rehearse", "--name", "x", "--without-gpu")
    assert (code, "error[host-key-unknown]" in err) == (3, True), err  # there are no hosts here, so that none shows its key
    (row,) = json.loads(call("ls", "--rehearse", "--json")[1])["rows"]
    assert row["address"]
    assert row["way"] == ("(private) through gpuprov-a" if "jump" in way else "(private)")  # the embedded cloud has no Session Manager
    code, out, err = call("allow", "x")
    assert code == 0, err
    assert ("port 22 is open to 10.77.0.0/16 and to nobody else" if "jump" in way else "port 22 is open to nobody\n") in out
    code, _, err = call("allow", "x", "--from", "caller")
    assert code == (2 if "jump" in way else 0), err
    assert ("it is the jump host that connects" in err) == ("jump" in way)
    assert call("down", "x", "--yes")[0] == 0


@pytest.mark.parametrize("kind", ["aws", "gcp"])
def test_machines_are_chosen_by_their_tags(call: Call, cloud: Rehearsal, tmp_path: Path, kind: str) -> None:
    control.ask(cloud, "settings", method="PUT", body={"gce_guest_attributes_s": 3600.0})
    path = Path(written(tmp_path, kind))
    text = path.read_text()
    for name, team in (("one", "Vision"), ("two", "Speech")):
        path.write_text(f"{text}tags: {{CostCenter: '42', Team: {team}}}\n")
        call("up", "--profile", str(path), "--rehearse", kind, "--name", name, "--without-gpu")

    def named(*words: str) -> list[str]:
        code, out, err = call("ls", "--rehearse", "--json", *(part for word in words for part in ("--tag", word)))
        assert code == 0, err
        return sorted(row["name"] for row in json.loads(out)["rows"])

    assert named("CostCenter=42") == ["one", "two"]
    assert named("CostCenter=42", "Team=Speech") == ["two"]
    code, _, err = call("ls", "--tag", "Team=Speech", "--tag", "Team=Vision")
    assert (code, "has a key twice" in err) == (2, True), err
    assert named("CostCenter=4") == named("Other=42") == []
    for wrong in ("CostCenter", "=42", "CostCenter="):
        code, _, err = call("ls", "--tag", wrong)
        assert (code, "is not KEY=VALUE" in err) == (2, True), err


def test_an_owner_who_speaks_to_the_terminal_is_shown_without_it(call: Call, cloud: Rehearsal) -> None:
    launch(call)
    (row,) = rows(call)
    aws(cloud).create_tags(Resources=[row["id"]], Tags=[{"Key": "gpuprov:owner", "Value": "ada\x9b2J\u202egro"}])
    for words in (("ls", "--rehearse", "--wide"), ("ls", "--rehearse", "--json"), ("cost", "--rehearse")):
        out = call(*words)[1]
        assert "\x9b" not in out
        assert "\u202e" not in out
        assert "gro" in out


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("tag", "value", "field"),
    [
        ("gpuprov:deadline", "2026-11-27T08:06:24", "deadline"),
        ("gpuprov:deadline", "0001-01-01T00:00:00+23:59", "deadline"),
        ("gpuprov:deadline", "9999-12-31T23:59:59-23:59", "deadline"),
        ("gpuprov:deadline", "soon", "deadline"),
        ("gpuprov:name", "../../../x", "group"),
        ("gpuprov:login", "debian\n  ProxyCommand sh -c 'touch ran'\n# ", "login"),
    ],
)
def test_one_odd_tag_hides_nothing_and_is_named(call: Call, cloud: Rehearsal, tag: str, value: str, field: str) -> None:
    """Whoever may tag machines in the account writes it, with AWS's own API."""
    launch(call)
    launch(call, "y")
    odd = next(row["id"] for row in rows(call) if row["name"] == "x")
    aws(cloud).create_tags(Resources=[odd], Tags=[{"Key": tag, "Value": value}])
    found = {row["id"]: row for row in rows(call)}
    assert len(found) == 2
    assert f"what the cloud says as its {field} is none" in found[odd]["notices"]
    assert found[odd]["deadline"] == ("?" if field == "deadline" else found[odd]["deadline"])
    assert call("cost")[0] != 70
    code, out, err = call("sweep", "--rehearse", "--dry-run", "--all-owners")
    assert code == 0, out + err
    if field == "deadline":
        assert call("extend", "x", "10m")[0] != 70
    assert call("down", "y", "--yes")[0] == 0
    assert [row["id"] for row in rows(call)] == [odd]
    code, _, err = call("down", "x", "--yes")  # the journal knows its id
    assert code == 0, err
    assert rows(call) == []


LOGIN = "debian\n  ProxyCommand sh -c 'touch ran'\n# "
ODD_AT_GOOGLE: list[tuple[dict[str, str] | str, str]] = [
    ({"gpuprov:deadline": "9999-12-31T23:59:59-23:59"}, "deadline"),
    ({"gpuprov:name": "\ud800/../x"}, "group"),
    ({"gpuprov:login": LOGIN}, "login"),
    ({"gpuprov:count": "9" * 5000}, ""),
    ({"gpuprov:owner": "\x1b]0;t\x07\ud800\u202e"}, ""),
    ("[" * 200_000, ""),
]


def shows_both(call: Call, odd: str, field: str) -> None:
    """Every command that looks at all machines shows both, and what is odd."""
    found = {row["id"]: row for row in rows(call)}
    assert len(found) == 2
    named = [notice.split()[-3] for notice in found[odd]["notices"] if notice.startswith("what the cloud says as its")]
    assert named == ([field] if field else [])
    assert (found[odd]["deadline"] == "?") == (field == "deadline")
    code, _, err = call("cost", "--rehearse")
    assert code == 0, err
    code, out, err = call("sweep", "--rehearse", "--dry-run", "--all-owners")
    assert (code, f"({odd}) cannot be read, so nothing of it is swept" in out) == (0, field == "deadline"), err


def test_odd_metadata_hides_no_machine_and_is_named(call: Call, cloud: Rehearsal, tmp_path: Path) -> None:
    """Whoever may set metadata in the project writes it, with Compute Engine's own API; so may root of a host with the compute scope."""
    control.ask(cloud, "settings", method="PUT", body={"gce_guest_attributes_s": 3600.0, "gce_operation_s": 0.1, "gce_running_s": 0.1})
    for name in ("x", "y"):
        call("up", "--profile", written(tmp_path, "gcp"), "--rehearse", "gcp", "--name", name, "--without-gpu")
    odd = next(str(row["id"]) for row in rows(call) if row["name"] == "x")
    rig = GcpRig(cloud)
    (before,) = (raw.metadata.items for _, raw in rig.machines() if raw.name == odd)
    whole = next(item.value for item in before if item.key == "gpuprov-tags")
    for written_tags, field in ODD_AT_GOOGLE:
        rig.write_tags(odd, whole)
        rig.write_tags(odd, written_tags)
        shows_both(call, odd, field)
    assert call("down", "y", "--yes")[0] == 0
    assert [row["id"] for row in rows(call)] == [odd]
    assert call("down", "x", "--yes")[0] == 0
    assert rows(call) == []


def test_odd_tags_of_a_droplet_hide_no_machine_and_are_named(call: Call, cloud: Rehearsal) -> None:
    """Whoever may tag droplets of the team writes them, with DigitalOcean's own API. Of two tags of a key the later word counts."""
    rig = DigitalOceanRig(cloud)
    rig.heal()
    orders = {name: rig.order(name) for name in ("x", "y")}
    odd = {name: rig.cloud().launch(order)[0].id for name, order in orders.items()}["x"]
    launch_id = orders["x"].launch_id
    for key, value, field in ((f"{base.DEADLINE_TAG}:{launch_id}", "soon", "deadline"), ("gpuprov:login", f"z{LOGIN}", "login")):
        name = do_tag(key, value)
        rig.api.call("tags_create", body={"name": name})
        rig.api.call("tags_assign_resources", body={"resources": [{"resource_id": odd, "resource_type": "droplet"}]}, tag=name)
        shows_both(call, odd, field)
        rig.api.call("tags_delete", tag=name)
    assert call("down", "y", "--rehearse", "--yes")[0] == 0
    assert [row["id"] for row in rows(call)] == [odd]
