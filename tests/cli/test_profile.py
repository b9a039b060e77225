"""`gpuprov profile`."""

from __future__ import annotations

import json
from pathlib import Path

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


def test_a_profile_that_does_not_hold_names_line_and_key(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "p.yml"
    path.write_text("schema: 1\ngpuu: 1\n")
    code, _, err = call("up", "--profile", str(path))
    assert code == 2
    assert f"{path}:2: gpuu: is not a key of a profile; did you mean 'gpu'?" in err
