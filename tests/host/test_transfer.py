"""Copies by the system's own rsync, over a stand-in for ssh that runs the remote end here."""

import os
import re
import shutil
from pathlib import Path

import pytest

from provision.errors import HostUnreachableError, UsageError
from provision.host.ssh import Target
from provision.host.transfer import Copied, CopyFailedError, PathNotFoundError, pull, push

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
    remote_end(tmp_path / "bin with space", f'{reads}case "$*" in rsync*) exit 1; esac; exec sh -c "$*"')
    with pytest.raises(HostUnreachableError, match="rsync ended with") as caught:
        pull(box, [f"{tmp_path}/nothing"], source, delete=False, dry_run=False)
    assert "continues where it stopped" in caught.value.hint
    remote_end(tmp_path / "bin with space", f"{reads}PATH={tmp_path}; command -v rsync")
    with pytest.raises(HostUnreachableError, match="rsync is not installed on box"):
        push(box, [source], f"{tmp_path}/x", delete=False, dry_run=False)


def test_a_machine_without_rsync_is_told_what_to_install(box: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="not installed on this machine"):
        push(box, [str(tmp_path)], "b", delete=False, dry_run=False)


def test_what_should_be_copied_and_is_not_there_is_named(box: Target, tmp_path: Path) -> None:
    there = tree(tmp_path / "there", a="1")
    with pytest.raises(PathNotFoundError) as caught:
        push(box, [there, f"{tmp_path}/no thing"], there, delete=False, dry_run=False)
    assert (caught.value.message, caught.value.exit_code) == (f"{tmp_path}/no thing: there is no such file or folder on this machine", 2)
    assert caught.value.hint == f"look with `ls -l {tmp_path}`"
    with pytest.raises(PathNotFoundError) as caught:
        pull(box, [there, f"{tmp_path}/no thing"], str(tmp_path / "back"), delete=False, dry_run=False)
    assert caught.value.message == f"{tmp_path}/no thing: there is no such file or folder on box"
    assert caught.value.hint == f"look with `gpuprov ssh box -- ls -l {tmp_path}`"


def test_a_copy_that_failed_has_rsyncs_sentence_and_where_to_look(box: Target, tmp_path: Path) -> None:
    source = tree(tmp_path / "source", a="1")
    with pytest.raises(CopyFailedError, match=r"not everything was copied \(rsync ended with \d+\): rsync: ") as caught:
        push(box, [source], f"{tmp_path}/no/such/folder/x", delete=False, dry_run=False)
    assert "No such file or directory" in caught.value.message
    assert f"`gpuprov ssh box -- df -h {tmp_path}/no/such/folder`" in caught.value.hint
    assert caught.value.exit_code == 4
    (tmp_path / "file").write_text("")
    with pytest.raises(CopyFailedError) as caught:
        pull(box, [source], f"{tmp_path}/file/x", delete=False, dry_run=False)
    assert f"`df -h {tmp_path}/file`" in caught.value.hint


def test_a_path_on_the_host_counts_from_the_folder_of_the_login(box: Target, tmp_path: Path) -> None:
    source, home = tree(tmp_path / "source", a="1"), tmp_path / "home"
    home.mkdir()
    remote_end(tmp_path / "bin with space", f'cd {home}; exec sh -c "$*"')
    for number, path in enumerate(("", "~", "~/", "~/deep", "deep")):
        (tmp_path / "source" / "a").write_text("1" * (number + 1))
        push(box, [source], path, delete=False, dry_run=False)
        assert (home / path.lstrip("~/") / "a").read_text() == "1" * (number + 1)
    back = tree(tmp_path / "back")
    pull(box, ["~/deep/a"], back, delete=False, dry_run=False)
    assert content(tmp_path / "back") == {"a": "11111"}


def test_how_far_a_copy_is_is_told(box: Target, tmp_path: Path) -> None:
    source = tree(tmp_path / "source", a="1" * 100_000)
    said: list[str] = []
    push(box, [source], f"{tmp_path}/there", delete=False, dry_run=False, on_progress=said.append)
    assert re.fullmatch(r"100,000 bytes, 100 %, [\d.]+[kMG]B/s", said[-1])


# The long options of rsync 2.6.9, from its tag v2.6.9, options.c, and of openrsync, from its main.c of 8235c68f; of each those that a copy
# could have use for. macOS had the one until 15.4, and has the other, with more options, since.
OLD = set(
    re.findall(
        r"\S+",
        "archive chmod compress compress-level delete delete-after dry-run files-from from0 human-readable inplace itemize-changes links "
        "log-format no-devices no-group no-links no-owner no-partial no-perms no-specials no-times numeric-ids out-format partial "
        "partial-dir perms progress quiet recursive rsh rsync-path sparse specials stats timeout times verbose version whole-file",
    )
)
OPEN = OLD - {"chmod", "compress-level", "files-from", "human-readable", "inplace", "itemize-changes", "partial-dir"}


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("rsync  version 2.6.9  protocol version 29", OLD),
        ("rsync  version 3.0.9  protocol version 30", OLD | {"protect-args"}),
        ("openrsync: protocol version 27", OPEN),
        ("openrsync: protocol version 29\nrsync version 2.6.9 compatible", OPEN),
    ],
    ids=["2.6.9", "3.0.9", "openrsync", "macOS"],
)
def test_a_client_with_an_old_rsync_copies_as_well(box: Target, tmp_path: Path, version: str, known: set[str]) -> None:
    """An option that it does not know ends it. Its host's shell reads the paths, which `--old-args` has this one do."""
    real, old = shutil.which("rsync"), tmp_path / "bin with space" / "rsync"
    asks = f'[ "$1" = --version ] && printf "{version}\\n" && exit'
    names = "|".join(sorted(f"--{name}" for name in known))
    checks = f'for word; do case "${{word%%=*}}" in --) break;; {names}) ;; *) echo "$word: unknown option" >&2; exit 1;; esac; done'
    args = "" if "protect-args" in known else "--old-args"
    old.write_text(f'#!/bin/sh\n[ "$1" = --server ] && exec {real} "$@"\n{asks}\n{checks}\nexec {real} {args} "$@"\n')
    old.chmod(0o755)
    source, there = tree(tmp_path / "source", **{"a $(id) 'b'": "1", "c": "22"}), f"{tmp_path}/there; $(id) 'x'"
    (tmp_path / "source" / "c").chmod(0o4755)
    assert push(box, [source], there, delete=True, dry_run=False).files == 2
    assert content(Path(there)) == {"a $(id) 'b'": "1", "c": "22"}
    assert pull(box, [f"{there}/"], f"{tmp_path}/back", delete=True, dry_run=False).bytes == 3
    assert content(tmp_path / "back") == {"a $(id) 'b'": "1", "c": "22"}
    assert not (tmp_path / "back" / "c").stat().st_mode & 0o7000


def test_what_openrsync_rounds_in_its_sums_is_read(box: Target, tmp_path: Path) -> None:
    old = tmp_path / "bin with space" / "rsync"
    sums = "Number of files transferred: 12\\nTotal transferred file size: 1.5 MB\\n"
    old.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo openrsync: protocol version 29 || printf "{sums}"\n')
    old.chmod(0o755)
    assert push(box, [str(tmp_path)], "", delete=False, dry_run=False) == Copied(12, 1_572_864)


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
    with pytest.raises(PathNotFoundError) as caught:
        pull(box, [str(tmp_path / "missing")], str(tmp_path / "there"), delete=False, dry_run=False)
    assert capfd.readouterr() == ("", "")
    assert "missing" in caught.value.detail
    assert len(caught.value.detail) <= 4000
