"""`gpuprov stop`."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from provision import clouds, paths
from provision.errors import CredentialsMissingError
from provision.host.sshconfig import SshHome
from provision.launch.journal import Machine, Pending, Record
from provision.profile import load
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.structs import replace
from provision.workflow import power
from provision.workflow.session import Session
from tests.cli.conftest import Call, launch, rows


@pytest.mark.usefixtures("cloud")
def test_stop_keeps_the_machine(call: Call) -> None:
    launch(call)
    code, out, err = call("stop", "x", "--yes", "--json")
    assert code == 0, err
    assert json.loads(out)["stopped"] == [rows(call)[0]["id"]]
    assert rows(call)[0]["state"] == "stopped"


def written(folder: Path, cloud: str, data: dict[str, Any] | None) -> str:
    """t4-train at one cloud with another data disk, as a file."""
    said = yaml.safe_load((paths.profiles_dir() / "t4-train.yml").read_text())
    said["places"] = [place for place in said["places"] if place["cloud"] == cloud]
    said["disks"] = {**said["disks"], "data": data} if data else {"root": said["disks"]["root"]}
    path = folder / "p.yml"
    path.write_text(yaml.safe_dump(said))
    return str(path)


def answers(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """An ssh of our own on the PATH, and a host x that it reaches."""
    Session.open().ssh.add("x", address="192.0.2.7", login="ubuntu", keys=("ssh-ed25519 AAAA",))
    (folder / "bin").mkdir()
    ssh = folder / "bin" / "ssh"
    ssh.write_text(f"#!/bin/sh\n{script}\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    "case",
    [
        ('for word; do last=$word; done\ncase $last in *"--mountpoint /data") echo 12345678901;; esac', "12.3 GB used"),
        ("exit 255", "unknown how much is on it"),
        ("echo nothing that is a number", "unknown how much is on it"),
        ("printf '%0500d' 0 | tr 0 9", "unknown how much is on it"),
    ],
    ids=["reached", "unreachable", "odd", "large"],
)
def test_a_disk_is_emptied_only_by_somebody_who_was_told_what_is_on_it(
    call: Call, cloud: Rehearsal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[str, str]
) -> None:
    script, used = case
    launch(call)
    answers(tmp_path, monkeypatch, script)
    control.ask(cloud, "calls", method="DELETE")
    code, out, err = call("stop", "x", "--json")
    assert code == 2, err
    error = json.loads(out)["error"]
    assert error["code"] == "usage"
    assert error["message"] == f"`gpuprov stop x` empties what is inside machines: x: /data, instance storage, {used}"
    assert "`gpuprov stop x --yes`" in error["hint"]
    assert "StopInstances" not in [row["action"] for row in control.ask(cloud, "calls")]
    code, out, err = call("stop", "x", "--yes", "--json")
    assert code == 0, err
    gb = 12.3 if used.startswith("12") else None
    assert json.loads(out)["emptied"] == [{"machine": "x", "mount": "/data", "used_gb": gb}]
    code, out, err = call("stop", "x", "--json")
    assert (code, json.loads(out)["emptied"]) == (0, []), "it is off, and nothing is on it"


@pytest.mark.usefixtures("cloud")
def test_whoever_is_asked_on_a_terminal_may_say_no(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    launch(call)
    terminal = io.StringIO("n\ny\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin", terminal)
    code, out, err = call("stop", "x")
    assert (code, out) == (0, "nothing was stopped\n"), err
    assert "  x: /data, instance storage, unknown how much is on it\n" in err
    assert rows(call)[0]["state"] == "running"
    assert call("stop", "x")[0] == 0
    assert rows(call)[0]["state"] == "stopped"


@pytest.mark.parametrize(
    "case",
    [
        ("gcp", {"source": "instance-store", "mount": "/data"}, "x: /data, instance storage, unknown how much is on it"),
        ("gcp", {"source": "volume", "mount": "/data", "size_gb": 100}, ""),
        ("aws", {"source": "volume", "mount": "/data", "size_gb": 100}, "x: disks inside the machine, instance storage"),
        ("aws", None, "x: disks inside the machine, instance storage"),
    ],
)
def test_it_asks_where_the_profile_or_the_type_has_disks_inside_the_machine(
    call: Call, cloud: Rehearsal, tmp_path: Path, case: tuple[str, dict[str, Any] | None, str]
) -> None:
    where, data, said = case
    control.ask(cloud, "settings", method="PUT", body={"gce_guest_attributes_s": 3600.0})
    profile = written(tmp_path, where, data)
    call("up", "--profile", profile, "--rehearse", where, "--name", "x", "--without-gpu")
    code, _, err = call("stop", "x")
    assert (code, said in err) == (2 if said else 0, True), err


def recorded(*, rehearsal: bool = False, confirmed: bool = True) -> Record:
    """A launch of t4-train as x, which this machine's journal knows."""
    profile = load.load(load.find("t4-train"))
    now = dt.datetime.now(dt.UTC).isoformat()
    attempt = Pending(0, "ap-southeast-1", "", 1, 1, 1)
    record = Record("x", "0" * 32, rehearsal, profile.dump(), load.digest(profile), now, "2026-11-22T08:00:00+00:00")
    machine = Machine("x", "i-1", "aws", "ap-southeast-1")
    more: dict[str, Any] = {"machines": (machine,), "had": (attempt,)} if confirmed else {"pending": attempt}
    record = replace(record, touched=(("aws", "ap-southeast-1"),), **more)
    Session.open().journal.put(record)
    return record


