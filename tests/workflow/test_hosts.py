"""Which hosts a command is about, each once; inventories: tests/cli/test_verify.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.errors import InstanceNotFoundError, UsageError
from provision.profile import load, lockfile
from provision.workflow.hosts import HostNames, subjects_of, targets
from provision.workflow.session import Session

PROFILE = load.load(load.find("t4-train"))
LOCK = lockfile.read(Path("profiles/t4-train.lock.yml"))


def test_each_host_counts_once_in_the_order_of_the_names(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("all:\n  hosts:\n    b: {}\n    c: {}\n")
    hosts = targets(Session.open(), HostNames(["b", "a", "b"], inventory=inventory), folder=tmp_path)
    assert [host.name for host in hosts] == ["b", "a", "c"]


def test_no_host_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no host to verify"):
        targets(Session.open(), HostNames([], launched=True), folder=tmp_path)


def test_what_was_signed_counts_on_every_host_and_what_was_launched_on_its_own(tmp_path: Path) -> None:
    session = Session.open()
    hosts = targets(session, HostNames(["a", "b"]), folder=tmp_path)
    assert {subject.lock.digest for subject in subjects_of(session, hosts, None, (PROFILE, LOCK)) if subject.lock} == {LOCK.digest}
    named = subjects_of(session, hosts, "t4-train")
    assert [(subject.profile.name, subject.lock == LOCK) for subject in named] == [("t4-train", True)] * 2
    with pytest.raises(InstanceNotFoundError):
        subjects_of(session, hosts, None)
