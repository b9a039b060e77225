"""`gpuprov render` as a user meets it."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path

import pytest

from .conftest import Call

KEY = f"ssh-ed25519 {'A' * 68}"


@pytest.fixture
def key(tmp_path: Path) -> str:
    path = tmp_path / "id.pub"
    path.write_text(f"{KEY} somebody's laptop; $(reboot)\n")
    return str(path)


def soon(hours: int = 3) -> str:
    return (dt.datetime.now(dt.UTC) + dt.timedelta(hours=hours)).isoformat(timespec="seconds")


def test_a_template_goes_to_standard_output_or_into_a_file(call: Call, tmp_path: Path) -> None:
    code, out, err = call("render", "t4-train", "--as", "cloudformation")
    assert (code, err) == (0, "")
    assert json.loads(out)["Resources"]["Instance"]["Type"] == "AWS::EC2::Instance"
    target = tmp_path / "template.json"
    assert call("render", "t4-train", "--as", "cloudformation", "-o", str(target))[:2] == (0, "")
    assert target.read_text() == out


def test_the_folder_is_written_once(call: Call, tmp_path: Path) -> None:
    target = tmp_path / "folder"
    assert call("render", "t4-train", "--as", "ansible", "-o", str(target))[0] == 0
    assert (target / "site.yml").is_file()
    code, _, err = call("render", "t4-train", "--as", "ansible", "-o", str(target))
    assert code == 2
    assert "exists already" in err
    code, _, err = call("render", "t4-train", "--as", "ansible")
    assert code == 2
    assert "-o t4-train-ansible" in err


def test_a_form_that_launches_nothing_needs_no_price(call: Call, tmp_path: Path) -> None:
    """The shipped catalog has no price of this profile's machines; a form that launches one keeps the limit."""
    assert call("render", "h100-train", "--as", "ansible", "-o", str(tmp_path / "folder"))[::2] == (0, "")
    assert (tmp_path / "folder" / "site.yml").is_file()
    code, _, err = call("render", "h100-train", "--as", "cloudformation")
    assert (code, "error[price-unknown]" in err) == (2, True)


def test_terraform_is_a_folder_of_the_first_place_or_of_the_cloud_that_is_named(call: Call, tmp_path: Path) -> None:
    for words, source in (([], "hashicorp/aws"), (["--cloud", "gcp"], "hashicorp/google")):
        target = tmp_path / source.replace("/", "-")
        assert call("render", "t4-train", "--as", "terraform", *words, "-o", str(target))[0] == 0
        assert {path.name for path in target.iterdir()} == {"README.md", "main.tf.json", "user-data.yml", "first-boot.py"}
        assert source in (target / "main.tf.json").read_text()
    code, _, err = call("render", "t4-train", "--as", "terraform")
    assert code == 2
    assert "-o t4-train-terraform" in err


def test_a_runbook_has_the_key_without_its_comment(call: Call, key: str) -> None:
    given = ("--deadline", soon(), "--public-key", key, "--ssh-from", "203.0.113.7")
    code, out, err = call("render", "t4-train", "--as", "runbook", "--where", "ap-southeast-1", *given)
    assert (code, err) == (0, "")
    assert KEY in out
    assert "reboot" not in out
    assert "--region ap-southeast-1" in out
    assert "203.0.113.7/32" in out


def test_a_deadline_may_be_a_time_from_now(call: Call, key: str) -> None:
    given = ("--deadline", "8h", "--public-key", key, "--ssh-from", "203.0.113.7")
    code, out, _ = call("render", "t4-train", "--as", "runbook", "--where", "ap-southeast-1", *given)
    ends = [dt.datetime.fromisoformat(each) for each in re.findall(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", out)]
    assert code == 0
    assert any(abs(end - dt.datetime.now(dt.UTC) - dt.timedelta(hours=8)) < dt.timedelta(minutes=5) for end in ends), ends


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--as", "cloudformation", "--deadline", "13h"], "12 h"),
        (["--as", "cloudformation", "--deadline", "8"], "has no unit"),
        (["--as", "pulumi"], "pulumi"),
        (["--as", "cloudformation", "--where", "us-east-1"], "ap-east-1"),
        (["--as", "cloudformation", "--name", "No Name"], "No Name"),
        (["--as", "cloud-init"], "--deadline"),
        (["--as", "cloudformation", "--deadline", "tomorrow"], "tomorrow"),
        (["--as", "cloudformation", "--deadline", "2026-11-22T08:00:00"], "offset"),
        (["--as", "cloudformation", "--deadline", "2020-11-22T08:00:00+00:00"], "12 h"),
        (["--as", "cloudformation", "--deadline", "2120-11-22T08:00:00+00:00"], "12 h"),
        (["--as", "cloudformation", "--ssh-from", "0.0.0.0/0"], "0.0.0.0/0"),
        (["--as", "cloudformation", "--ssh-from", "203.0.113.0/24"], "203.0.113.0/24"),
        (["--as", "cloudformation", "--ssh-from", "$(id)"], "$(id)"),
        (["--as", "cloudformation", "--public-key", "/etc/hostname"], "no OpenSSH public key"),
    ],
    ids=lambda value: " ".join(value[1:]) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_refused_with_a_hint(call: Call, words: list[str], said: str) -> None:
    code, out, err = call("render", "t4-train", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert "hint: " in err
