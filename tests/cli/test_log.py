"""`gpuprov log`: what every command that changes something writes, on the embedded clouds, and what reading it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from provision.cli import log, tables
from provision.clouds import changes
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.workflow import power
from provision.workflow.session import Session
from tests.cli.conftest import Call, launch, rows, written
from tests.cli.test_stop import recorded
from tests.review.desk import Desk

SILENT = {"gce_guest_attributes_s": 3600.0}
SECRET = "hunter2-s3cr3t"


def entries(call: Call, *words: str) -> list[dict[str, Any]]:
    code, out, err = call("log", "--json", *words)
    assert code == 0, (out, err)
    return list(json.loads(out)["entries"])


def log_file() -> Path:
    return Session.open().audit.path


def test_a_launch_and_its_end_are_told_with_the_ids_of_the_clouds_own_trail(call: Call, cloud: Rehearsal) -> None:
    launch(call)
    made = {c["requestId"]: c["action"] for c in control.ask(cloud, "calls") if c["action"] in {"CreateSecurityGroup", "RunInstances"}}
    machine = rows(call)[0]["id"]
    assert call("down", "x", "--yes")[0] == 0
    told = entries(call)
    assert [e["command"] for e in told if e["event"] == "intent"] == ["up", "down"]
    assert {e["rehearsal"] for e in told if e["event"] == "intent"} == {True}
    up, down = (next(e for e in told if e.get("command") == command) for command in ("up", "down"))
    record_digest = up["profile"]
    assert len(record_digest) == len(up["lock"]) == 64
    assert (down["profile"], down["lock"]) == (up["profile"], up["lock"]), "what is removed is what was launched"
    calls = [e for e in told if e["event"] == "call"]
    assert made.items() <= {e["request_id"]: e["call"].removeprefix("ec2:") for e in calls}.items()
    assert {e["call"] for e in calls if e["run"] == down["run"]} >= {"ec2:TerminateInstances", "ec2:DeleteSecurityGroup"}
    assert {e["principal"] for e in calls} == {"arn:aws:sts::123456789012:user/moto"}
    assert not [e for e in calls if e["call"].startswith(("ec2:Describe", "ec2:Get", "sts:", "ssm:"))]
    ends = {e["run"]: e for e in told if e["event"] == "outcome"}
    assert (ends[up["run"]]["exit"], ends[up["run"]]["error"]) == (3, "host-key-unknown")
    assert (ends[down["run"]]["exit"], ends[down["run"]]["agreed"]) == (0, True)
    assert told[0] is up or told[0]["event"] == "intent", "it is written before anything is called"
    assert machine not in str(up)


def test_a_launch_on_the_other_cloud_names_the_operations_and_who_asked(call: Call, cloud: Rehearsal) -> None:
    control.ask(cloud, "settings", method="PUT", body=SILENT)
    assert call("up", "--profile", "t4-train", "--rehearse", "gcp", "--name", "y", "--without-gpu")[0] == 3
    seen = [c for c in control.ask(cloud, "calls") if c.get("operation")]
    told = [e for e in entries(call) if e["event"] == "call"]
    assert {e["operation"] for e in told} == {c["operation"] for c in seen}
    insert = next(e for e in told if e["call"] == "compute.instances.create")
    assert insert["request_id"] == next(c["requestId"] for c in seen if c["action"] == "compute.instances.insert")
    assert insert["principal"] == "rehearsal@gpuprov-rehearsal.iam.gserviceaccount.com"
    assert insert["answer"] == changes.ACCEPTED


def test_a_refused_call_has_the_clouds_code_and_its_id(call: Call, cloud: Rehearsal) -> None:
    fault = {"action": "RunInstances", "kind": "error", "code": "UnauthorizedOperation", "http": 403}
    control.ask(cloud, "faults", method="PUT", body=[fault])
    assert launch(call)[0] == 4
    told = entries(call)
    refused = next(e for e in told if e.get("call") == "ec2:RunInstances")
    assert refused["answer"] == "UnauthorizedOperation"
    assert len(refused["request_id"]) == 36
    assert told[-1]["error"] == "permission-refused"
    assert told[-1]["said"].startswith("UnauthorizedOperation: ")
    _, out, _ = call("explain-error", "permission-refused")
    words = " ".join(out.split())
    assert f"The last time here, {told[-1]['at']}, `gpuprov up x`: {told[-1]['said']}" in words
    assert json.loads(call("explain-error", "permission-refused", "--json")[1])["last"]["command"] == "up x"
    assert json.loads(call("explain-error", "quota-exceeded", "--json")[1])["last"] is None
    fault = {"action": "compute.instances.insert", "kind": "error", "code": "forbidden", "http": 403}
    control.ask(cloud, "faults", method="PUT", body=[fault])
    call("up", "--profile", "t4-train", "--rehearse", "gcp", "--name", "y", "--without-gpu")
    assert next(e for e in entries(call) if e.get("call") == "compute.instances.create")["answer"] == "forbidden"


def test_power_doors_deadline_and_sweep_are_told(call: Call, cloud: Rehearsal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "_KEYS_S", 0.2)
    launch(call)
    assert call("allow", "x", "--from", "192.0.2.0/24")[0] == 0
    assert call("stop", "x", "--yes")[0] == 0
    assert call("extend", "x", "1h")[0] in {0, 2}
    call("start", "x")
    control.ask(cloud, "faults", method="PUT", body=[])
    call("sweep", "--rehearse", "--yes")
    told = entries(call)
    assert [e["command"] for e in told if e["event"] == "intent"] == ["up", "allow", "stop", "extend", "start"], "nothing was left over"
    opened = next(e for e in told if e.get("open_to"))
    assert opened["open_to"] == ["192.0.2.0/24"]
    assert {"ec2:StopInstances", "ec2:StartInstances", "ec2:AuthorizeSecurityGroupIngress"} <= {e.get("call") for e in told}


def nothing_is_changed(call: Call, cloud: Rehearsal, *words: str) -> None:
    control.ask(cloud, "calls", method="DELETE")
    code, _, err = call(*words)
    assert (code, "error[audit-unwritable]" in err, "hint: " in err) == (2, True, True), (words, err)
    calls = [c["action"] for c in control.ask(cloud, "calls")]
    assert [a for a in calls if not a.startswith(("Describe", "Get"))] == [], words


def test_nothing_is_changed_where_the_log_cannot_be_written(call: Call, cloud: Rehearsal, desk: Desk) -> None:
    launch(call)
    Session.open().ssh.add("m", address="127.0.0.1", login="u", keys=("ssh-ed25519 AAAA",))
    log_file().unlink()
    log_file().mkdir()
    for words in (
        ["up", "--profile", "t4-train", "--rehearse", "--name", "z", "--without-gpu"],
        ["stop", "x"],
        ["start", "x"],
        ["extend", "x", "1h"],
        ["allow", "x"],
        ["down", "x", "--yes"],
        ["undo", "nowhere.invalid"],
        ["apply", "nowhere.invalid", "--profile", "t4-train"],
        ["push", "m", "here", "there"],
        ["sign", str(desk.bundle), "--key", str(desk.people.alice), "--as", "alice@example.com"],
    ):
        nothing_is_changed(call, cloud, *words)
    assert Session.open().journal.get("z") is None, "not even an intent to launch"
    assert not list((desk.bundle / "approvals").glob("*")) if desk.bundle.is_dir() else True
    aws_left = rows(call)
    assert [row["state"] for row in aws_left] == ["running"]


@pytest.mark.usefixtures("cloud")
def test_what_changes_nothing_is_not_told(call: Call) -> None:
    launch(call)
    before = log_file().read_bytes()
    call("ls", "--rehearse")
    call("plan", "--profile", "t4-train")
    call("sweep", "--rehearse", "--dry-run")
    call("apply", "nowhere.invalid", "--profile", "t4-train", "--check")
    call("undo", "nowhere.invalid", "--check")
    call("log")
    assert log_file().read_bytes() == before


@pytest.mark.usefixtures("cloud")
def test_no_secret_is_in_any_line(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, desk: Desk) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GPUPROV_TOKEN", "SUDO_COMMAND", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, SECRET)
    key = tmp_path / SECRET
    key.write_bytes(desk.people.alice.read_bytes())
    key.chmod(0o600)
    profile = Path(written(tmp_path, "aws"))
    named = profile.with_name(f"{SECRET}.yml")
    profile.rename(named)
    assert call("up", "--profile", str(named), "--rehearse", "--name", "x", "--without-gpu")[0] == 3
    Session.open().ssh.add("m", address="127.0.0.1", login="u", keys=("ssh-ed25519 AAAA",))
    (tmp_path / f"{SECRET}.txt").write_text(SECRET)
    call("push", "m", str(tmp_path / f"{SECRET}.txt"), f"/{SECRET}")
    assert call("sign", str(desk.bundle), "--key", str(key), "--as", "alice@example.com", "--pages-differ")[0] == 0
    call("sign", str(desk.bundle), "--key", f"/nowhere/{SECRET}", "--as", "alice@example.com")
    call("apply", "nowhere.invalid", "--profile", str(named))
    told = log_file().read_text()
    assert [e["command"] for e in map(json.loads, told.splitlines()) if e["event"] == "intent"] == ["up", "push", "sign", "sign", "apply"]
    assert SECRET not in told
    user_data = Session.open().ssh.public_key().split()[1]
    assert user_data not in told, "the user data has the public key, and nothing of the user data is told"


@pytest.mark.usefixtures("cloud")
def test_an_approval_is_told_with_the_launch_that_ran_on_it(call: Call, desk: Desk) -> None:
    signed = str(desk.bundle)
    for who, key in (("alice", desk.people.alice), ("bob", desk.people.bob)):
        assert call("sign", signed, "--key", str(key), "--as", f"{who}@example.com", "--pages-differ")[0] == 0
    call("up", "--bundle", signed, "--signers", str(desk.people.signers), "--rehearse", "--name", "x", "--without-gpu")
    told = entries(call)
    up = next(e for e in told if e.get("command") == "up")
    assert up["approvals"] == [{"name": f"{who}@example.com", "signature": "valid"} for who in ("alice", "bob")]
    assert up["statement"] == next(e for e in told if e.get("command") == "sign")["statement"]
    out = call("log", "--name", "x")[1]
    assert "alice@example.com, bob@example.com" in out
    assert log._approval({"approvals": [{"name": "a", "signature": "holds"}, {"name": "b", "signature": "lapsed"}]}) == "a, b (lapsed)", (
        "a line of an earlier release"
    )
    assert "sign" not in out.split("\n")[1]


@pytest.mark.usefixtures("cloud")
def test_a_row_of_the_log_is_not_broken_on_80_columns(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    launch(call, "one")
    monkeypatch.setattr(tables, "width_of", lambda _: 80)
    lines = call("log")[1].splitlines()[:-1]
    assert max(map(len, lines)) <= 80
    at = lines[0].index("OUTCOME")
    ended = next(line for line in lines if " ended " in line)
    assert (ended.startswith("20"), bool(ended[at:].strip())) == (True, True)  # the time and the outcome are in one line


@pytest.mark.usefixtures("cloud")
def test_lines_are_chosen_by_name_and_time_and_the_chain_is_checked_whole(call: Call) -> None:
    assert call("log")[1].startswith("nothing\n0 lines in ")
    launch(call, "one")
    launch(call, "two")
    assert {e["name"] for e in entries(call, "--name", "two") if e["event"] == "intent"} == {"two"}
    assert {e["event"] for e in entries(call, "--name", "two")} == {"intent", "call", "outcome"}
    assert entries(call, "--since", "1h") == entries(call)
    assert entries(call, "--since", "2999-01-01") == []
    assert call("log", "--since", "soon")[0] == 2
    raw = log_file().read_text()
    log_file().write_text(raw.replace('"name":"one"', '"name":"own"', 1))
    code, _, err = call("log", "--name", "two")
    assert (code, "line 2 does not fit" in err) == (1, True), err
    assert json.loads(call("log", "--json")[1])["line"] == 2
    log_file().write_text(raw)


@pytest.mark.usefixtures("cloud")
def test_what_was_cut_off_at_the_end_is_seen_by_the_head_that_was_kept(call: Call) -> None:
    launch(call)
    head = json.loads(call("log", "--json")[1])["head"]
    assert call("log")[1].rstrip().endswith(f"head sha256:{head}")
    assert call("log", "--head", f"sha256:{head}")[0] == 0
    launch(call, "later")
    assert call("log", "--head", head)[0] == 0, "a head that others follow"
    lines = log_file().read_bytes().splitlines(keepends=True)
    log_file().write_bytes(b"".join(lines[:2]))
    assert call("log")[0] == 0, "the file alone cannot tell"
    code, _, err = call("log", "--head", head)
    assert (code, "cut off" in err) == (1, True), err


def test_a_client_that_is_killed_leaves_its_intent(call: Call, own_home: Path) -> None:
    recorded(rehearsal=True)
    script = (
        "import os, signal\n"
        "from provision.launch.audit import AuditLog, Undertaking\n"
        "from pathlib import Path\n"
        f"with AuditLog(Path({str(own_home / 'audit.jsonl')!r})).undertaken(Undertaking('up', 'x')):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=False)
    assert [(e["event"], e["name"]) for e in entries(call)] == [("intent", "x")]


def test_who_asks_needs_no_permission_and_a_launch_does_not_need_to_know(call: Call, cloud: Rehearsal) -> None:
    deny = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "sts:*", "Resource": "*"}]}
    control.ask(cloud, "settings", method="PUT", body={"guardrail": deny})
    launch(call)
    assert {e.get("principal") for e in entries(call) if e["event"] == "call"} == {"arn:aws:sts::123456789012:user/moto"}


def test_a_launch_goes_on_where_nobody_says_who_asks(call: Call, cloud: Rehearsal) -> None:
    control.ask(
        cloud, "faults", method="PUT", body=[{"action": "GetCallerIdentity", "kind": "error", "code": "InternalError", "http": 500}]
    )
    assert launch(call)[0] == 3
    calls = [e for e in entries(call) if e["event"] == "call"]
    assert "ec2:RunInstances" in {e["call"] for e in calls}
    assert not any("principal" in e for e in calls)
    assert [c["action"] for c in control.ask(cloud, "calls")].count("GetCallerIdentity") == 1, "it is asked for once"
