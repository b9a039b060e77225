"""The command line through its own door: exit codes, errors with a hint, data on standard output and everything else beside it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.cli import COMMANDS

Call = Callable[..., tuple[int, str, str]]


def gpuprov(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "provision", *words],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )


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
        (["apply", "nowhere", "-p", "t4-train", "--role", "bse"], "role-unknown", "write one of: "),
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


def test_a_profile_that_does_not_hold_names_line_and_key(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "p.yml"
    path.write_text("schema: 1\ngpuu: 1\n")
    code, _, err = call("up", "--profile", str(path))
    assert code == 2
    assert f"{path}:2: gpuu: is no key of a profile; did you mean 'gpu'?" in err


def test_no_credentials_is_said_with_the_way_out() -> None:
    done = gpuprov("up", "--profile", "t4-train")
    assert done.returncode == 4
    assert "error[credentials-missing]" in done.stderr
    assert "--rehearse" in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(gpuprov("ls", "--json").stdout)["rows"] == []


def test_not_asked_is_not_none() -> None:
    listed = json.loads(gpuprov("ls", "--json").stdout)
    assert any("no AWS credentials" in problem for problem in listed["problems"])


def test_a_plan_as_json_and_as_text_agree(call: Call) -> None:
    _, text, _ = call("plan", "--profile", "t4-train")
    _, data, _ = call("plan", "--profile", "t4-train", "--json")
    plan = json.loads(data)
    assert [offer["region"] for offer in plan["offers"]][:2] == ["ap-east-1", "ap-southeast-1"]
    assert all(permission in text for needed in plan["permissions"].values() for permission in needed)
    assert "CVE-2018-6260" in text


def test_an_unknown_price_is_said_to_be_unknown(call: Call) -> None:
    _, data, _ = call("plan", "--profile", "t4-train", "--json")
    offer = json.loads(data)["offers"][0]
    assert offer["price_per_hour_usd"] is None
    assert "the limit is not checked" in offer["price_note"]


def test_profiles_are_listed_shown_checked_and_described(call: Call) -> None:
    _, out, _ = call("profile", "list", "--json")
    assert {p["name"] for p in json.loads(out)} >= {"t4-train", "v100-train"}
    _, out, _ = call("profile", "show", "t4-train", "--json")
    digest = json.loads(out)["sha256"]
    _, out, _ = call("profile", "check", "t4-train")
    assert digest in out
    _, out, _ = call("profile", "schema")
    assert json.loads(out)["title"] == "Profile"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_back_into_gpuprov(call: Call, shell: str) -> None:
    code, out, _ = call("completion", shell)
    assert code == 0
    assert "_GPUPROV_COMPLETE" in out


def test_the_shell_completes_profiles_and_commands() -> None:
    def complete(line: str) -> str:
        words = line.split(" ")
        script = Path(sys.executable).parent / "gpuprov"
        environment = {**os.environ, "_GPUPROV_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        return subprocess.run([script], capture_output=True, text=True, check=False, env=environment).stdout

    assert "plain,verify" in complete("gpuprov ver")
    assert "plain,t4-train" in complete("gpuprov up --profile t4")


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
