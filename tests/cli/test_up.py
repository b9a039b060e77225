"""`up` and `down` through the command line when the cloud says no: one clear error, the right exit code, nothing orphaned.

Against the EC2 API without hosts, so that an instance never shows a host key: the host that never answers.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.workflow import up as workflow

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cloud(own_home: Path) -> Iterator[Rehearsal]:
    """What `--rehearse` finds running."""
    yield control.start(own_home / "rehearsal", hosts=False)
    control.stop(own_home / "rehearsal")


def up(call: Call, profile: str = "t4-train") -> tuple[int, str, str]:
    return call("up", "--profile", profile, "--rehearse", "--name", "x", "--without-gpu")


def rows(call: Call) -> list[dict[str, Any]]:
    return list(json.loads(call("ls", "--rehearse", "--json")[1])["rows"])


def test_a_host_that_never_answers_is_said_kept_listed_and_removed(call: Call, cloud: Rehearsal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow, "CONSOLE_S", 0.5)
    code, _, err = up(call)
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
    ended, out, err = up(call)
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
    code, _, err = up(call, str(path))
    assert (code, "error[cloud-unsupported]" in err) == (2, True), err
    assert "ap-east-1 p3dn.24xlarge: p3dn.24xlarge has V100" in err
    assert [c["action"] for c in control.ask(cloud, "calls")].count("RunInstances") == 0


def test_down_of_a_rehearsal_that_ended_forgets_it(call: Call, cloud: Rehearsal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow, "CONSOLE_S", 0.3)
    up(call)
    control.stop(cloud.folder)
    code, _, err = call("down", "x", "--yes")
    assert code == 0, err
    code, _, err = call("down", "x", "--rehearse", "--yes")
    assert (code, "error[instance-not-found]" in err) == (2, True), err


def test_rehearse_status_and_stop(call: Call, cloud: Rehearsal) -> None:
    _, out, _ = call("rehearse", "status", "--json")
    assert json.loads(out)["pid"] == cloud.pid
    _, out, _ = call("rehearse", "stop", "--json")
    assert json.loads(out) == {"stopped": True}
    _, out, _ = call("rehearse", "status", "--json")
    assert json.loads(out) == {"running": False}
