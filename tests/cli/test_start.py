"""`gpuprov start`; on real hosts: tests/test_story.py."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Call


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
