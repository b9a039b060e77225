"""`gpuprov push` and `gpuprov pull`, which are one command in two directions."""

from __future__ import annotations

import shutil

import pytest

from tests.cli.conftest import Call


def test_copying_needs_a_machine_of_ours_and_rsync(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = call("push", "nowhere", "a", "b")
    assert (code, "error[instance-not-found]" in err) == (2, True), err
    from provision.workflow.session import Session

    Session.open().ssh.add("m", address="127.0.0.1", login="u", keys=("ssh-ed25519 AAAA",))
    assert call("pull", "m", "a")[0] == 2
    code, _, err = call("push", "m", "s3://data/x/", "more", "/data")
    assert (code, "copied alone" in err) == (2, True), err
    code, _, err = call("push", "m", "ftp://data/x/", "/data")
    assert (code, "not an address of a bucket" in err) == (2, True), err
    monkeypatch.setattr(shutil, "which", lambda _: None)
    code, _, err = call("pull", "m", "a", "b")
    assert (code, "rsync is not installed" in err) == (2, True), err
