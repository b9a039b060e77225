"""What `ls` makes of the journal; of clouds: tests/cli/test_ls.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.launch.journal import Machine, Record
from provision.profile import load
from provision.rehearsal import control
from provision.workflow import ls
from provision.workflow.session import Session


def record(name: str, *, machines: tuple[Machine, ...] = ()) -> Record:
    return Record(
        name=name,
        launch_id="1" * 32,
        rehearsal=True,
        profile=load.load(load.find("t4-train")).dump(),
        profile_digest="",
        created_at="2026-11-21T00:00:00+00:00",
        deadline="2026-11-22T00:00:00+00:00",
        machines=machines,
        touched=(("aws", "ap-east-1"),),
    )


@pytest.mark.parametrize(("machines", "states"), [((), ["launching?"]), ((Machine("x", "i-1", "aws", "ap-east-1"),), [])])
def test_a_launch_is_unknown_until_the_cloud_has_confirmed_a_machine(
    machines: tuple[Machine, ...], states: list[str], own_home: Path
) -> None:
    session = Session.open()
    session.journal.put(record("x", machines=machines))
    assert control.running(own_home / "rehearsal") is None
    inventory = ls.inventory(session, rehearsal_only=True, say=lambda _: None)
    assert [row.state for row in inventory.rows] == states
    assert inventory.problems == ()
    for row in inventory.rows:
        assert (row.cloud, row.region, row.owner, row.profile) == ("aws", "ap-east-1", "gpu-platform@example.com", "t4-train")
        assert row.rehearsal, "`cost` would count it among what is paid for"
