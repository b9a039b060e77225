"""`gpuprov rehearse`."""

from __future__ import annotations

import json

from provision.rehearsal.control import Rehearsal
from tests.cli.conftest import Call


def test_rehearse_status_and_stop(call: Call, cloud: Rehearsal) -> None:
    _, out, _ = call("rehearse", "status", "--json")
    assert json.loads(out)["pid"] == cloud.pid
    _, out, _ = call("rehearse", "stop", "--json")
    assert json.loads(out) == {"stopped": True}
    _, out, _ = call("rehearse", "status", "--json")
    assert json.loads(out) == {"running": False, "on_this_machine": []}
    _, out, _ = call("rehearse", "stop")
    assert out == "no embedded cloud was running\n"
