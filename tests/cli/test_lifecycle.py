"""`ls`, `down`, `stop`, `start`, `extend`, `allow`, `sweep`, `push` and `pull` through the command line, against the API without hosts."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from provision.clouds.aws.client import AwsAccess, client
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.workflow import up as workflow

Call = Callable[..., tuple[int, str, str]]
HK = "ap-east-1"


@pytest.fixture
def cloud(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rehearsal]:
    """What `--rehearse` finds running; its machines never show a host key, so that `up` gives up at once."""
    monkeypatch.setattr(workflow, "CONSOLE_S", 0.2)
    yield control.start(own_home / "rehearsal", hosts=False)
    control.stop(own_home / "rehearsal")


def aws(cloud: Rehearsal, region: str = HK) -> Any:
    return client("ec2", region, AwsAccess(**cloud.settings("aws")))


def up(call: Call, name: str = "x", *more: str) -> tuple[int, str, str]:
    return call("up", "--profile", "t4-train", "--rehearse", "--name", name, "--without-gpu", *more)


def rows(call: Call) -> list[dict[str, Any]]:
    return list(json.loads(call("ls", "--rehearse", "--json")[1])["rows"])


def test_down_shows_what_it_would_remove_and_asks(call: Call, cloud: Rehearsal, monkeypatch: pytest.MonkeyPatch) -> None:
    up(call)
    code, out, err = call("down", "x")
    assert (code, out) == (2, "")
    assert "--yes" in err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: "n")
    code, out, err = call("down", "x")
    assert (code, out) == (0, "nothing was removed\n")
    assert "security-group sg-" in err
    assert [r["name"] for r in rows(call)] == ["x"]
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: "y")
    code, out, _ = call("down", "x")
    assert code == 0
    assert "removed instance i-" in out
    assert rows(call) == []
    assert aws(cloud).describe_security_groups(Filters=[{"Name": "tag-key", "Values": ["gpuprov:name"]}])["SecurityGroups"] == []


def test_ls_says_zone_market_age_owner_and_what_it_has_cost(call: Call, cloud: Rehearsal) -> None:
    up(call)
    (row,) = rows(call)
    assert (row["zone"][:-1], row["market"], row["owner"]) == (HK, "on-demand", "gpu-platform@example.com")
    assert row["age_h"] >= 0
    assert row["cost_usd"] is None  # no price of Hong Kong is in the catalogue
    control.ask(cloud, "settings", method="PUT", body={"events": {row["id"]: [{"Code": "instance-retirement", "Description": "old"}]}})
    (row,) = rows(call)
    assert any("instance-retirement" in notice for notice in row["notices"])
    code, out, _ = call("ls", "--rehearse")
    assert code == 0
    assert "instance-retirement" in out


@pytest.mark.usefixtures("cloud")
def test_stop_keeps_the_machine(call: Call) -> None:
    up(call)
    code, out, err = call("stop", "x", "--json")
    assert code == 0, err
    assert json.loads(out)["stopped"] == [rows(call)[0]["id"]]
    assert rows(call)[0]["state"] == "stopped"


@pytest.mark.usefixtures("cloud")
def test_a_deadline_is_moved_within_what_the_profile_allows(call: Call) -> None:
    up(call)
    before = rows(call)[0]["deadline"]
    code, _, err = call("extend", "x", "3h")
    assert (code, "12 h ahead at most" in err) == (2, True), err
    assert rows(call)[0]["deadline"] == before
    code, _, err = call("extend", "x", "0h")
    assert code == 2


def test_port_22_is_opened_to_exactly_what_is_said(call: Call, cloud: Rehearsal) -> None:
    up(call)

    def opened() -> list[str]:
        groups = aws(cloud).describe_security_groups(Filters=[{"Name": "tag-key", "Values": ["gpuprov:name"]}])["SecurityGroups"]
        return [r["CidrIp"] for g in groups for p in g["IpPermissions"] for r in p["IpRanges"]]

    assert opened() == ["127.0.0.1/32"]
    assert call("allow", "x", "--from", "192.0.2.0/24")[0] == 0
    assert opened() == ["192.0.2.0/24"]
    code, _, err = call("allow", "x", "--from", "0.0.0.0/0")
    assert (code, "error[usage]" in err) == (2, True), err
    assert call("allow", "x")[0] == 0
    assert opened() == ["127.0.0.1/32"]


def test_sweep_removes_what_has_no_machine_and_never_touches_what_is_of_others(call: Call, cloud: Rehearsal) -> None:
    up(call, "left")
    up(call, "kept")
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
    assert call("sweep", "--rehearse", "--yes")[1] == "nothing is left over\n"
    assert [r["name"] for r in rows(call)] == ["kept"]
    code, out, _ = call("sweep", "--rehearse", "--yes", "--all-owners", "--json")
    assert [item["id"] for item in json.loads(out)["left"]] == [theirs]
    assert aws(cloud).describe_security_groups(GroupIds=[foreign])["SecurityGroups"]


def test_attempts_are_a_table_on_failure_and_data_where_data_is_asked_for(call: Call, cloud: Rehearsal) -> None:
    none = {"kind": "error", "action": "RunInstances", "code": "InsufficientInstanceCapacity", "http": 500}
    control.ask(cloud, "faults", method="PUT", body=[none])
    code, out, err = up(call)
    assert (code, out) == (4, "")
    assert "OUTCOME" in err
    assert err.count("no-capacity") >= 8
    assert "attempts.jsonl" in err
    code, out, _ = up(call, "y", "--json")
    said = json.loads(out)
    assert said["error"]["code"] == "no-capacity"
    assert {a["outcome"] for a in said["attempts"]} == {"no-capacity"}


@pytest.mark.usefixtures("cloud")
def test_a_count_and_its_minimum_and_a_cloud_without_a_place(call: Call, tmp_path: Path) -> None:
    code, _, err = up(call, "x", "--count", "2", "--min", "3")
    assert (code, "--min 3 is more than --count 2" in err) == (2, True), err
    up(call, "x", "--count", "2")
    assert [r["name"] for r in rows(call)] == ["x-1", "x-2"]
    only_aws = tmp_path / "p.yml"
    text = Path("profiles/t4-train.yml").read_text()
    only_aws.write_text(text[: text.index("  - cloud: gcp")] + text[text.index("os:\n  name") :])
    code, _, err = call("up", "-p", str(only_aws), "--rehearse", "gcp", "--name", "z")
    assert (code, "has no place on gcp" in err) == (2, True), err


def test_copying_needs_a_machine_of_ours_and_rsync(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = call("push", "nowhere", "a", "b")
    assert (code, "error[instance-not-found]" in err) == (2, True), err
    from provision.workflow.session import Session

    Session.open().ssh.add("m", address="127.0.0.1", login="u", keys=("ssh-ed25519 AAAA",))
    assert call("pull", "m", "a")[0] == 2
    monkeypatch.setattr(shutil, "which", lambda _: None)
    code, _, err = call("pull", "m", "a", "b")
    assert (code, "rsync is not installed" in err) == (2, True), err