@pytest.mark.usefixtures("cloud")
def test_an_unknown_name_is_answered_from_the_journal_before_any_region_is_asked(call: Call) -> None:
    recorded(rehearsal=True)
    for words in (["stop", "nosuch"], ["start", "nosuch"], ["extend", "nosuch", "1h"]):
        code, out, err = call(*words, "--rehearse")
        assert (code, out) == (2, "")
        first, second, *_ = err.splitlines()
        assert "nosuch was not launched from here (what was: x): asking " in first
        assert first.endswith(" regions (aws, digitalocean, gcp)")
        assert second.endswith("looking for nosuch")
        assert "error[instance-not-found]: no instance called 'nosuch' was found" in err


def test_without_credentials_one_region_of_each_cloud_is_asked(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refuse(cloud: str) -> None:
        asked.append(cloud)
        msg = f"no credentials for {cloud}"
        raise CredentialsMissingError(msg, hint="log in")

    def connect(cloud: str, region: str, _: object) -> SimpleNamespace:
        return SimpleNamespace(region=region, spans="region", find=lambda *_: refuse(cloud))

    monkeypatch.setattr(clouds, "connect", connect)
    code, _, err = call("stop", "nosuch")
    assert (code, sorted(asked)) == (4, ["aws", "digitalocean", "gcp"])
    said = "nosuch was not launched from here (nothing was)"
    assert f"error[credentials-missing]: no credentials for aws; {said}\n" in err
    assert err.index(said) < err.index("error[")


def test_a_misspelt_name_gets_the_nearest_one(call: Call) -> None:
    Session.open().journal.put(replace(recorded(), name="t4-train", machines=()))
    for command in ("ssh", "verify", "apply"):
        code, _, err = call(command, "t4-trian")
        assert (code, "no instance called 't4-trian' was launched from here; did you mean 't4-train'?" in err) == (2, True), err


def test_a_misspelt_name_that_ssh_cannot_reach_gets_the_nearest_one_as_well(call: Call) -> None:
    SshHome(Session.open().state / "ssh").add("t4-train", address="10.0.0.7", login="ubuntu", keys=())
    asked = "; did you mean t4-train?"
    code, out, _ = call("monitor", "t4-trian.invalid", "t4-trian", "--once")
    assert (code, out.count(asked)) == (3, 1), out
    code, _, err = call("verify", "t4-trian", "--profile", "t4-train")
    assert (code, f"{asked}\nhint: " in err) == (3, True), err


@pytest.mark.usefixtures("cloud")
def test_a_misspelt_name_gets_the_nearest_one_where_the_clouds_have_nothing_of_it(call: Call) -> None:
    Session.open().journal.put(replace(recorded(), name="t4-train", machines=()))
    words = "it was not launched from here; did you mean 't4-train'?"
    code, _, err = call("down", "t4-trian", "--yes", "--rehearse")
    assert (code, f"error[instance-not-found]: nothing called 't4-trian' was found; {words}" in err) == (2, True), err
    code, _, err = call("stop", "t4-trian", "--rehearse")
    assert (code, f"error[instance-not-found]: no instance called 't4-trian' was found; {words}" in err) == (2, True), err


@pytest.mark.parametrize(
    ("launched", "said"),
    [
        ({}, "hint: x may still run in ap-southeast-1 at 0.767 USD an hour, until 2026-11-22T08:00:00+00:00; `gpuprov down x` removes it"),
        ({"confirmed": False}, "hint: x may still run in ap-southeast-1 at 0.767 USD an hour"),
        ({"rehearsal": True}, "hint: x may still run in ap-southeast-1 at no cost, in the embedded cloud"),
    ],
)
def test_after_ctrl_c_the_hint_names_what_may_still_run_and_its_price(
    call: Call, monkeypatch: pytest.MonkeyPatch, launched: dict[str, bool], said: str
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    recorded(**launched)
    monkeypatch.setattr(power, "stop", interrupt)
    code, out, err = call("stop", "x")
    assert (code, out) == (130, "")
    assert err.startswith("error[interrupted]: interrupted\n")
    assert said in err
    code, out, err = call("stop", "x", "--json")
    assert json.loads(out)["error"]["code"] == "interrupted"
    code, _, err = call("stop", "y")
    assert (code, "hint: `gpuprov ls` shows what exists" in err) == (130, True)


def test_a_machine_that_costs_the_same_when_it_is_off_is_stopped_only_on_request(
    call: Call, cloud: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch(call)
    monkeypatch.setattr(clouds.provider("aws"), "stopped_costs", "EC2 bills on")
    control.ask(cloud, "calls", method="DELETE")
    code, _, err = call("stop", "x")
    assert code == 2
    assert "error[usage]: stopping x saves nothing: EC2 bills on" in err
    assert "`gpuprov down x` ends the cost; `gpuprov stop x --at-full-price` stops it anyway" in err
    assert "StopInstances" not in [row["action"] for row in control.ask(cloud, "calls")]
    assert rows(call)[0]["state"] == "running"
    assert call("stop", "x", "--at-full-price", "--yes")[0] == 0
    assert rows(call)[0]["state"] == "stopped"
