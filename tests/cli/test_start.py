"""`gpuprov start`; on real hosts: tests/test_story.py."""

from __future__ import annotations

import json

import pytest

from provision.workflow import power
from tests.cli.conftest import Call, launch


@pytest.mark.usefixtures("cloud")
def test_what_does_not_exist_is_not_started(call: Call) -> None:
    code, out, err = call("start", "nowhere", "--rehearse")
    assert (code, out) == (2, "")
    assert "error[instance-not-found]: no instance called 'nowhere'" in err


def test_the_embedded_cloud_must_run(call: Call) -> None:
    code, _, err = call("start", "nowhere", "--rehearse")
    assert "error[rehearsal-failed]: the embedded cloud is not running" in err
    assert "gpuprov rehearse start" in err
    assert code != 0


@pytest.mark.usefixtures("cloud")
def test_a_disk_is_empty_only_after_a_stop_that_happened(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "_reach", lambda *_: None)
    launch(call)
    code, out, err = call("start", "x")
    assert (code, "empty" in out, out.startswith("running before: x (i-")) == (0, False, True), err
    assert call("stop", "x", "--yes")[1].startswith("stopped x (i-")
    assert call("stop", "x", "--yes")[1].startswith("stopped before: x (i-")
    code, out, err = call("start", "x")
    assert out.startswith("started x (i-")
    assert (code, "/data was inside the machine and is empty after a stop" in out) == (0, True), err
    assert json.loads(call("start", "x", "--json")[1])["empty_disk"] == ""
