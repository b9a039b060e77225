"""`gpuprov push` and `gpuprov pull`, which are one command in two directions."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from provision.workflow.session import Session
from tests.cli.conftest import Call


def test_copying_needs_a_machine_of_ours_and_rsync(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = call("push", "nowhere", "a", "b")
    assert (code, "error[instance-not-found]" in err) == (2, True), err
    Session.open().ssh.add("m", address="127.0.0.1", login="u", keys=("ssh-ed25519 AAAA",))
    assert call("pull", "m")[0] == 2
    code, _, err = call("push", "m", "s3://data/x/", "more", "/data")
    assert (code, "copied alone" in err) == (2, True), err
    code, _, err = call("push", "m", "ftp://data/x/", "/data")
    assert (code, "not an address of a bucket" in err) == (2, True), err
    monkeypatch.setattr(shutil, "which", lambda _: None)
    code, _, err = call("pull", "m", "a", "b")
    assert (code, "rsync is not installed" in err) == (2, True), err


@pytest.mark.parametrize(
    ("words", "copied"),
    [
        (("push", "m", "a", "b", "/data"), ["a", "b", "m:/data"]),
        (("push", "m", "a"), ["a", "m:"]),
        (("push", "a", "m:/data"), ["a", "m:/data"]),
        (("push", "a", "b", "m:"), ["a", "b", "m:"]),
        (("push", "m", "a", "m:/data"), ["a", "m:/data"]),
        (("push", "m", "a", "other:/data"), ["a", "m:other:/data"]),  # nobody's name
        (("pull", "m", "/data/a", "b"), ["m:/data/a", "b"]),
        (("pull", "m", "/data/a"), ["m:/data/a", "."]),
        (("pull", "m:/data/a"), ["m:/data/a", "."]),
        (("pull", "m:a", "m:b", "c"), ["m:a", "m:b", "c"]),
        (("pull", "m", "m:a", "c"), ["m:a", "c"]),
        (("pull", "m:a", "m"), ["m:a", "m"]),  # a folder that is called like the host
        (("push", "a", "m", "m:/data"), ["a", "m", "m:/data"]),
    ],
)
def test_a_host_and_its_paths_are_said_as_for_scp_too(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...], copied: list[str]
) -> None:
    session, rsync = Session.open(), tmp_path / "bin" / "rsync"
    for name in ("m", "n"):
        session.ssh.add(name, address="127.0.0.1", login="u", keys=("ssh-ed25519 AAAA",))
    rsync.parent.mkdir()
    rsync.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "rsync  version 3.5.0" || printf "%s\\n" "$@" > {tmp_path}/words\n')
    rsync.chmod(0o755)
    monkeypatch.setenv("PATH", f"{rsync.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b", "m"):
        Path(name).write_text("")
    code, out, err = call(*words)
    assert (code, out) == (0, "copied 0 files, 0.0 MB\n"), err
    said = Path("words").read_text().splitlines()
    assert [word.replace("gpuprov-", "") for word in said[said.index("--") + 1 :]] == copied


@pytest.mark.parametrize(
    ("words", "why"),
    [(("pull", "m:a", "n:b", "."), "of m and n"), (("pull", "m:a", "b", "c"), "b and c are both"), (("push", "m:a"), "at least one PATH")],
)
def test_what_names_two_hosts_or_nothing_is_refused(call: Call, words: tuple[str, ...], why: str) -> None:
    for name in ("m", "n"):
        Session.open().ssh.add(name, address="127.0.0.1", login="u", keys=("ssh-ed25519 AAAA",))
    code, _, err = call(*words)
    assert (code, why in err) == (2, True), err


def test_what_a_host_prints_while_it_copies_is_shown_and_not_obeyed(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    session = Session.open()
    session.ssh.add("m", address="127.0.0.1", login="u", keys=("ssh-ed25519 AAAA",))
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(
        f"#!{sys.executable}\nimport sys\nsys.stdout.write('(dryrun) copy: a\\x1b]52;c;cm0K\\x07\\x1b[31m \\x9b2J \\u202eb\\n')\n"
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    code, out, err = call("push", "m", "s3://data/x/", "/data", "--dry-run")
    assert code == 0, err
    assert "(dryrun) copy: a\\u001b]52;c;cm0K\\u0007\\u001b[31m \\u009b2J \\u202eb\n" in out
