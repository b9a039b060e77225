"""Which hosts `export` takes: each way in which a proof can be missing, old or about something else."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from provision.engines.base import HostUnprovenError
from provision.errors import InstanceNotFoundError, UsageError
from provision.structs import replace
from provision.verify.judge import Selection
from provision.workflow import audited
from provision.workflow.export import ProofDoubt
from tests.engines.proven import Proven, proven
from tests.verify import good


@pytest.fixture
def desk(own_home: Path) -> Proven:
    return proven(own_home)


def refused(desk: Proven, doubt: ProofDoubt, *names: str, later_s: float = 0, hours: float = 24) -> str:
    with pytest.raises(HostUnprovenError) as raised:
        desk.pool(*names, later_s=later_s, hours=hours)
    assert raised.value.message.endswith(doubt.value), raised.value.message
    return raised.value.hint


def changed(desk: Proven, command: str, name: str) -> None:
    with audited.changing(desk.session, command, name):
        pass


def test_a_launch_is_all_its_hosts_and_a_host_is_one_and_none_counts_twice(desk: Proven) -> None:
    assert [host.name for host in desk.pool("gp").hosts] == ["gp-1", "gp-2"]
    assert [host.name for host in desk.pool("gp-2", "gp").hosts] == ["gp-2", "gp-1"]
    assert (desk.pool("gp-2").name, desk.pool(title="night").name) == ("gp", "night")
    with pytest.raises(InstanceNotFoundError):
        desk.pool("gone")


def test_without_a_launch_there_is_nothing_to_export(desk: Proven) -> None:
    desk.session.journal.drop("gp")
    from provision.workflow.export import pool

    with pytest.raises(UsageError, match="no host to export"):
        pool(desk.session, [], max_age=dt.timedelta(hours=1), title=None, now=dt.datetime.now(dt.UTC))


def test_a_host_that_was_never_verified_is_refused_by_name(desk: Proven) -> None:
    (desk.session.verdicts / "gp-2.json").unlink()
    assert "gpuprov verify gp-2" in refused(desk, ProofDoubt.NEVER)
    assert [host.name for host in desk.pool("gp-1").hosts] == ["gp-1"]


def test_a_verdict_that_does_not_hold_replaces_one_that_did(desk: Proven) -> None:
    assert desk.verified("gp-1", python3={"version": "3.4.0", "path": "/usr/bin/python3"}) == 1
    refused(desk, ProofDoubt.FAILED)
    assert desk.verified("gp-1", os={"unknown": "no os-release"}) == 3
    refused(desk, ProofDoubt.UNKNOWN)
    assert desk.verified("gp-1") == 0
    assert desk.pool()


def test_some_of_the_checks_prove_nothing_but_count_where_they_fail(desk: Proven) -> None:
    (desk.session.verdicts / "gp-1.json").unlink()
    for part in (Selection(only=frozenset({"python3"})), Selection(skip=frozenset({"gcc"})), Selection(tier="quick")):
        assert desk.verified("gp-1", selection=part) == 0
        refused(desk, ProofDoubt.NEVER)
    desk.verified("gp-1")
    failing = {"version": "3.4.0", "path": "/usr/bin/python3"}
    assert desk.verified("gp-1", selection=Selection(only=frozenset({"python3"})), python3=failing) == 1
    refused(desk, ProofDoubt.FAILED)


def test_a_proof_has_an_age(desk: Proven) -> None:
    hint = refused(desk, ProofDoubt.OLD, later_s=3700, hours=1)
    assert "--max-age" in hint
    assert desk.pool(later_s=3700, hours=2)
    refused(desk, ProofDoubt.AHEAD, later_s=-60)


def test_a_machine_past_its_deadline_is_not_there(desk: Proven) -> None:
    assert "gpuprov ls" in refused(desk, ProofDoubt.ENDED, later_s=49 * 3600, hours=100)


@pytest.mark.parametrize("command", ["up", "apply", "undo", "stop", "start"])
@pytest.mark.parametrize("name", ["gp", "gp-1", "gpuprov-gp-1", "203.0.113.1", "ubuntu@203.0.113.1"])
def test_a_change_after_the_proof_takes_it_back_under_any_name(desk: Proven, command: str, name: str) -> None:
    changed(desk, command, name)
    refused(desk, ProofDoubt.CHANGED)
    for host in ("gp-1", "gp-2"):
        desk.verified(host)
    assert desk.pool()


def test_what_changes_nothing_on_a_host_takes_nothing_back(desk: Proven) -> None:
    for command in ("extend", "allow", "push"):
        changed(desk, command, "gp-1")
    changed(desk, "apply", "other")
    assert desk.pool()


def test_a_change_that_failed_is_a_change(desk: Proven) -> None:
    with pytest.raises(RuntimeError), audited.changing(desk.session, "apply", "gp-1"):
        raise RuntimeError
    refused(desk, ProofDoubt.CHANGED)


def test_while_another_gpuprov_is_at_work_nothing_is_proven(desk: Proven) -> None:
    with desk.session.journal.hold("gp"):
        refused(desk, ProofDoubt.BUSY)


def test_without_the_log_nobody_knows_what_was_changed(desk: Proven) -> None:
    changed(desk, "extend", "gp")
    log = desk.session.audit.path
    log.write_text(log.read_text().replace('"extend"', '"extent"', 1) + log.read_text())
    with pytest.raises(UsageError, match="the log of changes is damaged at line"):
        desk.pool()


def test_another_machine_of_the_name_is_not_the_proven_one(desk: Proven) -> None:
    record = desk.session.record("gp")
    desk.session.journal.put(record.with_address("i-gp-1", "203.0.113.77"))
    refused(desk, ProofDoubt.ANOTHER)
    desk.session.journal.put(replace(record, launch_id="1" * 16))
    with pytest.raises(HostUnprovenError, match=r"gp-1: it was verified as another machine.*; gp-2: it was verified as another machine"):
        desk.pool()


def test_another_profile_than_that_of_the_launch_proves_nothing(desk: Proven) -> None:
    desk.verified("gp-1", profile=good.profile(gpu__counters="group"))
    with pytest.raises(HostUnprovenError):
        desk.pool()
    desk.verified("gp-1", profile=good.profile(purpose="Something else."))
    refused(desk, ProofDoubt.OTHER_PROFILE)


def test_a_host_that_ssh_does_not_know_is_refused(desk: Proven) -> None:
    desk.session.ssh.remove("gp-2")
    refused(desk, ProofDoubt.UNREACHED)


def test_a_verdict_that_was_touched_is_none(desk: Proven) -> None:
    path = desk.session.verdicts / "gp-1.json"
    data = json.loads(path.read_text())
    data["evidence"]["hosts"][0]["facts"]["facts"]["machine"]["value"]["cpus"] = 512
    path.write_text(json.dumps(data))
    refused(desk, ProofDoubt.UNREADABLE)
    for text in ("", "{}", "[]", "[" * 100_000):
        path.write_text(text)
        refused(desk, ProofDoubt.UNREADABLE)


def test_what_is_removed_is_forgotten(desk: Proven) -> None:
    desk.session.forget_hosts(["gp", "gp-1"])
    assert [path.name for path in desk.session.verdicts.iterdir()] == ["gp-2.json"]
