"""Which hosts a command is about, each once; inventories: tests/cli/test_verify.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.errors import InstanceNotFoundError, UsageError
from provision.launch.journal import Machine, Record
from provision.profile import load, lockfile
from provision.rehearsal import rootfs
from provision.structs import replace
from provision.workflow.hosts import HostNames, subjects_of, targets
from provision.workflow.session import Session

PROFILE = load.load(load.find("t4-train"))
LOCK = lockfile.read(Path("profiles/t4-train.lock.yml"))
RECORD = Record(
    name="x",
    launch_id="1" * 32,
    rehearsal=False,
    profile=PROFILE.dump(),
    profile_digest="",
    created_at="2026-11-21T00:00:00+00:00",
    deadline="2026-11-22T00:00:00+00:00",
)


def test_each_host_counts_once_in_the_order_of_the_names(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("all:\n  hosts:\n    b: {}\n    c: {}\n")
    hosts = targets(Session.open(), HostNames(["b", "a", "b"], inventory=inventory))
    assert [host.name for host in hosts] == ["b", "a", "c"]


def test_no_host_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="no host to verify"):
        targets(Session.open(), HostNames([], launched=True))


def test_what_was_signed_counts_on_every_host_and_what_was_launched_on_its_own() -> None:
    session = Session.open()
    hosts = targets(session, HostNames(["a", "b"]))
    assert {subject.lock.digest for subject in subjects_of(session, hosts, None, (PROFILE, LOCK)) if subject.lock} == {LOCK.digest}
    named = subjects_of(session, hosts, "t4-train")
    assert [(subject.profile.name, subject.lock == LOCK) for subject in named] == [("t4-train", True)] * 2
    with pytest.raises(InstanceNotFoundError):
        subjects_of(session, hosts, None)


def test_a_real_host_is_never_judged_by_the_lock_of_a_rehearsal(monkeypatch: pytest.MonkeyPatch) -> None:
    """`m-1` is one of two machines of the rehearsal `m`, and `real` is a machine of its own; in either order."""
    session = Session.open()
    session.ssh.folder.mkdir(parents=True, exist_ok=True)
    machines = (Machine("m-1", "i-1", "aws", "us-east-1"), Machine("m-2", "i-2", "aws", "us-east-1"))
    for record in (replace(RECORD, name="m", rehearsal=True, machines=machines), replace(RECORD, name="real", launch_id="2" * 32)):
        session.journal.put(record)
    monkeypatch.setattr(type(session.ssh), "knows", lambda _home, _name: True)
    for names in (["m-1", "real"], ["real", "m-1"]):
        hosts = targets(session, HostNames(names))
        systems = {each.target.name: each.lock.os for each in subjects_of(session, hosts, "t4-train") if each.lock}
        assert systems == {"real": LOCK.os, "m-1": rootfs.system()}


def test_an_inventory_is_read_without_the_configuration_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder from a stranger may have an ansible.cfg that names plugins, which are programs."""
    (tmp_path / "plug").mkdir()
    (tmp_path / "plug" / "yaml.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (tmp_path / "ansible.cfg").write_text("[defaults]\ninventory_plugins = ./plug\n")
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("all:\n  hosts:\n    b: {}\n")
    monkeypatch.chdir(tmp_path)
    assert [host.name for host in targets(Session.open(), HostNames([], inventory=inventory))] == ["b"]
    assert not (tmp_path / "ran").exists()


def test_why_ansible_reads_no_inventory_is_told_in_its_words(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("all: [unclosed\n")
    with pytest.raises(UsageError, match="finds no host") as caught:
        targets(Session.open(), HostNames([], inventory=inventory))
    assert "Failed to parse" in caught.value.detail  # ansible-core 2.17 has the path next


def test_no_inventory_that_is_a_program_is_run(tmp_path: Path) -> None:
    folder = tmp_path / "inventories"
    folder.mkdir()
    program, ran = folder / "hosts.sh", tmp_path / "ran"
    program.write_text(f'#!/bin/sh\ntouch {ran}\necho \'{{"all": {{"hosts": ["evil"]}}}}\'\n')
    program.chmod(0o755)
    with pytest.raises(UsageError, match="is a program") as caught:
        targets(Session.open(), HostNames([], inventory=program))
    assert "--inventory hosts.yml" in caught.value.hint
    (folder / "real.yml").write_text("all:\n  hosts:\n    b: {}\n")
    assert "b" in {host.name for host in targets(Session.open(), HostNames([], inventory=folder))}
    assert not ran.exists()
