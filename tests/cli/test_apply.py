"""`gpuprov apply`, up to where it would connect."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.verify.probe.host import tool


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The connections that were tried: an ssh on PATH writes its words, and reaches no host."""
    folder, log = tmp_path / "bin", tmp_path / "asked"
    folder.mkdir()
    tool(folder, "ssh", f'echo "$@" >> {log}\nexit 255')
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return lambda: log.read_text().splitlines() if log.exists() else []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--role", "bse"), "role-unknown"),
        ((), "instance-not-found"),
        (("--profile", "t4-trian"), "profile-not-found"),
        (("--profile", "t4-train", "--policy", "/nowhere.yml"), "usage"),
        (("--profile", "t4-train", "--from", "."), "mirror-refused"),
    ],
)
def test_what_is_refused_connects_to_no_host(call: Call, asked: Callable[[], list[str]], words: tuple[str, ...], code: str) -> None:
    ended, _, err = call("apply", "gpu.invalid", *words)
    assert (ended, f"error[{code}]" in err) == (2, True), err
    assert asked() == []


def test_what_is_allowed_connects_to_its_host(call: Call, asked: Callable[[], list[str]]) -> None:
    ended, _, err = call("apply", "gpu.invalid", "--profile", "t4-train")
    assert (ended, "error[host-unreachable]" in err) == (3, True), err
    assert "gpu.invalid" in asked()[0].split()


def test_a_host_without_a_profile_of_its_own_needs_one(call: Call) -> None:
    code, out, err = call("apply", "nowhere")
    assert (code, out) == (2, "")
    assert "error[instance-not-found]" in err
    assert "--profile" in err


def test_a_role_is_checked_before_anything_else(call: Call) -> None:
    code, _, err = call("apply", "nowhere", "--role", "base", "--role", "bse")
    assert (code, "error[role-unknown]: there is no role 'bse'" in err) == (2, True)


def test_each_of_several_hosts_needs_a_profile_before_any_is_touched(call: Call) -> None:
    code, out, err = call("apply", "localhost", "nowhere", "--without-gpu")
    assert (code, out) == (2, "")
    assert "error[instance-not-found]" in err


def test_without_a_host_it_is_wrong_usage(call: Call) -> None:
    code, _, err = call("apply")
    assert (code, "HOST" in err) == (2, True)
