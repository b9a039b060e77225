"""Copies by the system's own rsync, over a stand-in for ssh that runs the remote end here."""

import os
from pathlib import Path

import pytest

from provision.errors import HostUnreachableError, UsageError
from provision.host.ssh import Target
from provision.host.transfer import pull, push

# ssh's options up to the host's name, then the command, which a shell reads on the host as it does behind sshd.
REMOTE = 'while [ "$1" != box ]; do shift; done; shift'


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    folder = tmp_path / "bin with space"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    remote_end(folder, 'exec sh -c "$*"')
    (tmp_path / "config").write_text("Host box\n")
    return Target("box", "box", tmp_path / "config")


def remote_end(folder: Path, text: str) -> None:
    (folder / "ssh").write_text(f"#!/bin/sh\n{REMOTE}\n{text}\n")
    (folder / "ssh").chmod(0o755)


def tree(folder: Path, **files: str) -> str:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return f"{folder}/"


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_files_go_to_a_host_and_come_back(box: Target, tmp_path: Path) -> None:
    source, there, back = tree(tmp_path / "source", a="1", b="22"), tree(tmp_path / "there"), tree(tmp_path / "back")
    copied = push(box, [source], there, delete=False, dry_run=False)
    assert (copied.files, copied.bytes) == (2, 3)
    assert pull(box, [there], back, delete=False, dry_run=False).files == 2
    assert content(tmp_path / "back") == {"a": "1", "b": "22"}
    assert push(box, [source], there, delete=False, dry_run=False).files == 0


def test_only_delete_removes_and_a_dry_run_changes_nothing(box: Target, tmp_path: Path) -> None:
    source, there = tree(tmp_path / "source", new="1"), tree(tmp_path / "there", old="2")
    assert push(box, [source], there, delete=True, dry_run=True).files == 1
    assert content(tmp_path / "there") == {"old": "2"}
    push(box, [source], there, delete=False, dry_run=False)
    assert content(tmp_path / "there") == {"new": "1", "old": "2"}
    push(box, [source], there, delete=True, dry_run=False)
    assert content(tmp_path / "there") == {"new": "1"}


def test_a_name_with_spaces_and_shell_characters_is_one_file(box: Target, tmp_path: Path) -> None:
    tree(tmp_path / "source", **{"a $(id) 'b'": "1"})
    tree(tmp_path / "there")
    push(box, [f"{tmp_path}/source/a $(id) 'b'"], f"{tmp_path}/there/c; d", delete=False, dry_run=False)
    assert content(tmp_path / "there") == {"c; d": "1"}


@pytest.mark.parametrize("reads", ["", "head -c 4 >/dev/null; "])  # rsync writes to a shell that is gone already, or that goes then
def test_a_host_without_rsync_is_told_apart_from_a_copy_that_failed(box: Target, tmp_path: Path, reads: str) -> None:
    source = tree(tmp_path / "source", a="1")
    with pytest.raises(HostUnreachableError, match="rsync ended with") as caught:
        pull(box, [f"{tmp_path}/nothing"], source, delete=False, dry_run=False)
    assert "continues where it stopped" in caught.value.hint
    remote_end(tmp_path / "bin with space", f"{reads}PATH={tmp_path}; command -v rsync")
    with pytest.raises(HostUnreachableError, match="rsync is not installed on box"):
        push(box, [source], f"{tmp_path}/x", delete=False, dry_run=False)


def test_a_machine_without_rsync_is_told_what_to_install(box: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="not installed on this machine"):
        push(box, ["a"], "b", delete=False, dry_run=False)


def test_files_go_to_nobody_whose_host_key_is_not_pinned(box: Target, tmp_path: Path) -> None:
    words = tmp_path / "words"
    (tmp_path / "bin with space" / "ssh").write_text(f'#!/bin/sh\necho "$@" >> {words}\n{REMOTE}\nexec sh -c "$*"\n')
    source, there = tree(tmp_path / "source", a="1"), tree(tmp_path / "there")
    push(box, [source], there, delete=False, dry_run=False)
    pull(box, [there], source, delete=False, dry_run=False)
    lines = words.read_text().splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"-F {tmp_path}/config ") and "-o StrictHostKeyChecking=yes " in line for line in lines)


def test_what_comes_from_a_host_is_nobody_s_program_with_more_rights_and_no_device(box: Target, tmp_path: Path) -> None:
    there, back = tree(tmp_path / "there", program="1", data="2"), tree(tmp_path / "back")
    (tmp_path / "there" / "program").chmod(0o6755)
    (tmp_path / "there" / "data").chmod(0o640)
    os.mkfifo(tmp_path / "there" / "pipe")
    if os.getuid() == 0:
        os.chown(tmp_path / "there" / "data", 12345, 12345)
    pull(box, [there], back, delete=False, dry_run=False)
    states = {path.name: path.lstat() for path in (tmp_path / "back").iterdir()}
    assert {name: oct(state.st_mode & 0o7777) for name, state in states.items()} == {"program": "0o755", "data": "0o640"}
    assert {state.st_uid for state in states.values()} == {os.getuid()}


def test_what_a_host_says_is_part_of_the_error_and_does_not_reach_the_terminal_as_it_is(
    box: Target, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    noise = "head -c 99999 /dev/zero | tr '\\0' x >&2; printf '\\n\\033]0;pwn\\007\\n' >&2; exec sh -c \"$*\""
    remote_end(tmp_path / "bin with space", noise)
    with pytest.raises(HostUnreachableError, match="rsync ended with 23: ") as caught:
        pull(box, [str(tmp_path / "missing")], str(tmp_path / "there"), delete=False, dry_run=False)
    assert capfd.readouterr() == ("", "")
    assert "missing" in caught.value.detail
    assert len(caught.value.detail) <= 4000
