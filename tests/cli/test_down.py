"""`gpuprov down`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.cli.conftest import Call, aws, launch, rows


def test_down_shows_what_it_would_remove_and_asks(call: Call, cloud: Rehearsal, monkeypatch: pytest.MonkeyPatch) -> None:
    launch(call)
    code, out, err = call("down", "x")
    assert (code, out) == (2, "")
    assert "--yes" in err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: "n")
    code, out, err = call("down", "x")
    assert (code, out) == (0, "nothing was removed\n")
    assert "security-group sg-" in err
    assert [r["name"] for r in rows(call)] == ["x"]
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: "y")
    code, out, _ = call("down", "x")
    assert code == 0
    assert "removed instance i-" in out
    assert rows(call) == []
    assert aws(cloud).describe_security_groups(Filters=[{"Name": "tag-key", "Values": ["gpuprov:name"]}])["SecurityGroups"] == []


def test_down_of_a_rehearsal_that_ended_forgets_it(call: Call, cloud: Rehearsal) -> None:
    launch(call)
    control.stop(cloud.folder)
    code, _, err = call("down", "x", "--yes")
    assert code == 0, err
    code, _, err = call("down", "x", "--rehearse", "--yes")
    assert (code, "error[instance-not-found]" in err) == (2, True), err


@pytest.mark.usefixtures("cloud")
def test_several_are_removed_and_one_that_cannot_be_keeps_none_of_the_others(call: Call) -> None:
    for name in ("x", "y", "z"):
        launch(call, name)
    code, out, err = call("down", "x", "nobody", "y", "--yes", "--rehearse")
    assert code == 2
    assert "error[instance-not-found]: nothing called 'nobody' was found" in err
    assert out.count("removed instance i-") == 2
    assert [r["name"] for r in rows(call)] == ["z"]
    launch(call, "x")
    code, out, _ = call("down", "nobody", "x", "--yes", "--rehearse", "--json")
    data = json.loads(out)
    assert (code, data["error"]["code"], [each["name"] for each in data["launches"]]) == (2, "instance-not-found", ["x"])
    launch(call, "x")
    code, out, _ = call("down", "x", "z", "x", "--yes", "--json")
    assert (code, [each["name"] for each in json.loads(out)["launches"]]) == (0, ["x", "z"])
    launch(call, "x")
    assert [each["name"] for each in json.loads(call("down", "x", "--yes", "--json")[1])["launches"]] == ["x"]
    assert rows(call) == []


@pytest.mark.parametrize("changed", ["profile", "lock", "owner", "created_at"])
def test_a_machine_that_another_release_launched_is_listed_and_removed(call: Call, cloud: Rehearsal, own_home: Path, changed: str) -> None:
    launch(call)
    (path,) = own_home.rglob("x.json")
    record = json.loads(path.read_text())
    if changed in {"profile", "lock"}:
        record[changed] = {"of_another_release": True}
    elif changed == "owner":
        record["profile"] = {"owner": "somebody", "tags": 1}
    else:
        record["created_at"] = "yesterday"
    path.write_text(json.dumps(record))
    assert [row["name"] for row in rows(call)] == ["x"]
    assert call("cost", "--rehearse")[0] == 0
    for words in (("verify", "x"), ("apply", "x"), ("monitor", "x", "--once"), ("extend", "x", "1h"), ("export", "ssh", "x")):
        code, _, err = call(*words)
        assert (code in {2, 3, 4}, "error[internal]" in err) == (True, False), (words, code, err)
        if words[0] == "extend" and changed == "profile":
            assert (code, "`gpuprov down x`" in err) == (2, True), err
    code, _, err = call("down", "x", "--yes", "--rehearse")
    assert code == 0, err
    assert aws(cloud).describe_instances(Filters=[{"Name": "instance-state-name", "Values": ["running", "pending"]}])["Reservations"] == []
