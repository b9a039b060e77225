"""The command line as a whole: help, exit codes, errors with a hint, data on standard output and everything else beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from provision import paths
from provision.cli import COMMANDS
from tests.cli.conftest import Call
from tests.fuzz.run import lay


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_helps(call: Call, name: str) -> None:
    code, out, _ = call(name, "--help")
    assert code == 0
    assert out.startswith(f"Usage: gpuprov {name}")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["up", "--profile", "t4-trian"], "profile-not-found", "did you mean 't4-train'?"),
        (["up", "--profile", "t4-train", "--name", "$(id)"], "name-invalid", "lower-case"),
        (["up"], "usage", "--profile"),
        (["upp"], "usage", "gpuprov --help"),
        (["plan", "-p", "t4-train", "--jsno"], "usage", "gpuprov plan --help"),
        (["verify", "-p", "t4-train"], "usage", "gpuprov verify --help"),
        (["verify", "nowhere"], "instance-not-found", "--profile"),
        (["apply", "nowhere", "-p", "t4-train", "--role", "bse"], "role-unknown", "the roles are "),
        (["ssh", "nowhere"], "instance-not-found", "gpuprov ls"),
        (["down", "../x"], "name-invalid", "lower-case"),
        (["profile", "check", "/nonexistent.yml"], "profile-not-found", "gpuprov profile list"),
        (["completion", "tcsh"], "usage", "gpuprov completion --help"),
        (["verify", "--facts", "/nonexistent.json", "-p", "t4-train"], "facts-invalid", ""),
    ],
)
def test_wrong_usage_is_one_error_with_a_hint_and_exit_code_2(call: Call, words: list[str], code: str, said: str) -> None:
    exit_code, out, err = call(*words)
    assert (exit_code, out) == (2, "")
    assert err.startswith(f"error[{code}]: ")
    assert "\nhint: " in err
    assert said in err


def test_an_error_that_quotes_a_stranger_says_nothing_that_a_terminal_obeys(call: Call, tmp_path: Path) -> None:
    lay(tmp_path, {name: (paths.profiles_dir() / f"t4-train{name[1:]}").read_bytes() for name in ("p.yml", "p.lock.yml")})
    with (tmp_path / "p.lock.yml").open("a") as file:
        file.write('"\\e[2J\\x9b31m\\u202e\\xe9": 1\n')
    code, _, err = call("lock", "--check", str(tmp_path / "p.yml"))
    assert code == 2
    assert r"\x1b[2J\x9b31m\u202eé: is not a key of a lock" in err
    assert all(c.isprintable() or c == "\n" for c in err)


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    done = subprocess.run(
        f"{sys.executable} -m provision profile schema | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "{\n"
    assert done.stderr == ""
