"""`gpuprov up` when the cloud says no: one clear error, the right exit code, nothing orphaned.

Against the EC2 API without hosts, so that an instance never shows a host key: the host that never answers.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from provision.cli.up import what_is_there
from provision.profile import load, lockfile
from provision.profile.model import Profile
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.verify.finding import Finding, Outcome, Report
from provision.workflow import setup, up
from provision.workflow.session import Session
from provision.workflow.setup import SetupResult
from tests.cli.conftest import Call, gpuprov, launch, rows, written


def test_a_host_that_never_answers_is_said_kept_listed_and_removed(call: Call, cloud: Rehearsal) -> None:
    code, _, err = launch(call)
    assert (code, "error[host-key-unknown]" in err) == (3, True), err
    assert [r["name"] for r in rows(call)] == ["x"]
    code, out, err = call("down", "x", "--yes")
    assert code == 0, err
    assert "removed instance" in out
    assert rows(call) == []
    assert [c["action"] for c in control.ask(cloud, "calls")].count("RunInstances") == 1


@pytest.mark.parametrize(
    ("rule", "code", "exit_code"),
    [
        ({"action": "RunInstances", "code": "UnauthorizedOperation"}, "permission-refused", 4),
        ({"action": "DescribeInstances", "code": "RequestExpired"}, "credentials-expired", 4),
        ({"action": "DescribeInstances", "code": "AuthFailure", "http": 401}, "credentials-missing", 4),
        ({"action": "RunInstances", "code": "InvalidAMIID.NotFound"}, "image-not-found", 4),
        ({"action": "RunInstances", "code": "InsufficientInstanceCapacity", "http": 500}, "no-capacity", 4),
        ({"action": "RunInstances", "code": "VcpuLimitExceeded"}, "quota-exceeded", 4),
    ],
)
def test_a_refusal_of_the_cloud_is_one_error_and_leaves_nothing(
    call: Call, cloud: Rehearsal, rule: dict[str, Any], code: str, exit_code: int
) -> None:
    control.ask(cloud, "faults", method="PUT", body=[{"kind": "error", **rule}])
    ended, out, err = launch(call)
    assert (ended, out) == (exit_code, "")
    assert f"error[{code}]: " in err
    assert "\nhint: " in err
    assert "Traceback" not in err
    control.ask(cloud, "faults", method="PUT", body=[])
    assert rows(call) == []


def test_a_place_without_the_gpu_asked_for_is_passed_over_without_a_launch_and_named(call: Call, cloud: Rehearsal, tmp_path: Path) -> None:
    text = Path("profiles/t4-train.yml").read_text()
    path = tmp_path / "p.yml"
    path.write_text(text.replace("g4dn.xlarge", "p3dn.24xlarge").replace("price_per_hour_usd: 1.00", "price_per_hour_usd: 40.00"))
    code, _, err = launch(call, profile=str(path))
    assert (code, "error[cloud-unsupported]" in err) == (2, True), err
    assert "ap-east-1 p3dn.24xlarge: p3dn.24xlarge has V100" in err
    assert [c["action"] for c in control.ask(cloud, "calls")].count("RunInstances") == 0


def test_the_cheapest_place_is_launched_in_first_and_the_order_is_said_and_journalled(call: Call, cloud: Rehearsal) -> None:
    code, _, err = launch(call, "x", "--cheapest")
    assert code == 3  # the host never answers
    assert "the cheapest place first: ap-southeast-1 0.767, ap-east-1 0.844\n" in err
    log = [json.loads(line) for line in Session.open().journal.log_of("x").read_text().splitlines()]
    assert [(row["region"], row["outcome"]) for row in log] == [("ap-southeast-1", "launched")]
    assert {c["region"] for c in control.ask(cloud, "calls") if c["action"] == "RunInstances"} == {"ap-southeast-1"}


def test_attempts_are_a_table_on_failure_and_data_where_data_is_asked_for(call: Call, cloud: Rehearsal) -> None:
    none = {"kind": "error", "action": "RunInstances", "code": "InsufficientInstanceCapacity", "http": 500}
    control.ask(cloud, "faults", method="PUT", body=[none])
    code, out, err = launch(call)
    assert (code, out) == (4, "")
    assert "OUTCOME" in err
    assert err.count("no-capacity") >= 8
    assert "attempts.jsonl" in err
    code, out, _ = launch(call, "y", "--json")
    said = json.loads(out)
    assert said["error"]["code"] == "no-capacity"
    assert {a["outcome"] for a in said["attempts"]} == {"no-capacity"}


@pytest.mark.usefixtures("cloud")
def test_a_profile_that_limits_its_machines_launches_no_more_of_them(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "p.yml"
    path.write_text(load.find("t4-train").read_text().replace("  deadline_h: 12", "  deadline_h: 12\n  machines: 2"))
    code, _, err = launch(call, "x", "--count", "3", profile=str(path))
    assert (code, "limits.machines of profile t4-train is 2, and 3 are asked for" in err) == (2, True), err
    assert call("ls", "--rehearse", "--json")[0] == 0
    assert rows(call) == []


@pytest.mark.usefixtures("cloud")
def test_a_count_and_its_minimum_and_a_cloud_without_a_place(call: Call, tmp_path: Path) -> None:
    code, _, err = launch(call, "x", "--count", "2", "--min", "3")
    assert (code, "--min 3 is more than --count 2" in err) == (2, True), err
    launch(call, "x", "--count", "2")
    assert [r["name"] for r in rows(call)] == ["x-1", "x-2"]
    only_aws = tmp_path / "p.yml"
    text = Path("profiles/t4-train.yml").read_text()
    only_aws.write_text(text[: text.index("  - cloud: gcp")] + text[text.index("os:\n  name") :])
    code, _, err = call("up", "-p", str(only_aws), "--rehearse", "gcp", "--name", "z")
    assert (code, "has no place on gcp" in err) == (2, True), err


def test_after_ctrl_c_the_machine_that_runs_is_named(call: Call, cloud: Rehearsal, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(up, "reach", interrupt)
    code, _, err = launch(call)
    assert (code, "\nhint: x still runs in ap-east-1 at no cost, in the embedded cloud" in err) == (130, True), err
    monkeypatch.setattr(up, "launch", interrupt)
    code, _, err = launch(call, "y")
    assert (code, "\nhint: `gpuprov ls` shows what exists" in err) == (130, True), err


@pytest.mark.usefixtures("cloud")
def test_the_time_of_a_launch_is_measured_and_told_to_the_next_one_of_its_kind(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    report = Report("x", "t4-train", ())
    monkeypatch.setattr(up, "reach", lambda _session, _request, instance, *_, **__: instance)
    monkeypatch.setattr(setup, "set_up", lambda *_, **__: SetupResult(report, (), None))

    def expected(name: str, *more: str) -> list[str]:
        code, _, err = launch(call, name, *more)
        assert code == 0, err
        return [line.split(" s  ", 1)[1] for line in err.splitlines() if "are expected" in line]

    assert expected("x") == []
    assert expected("x") == []  # adopted: nothing was launched, so that nothing is known of its time
    (told,) = expected("y")
    assert re.fullmatch(r"about \d+ s are expected: as the one earlier run of this profile on aws", told)
    (told,) = expected("z")
    assert re.fullmatch(r"about \d+ s are expected: the median of 2 earlier runs of this profile on aws", told)
    assert expected("two", "--count", "2") == []  # of another kind
    assert call("down", "x", "--yes")[0] == 0
    assert "median of 3" in expected("w")[0]  # what was measured outlives its machine


@pytest.mark.parametrize(
    ("data", "outcome", "said"),
    [
        (
            {"source": "instance-store"},
            "pass",
            ["with-pytorch python train.py    (pytorch ", "/data: inside the machine, and empty after each stop"],
        ),
        ({"source": "volume", "size_gb": 9}, "waived", ["/data: a volume: a stop keeps it, `down` removes it"]),
        (None, "unknown", []),
    ],
)
def test_whoever_has_a_machine_is_told_how_to_use_what_is_proven_to_be_there(
    data: dict[str, Any] | None, outcome: Outcome, said: list[str]
) -> None:
    path = load.find("t4-train")
    plain = load.load(path).dump()
    plain["disks"]["data"] = {**data, "mount": "/data"} if data else None
    report = Report("x", "t4-train", (Finding("pytorch-installed", "", outcome, "", ""),))
    lines = list(what_is_there(Profile.model_validate(plain), lockfile.read(lockfile.path_for(path)), report))
    assert [each in line for each, line in zip(said, lines, strict=True)] == [True] * len(said)


def test_without_the_programs_of_the_way_nothing_is_launched(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "aws", via="ssm")
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, err = call("up", "--profile", path, "--name", "x")
    assert code == 2
    assert "error[usage]: network.via: ssm needs aws and session-manager-plugin on this machine" in err


def test_no_credentials_is_said_with_the_way_out() -> None:
    done = gpuprov("up", "--profile", "t4-train")
    assert done.returncode == 4
    assert "error[credentials-missing]" in done.stderr
    assert "--rehearse" in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(gpuprov("ls", "--json").stdout)["rows"] == []


def test_up_without_profile_and_bundle_is_wrong_usage(call: Call) -> None:
    code, _, err = call("up")
    assert (code, "--profile) or --bundle" in err) == (2, True)


@pytest.mark.parametrize("command", ["up", "plan"])
def test_a_profile_is_an_argument_or_an_option_and_never_two_profiles(call: Call, command: str) -> None:
    more = ["--rehearse", "--name", "$(id)"]  # refused after the profile is read, before anything is started
    for words in (["t4-train"], ["-p", "t4-train"], ["t4-train", "--profile", "t4-train"]):
        code, _, err = call(command, *words, *more)
        assert (code, "error[name-invalid]" in err) == (2, True), err
    code, _, err = call(command, "t4-train", "-p", "t4-cheap", *more)
    assert (code, "error[usage]: two profiles are given: t4-train and --profile t4-cheap" in err) == (2, True), err
    code, _, err = call(command, "t4-trian", *more)
    assert (code, "did you mean 't4-train'" in err) == (2, True), err
