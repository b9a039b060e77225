"""What `ls` makes of the journal; of clouds: tests/cli/test_ls.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.clouds.base import NotSetUpError
from provision.errors import CredentialsExpiredError, GpuprovError
from provision.launch.journal import Machine, Record
from provision.profile import load
from provision.rehearsal import control
from provision.structs import replace
from provision.workflow import ls
from provision.workflow.session import Session
from tests.launch.memory import Memory

NOT_SET_UP, EXPIRED = NotSetUpError("nothing names any", hint="x"), CredentialsExpiredError("expired", hint="x")


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


@pytest.mark.parametrize(
    ("aws", "gcp", "launched", "unknown"),
    [
        (None, NOT_SET_UP, False, False),  # somebody with one account
        (None, NOT_SET_UP, True, True),  # whose journal knows a launch at the other cloud
        (None, EXPIRED, False, True),
        (NOT_SET_UP, NOT_SET_UP, False, True),
    ],
)
def test_what_no_cloud_of_ours_answered_is_unknown(
    monkeypatch: pytest.MonkeyPatch, aws: GpuprovError | None, gcp: GpuprovError | None, *, launched: bool, unknown: bool
) -> None:
    session = Session.open()
    if launched:
        session.journal.put(replace(record("x", machines=(Machine("x", "i-1", "gcp", "us-central1"),)), rehearsal=False))
    memory = Memory()
    for cloud, region, error in (("aws", "us-east-1", aws), ("gcp", "us-central1", gcp)):
        if error:
            memory[cloud, region].fails["find"] = error
    monkeypatch.setattr(Session, "connect", lambda *_, **__: lambda cloud, region: memory[cloud, region])
    monkeypatch.setattr(ls, "everywhere", lambda: {("aws", "us-east-1"), ("gcp", "us-central1")})
    monkeypatch.setattr(ls, "regions", lambda *_, **__: set())
    found = ls.inventory(session, rehearsal_only=False, say=lambda _: None)
    assert (found.unknown, bool(found.problems)) == (unknown, True)
