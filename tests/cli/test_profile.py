"""`gpuprov profile`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from provision import paths
from tests.cli.conftest import Call


def test_profiles_are_listed_shown_checked_and_described(call: Call) -> None:
    _, out, _ = call("profile", "list", "--json")
    assert {p["name"] for p in json.loads(out)} >= {"t4-train", "v100-train"}
    _, out, _ = call("profile", "show", "t4-train", "--json")
    digest = json.loads(out)["sha256"]
    _, out, _ = call("profile", "check", "t4-train")
    assert digest in out
    _, out, _ = call("profile", "schema")
    assert json.loads(out)["title"] == "Profile"


def edited(folder: Path, *changes: tuple[str, str], profile: str = "t4-train") -> str:
    """A shipped profile with other text in it, as a file."""
    text = (paths.profiles_dir() / f"{profile}.yml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "p.yml"
    path.write_text(text)
    return str(path)


EXPIRED = ("\nverify:", "\nverify:\n  waivers: [{check: root-room, reason: r, owner: a@example.org, expires: 2020-01-01}]")


def test_a_warning_is_shown_once_and_refuses_nothing_unless_it_is_told_to(call: Call, tmp_path: Path) -> None:
    path = edited(tmp_path, EXPIRED)
    code, out, err = call("profile", "check", path)
    assert (code, err) == (0, "")
    assert out.startswith(f"{path}: holds (sha256:")
    assert out.count("the waiver of root-room expired on 2020-01-01") == 1
    assert f"warning: {path}:" in out
    assert call("profile", "check", path, "--strict")[0] == 2
    assert call("profile", "check", "t4-train", "--strict")[0] == 0
    code, out, err = call("plan", "--profile", path)
    assert code == 0
    assert "expired" not in out + err


def test_findings_are_data_with_a_kind_and_a_severity(call: Call, tmp_path: Path) -> None:
    code, out, _ = call("profile", "check", edited(tmp_path, EXPIRED), "--json")
    data = json.loads(out)
    assert code == 0
    assert (data["errors"], data["warnings"], data["name"]) == (0, 1, "t4-train")
    (finding,) = data["findings"]
    assert (finding["severity"], finding["kind"], finding["key"]) == ("warning", "expired-waiver", "verify.waivers.0.expires")
    assert "error" not in data

    code, out, err = call("profile", "check", edited(tmp_path, ("g4dn.xlarge", "g4nd.xlarge")), "--json")
    data = json.loads(out)
    assert code == 2
    assert (data["errors"], data["name"], data["sha256"]) == (1, None, None)
    assert [(f["severity"], f["kind"], f["key"]) for f in data["findings"]] == [("error", "misspelt", "places.0.instance_type")]
    assert data["error"]["code"] == "profile-invalid"
    assert err.startswith("error[profile-invalid]: ")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([("g4dn.xlarge", "g4nd.xlarge")], "places.0.instance_type: 'g4nd.xlarge' is not a machine type"),
        ([("model: t4", "model: k80")], "gpu.model: 'k80' is not supported: it is a Kepler card: R470 is the last driver"),
        ([EXPIRED, ("check: root-room", "check: root-rom")], "verify.waivers.0.check: 'root-rom' is no check; the nearest are root-room"),
    ],
)
@pytest.mark.parametrize(
    "command",
    [("profile", "check"), ("up", "--profile"), ("lock", "-o", "-"), ("plan", "--profile"), ("review",), ("explain",)],
    ids=" ".join,
)
def test_every_command_refuses_what_check_refuses(
    call: Call, tmp_path: Path, command: tuple[str, ...], changes: list[tuple[str, str]], said: str
) -> None:
    code, _, err = call(*command, edited(tmp_path, *changes))
    assert code == 2
    assert said in err


def test_check_asks_the_resolver_as_lock_does(call: Call, tmp_path: Path) -> None:
    """The clocks of a T4 on an A10G, and a driver that its GPU does not know: both are refused with the line of the key."""
    path = edited(tmp_path, ("model: t4", "model: a10g"), ("g4dn.xlarge", "g5.xlarge"))
    lines = Path(path).read_text().splitlines()
    code, _, err = call("profile", "check", path)
    assert code == 2
    at = next(number for number, line in enumerate(lines, 1) if "application_clocks" in line)
    assert f"{path}:{at}: gpu.application_clocks: " in err
    assert "A10G has no clocks 5001,1590 MHz: the catalog lists 6250,1710 MHz" in err
    code, _, err = call("lock", path, "-o", "-")
    assert code == 2
    assert "the catalog lists 6250,1710 MHz" in err


def test_advice_that_a_stack_goes_against_is_a_warning_at_its_key(call: Call) -> None:
    data = json.loads(call("profile", "check", "t4-debian", "--json")[1])
    assert {(finding["kind"], finding["key"]) for finding in data["findings"]} == {
        ("advice", "stack.driver"),
        ("advice", "stack.profilers"),
    }


def test_a_profile_that_does_not_hold_names_line_and_key(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "p.yml"
    path.write_text("schema: 1\ngpuu: 1\n")
    code, _, err = call("up", "--profile", str(path))
    assert code == 2
    assert f"{path}:2: gpuu: is not a key of a profile; did you mean 'gpu'?" in err
