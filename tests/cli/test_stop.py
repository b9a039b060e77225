"""`gpuprov stop`."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Call, launch, rows


@pytest.mark.usefixtures("cloud")
def test_stop_keeps_the_machine(call: Call) -> None:
    launch(call)
    code, out, err = call("stop", "x", "--json")
    assert code == 0, err
    assert json.loads(out)["stopped"] == [rows(call)[0]["id"]]
    assert rows(call)[0]["state"] == "stopped"
