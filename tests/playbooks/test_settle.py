"""The module settle: what differs is settled and remembered, what does not is left alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from .conftest import ME, Modules, Settle

NONE = {"changed": False, "changes": []}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def shown(answer: dict[str, Any]) -> str:
    return "".join(part["prepared"] for part in answer["diff"])


def test_a_file_is_written_once_with_its_folders_and_its_mode(settle: Settle, modules: Modules, tmp_path: Path) -> None:
    path = tmp_path / "a/b/file"
    file = {"path": str(path), "content": "new\n", "mode": "0640"}
    answer = settle(files=[file])
    assert (answer["changed"], answer["changes"]) == (True, [str(path)])
    assert (path.read_text(), mode(path), mode(path.parent)) == ("new\n", 0o640, 0o755)
    assert modules.record("r")["files"] == {str(path): {"kind": "absent"}}
    assert sorted(modules.record("r")["folders"]) == [str(tmp_path / "a"), str(tmp_path / "a/b")]
    assert settle(files=[file]).items() >= NONE.items()


def test_content_that_drifted_is_settled_and_shown_and_its_first_state_stays(settle: Settle, modules: Modules, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old\nsame\n")
    path.chmod(0o600)
    file = {"path": str(path), "content": "new\nsame\n"}
    assert "-old\n+new\n same" in shown(settle(files=[file]))
    assert (path.read_text(), mode(path)) == ("new\nsame\n", 0o644)
    path.write_text("drift\n")
    assert settle(files=[file])["changed"]
    first = modules.record("r")["files"][str(path)]
    assert (first["content"], first["mode"]) == ("b2xkCnNhbWUK", 0o600)


def test_a_file_that_its_own_program_refuses_is_not_put_in_place(settle: Settle, modules: Modules, tmp_path: Path) -> None:
    path = tmp_path / "file"
    file = {"path": str(path), "content": "x\n", "mode": "0440", "validate": ["visudo", "-cf"]}
    modules.host.answers["visudo -cf"] = (1, "syntax error\n")
    assert settle(files=[file])["msg"] == f"{path} is not put in place: visudo refuses it: syntax error"
    assert not path.exists()
    modules.host.answers["visudo -cf"] = (0, "")
    settle(files=[file])
    assert (path.read_text(), mode(path)) == ("x\n", 0o440)


@pytest.mark.parametrize("command", ["visudo -cf", "systemctl restart"])
def test_of_much_that_a_program_says_the_end_is_told(settle: Settle, modules: Modules, tmp_path: Path, command: str) -> None:
    modules.host.unit("u.service")
    modules.host.answers[command] = (1, "x" * 2000 + "y\n")
    file = {"path": str(tmp_path / "file"), "content": "x\n", "validate": ["visudo", "-cf"]}
    assert settle(files=[file], units=[{"name": "u.service"}])["msg"].endswith(f": {'x' * 999}y")


def test_drift_of_the_mode_alone_is_seen_and_settled(settle: Settle, tmp_path: Path) -> None:
    path = tmp_path / "file"
    file = {"path": str(path), "content": "x\n"}
    settle(files=[file])
    path.chmod(0o666)
    answer = settle(files=[file])
    assert (answer["changes"], shown(answer)) == ([str(path)], f"{path}: mode 666 -> 644\n")
    assert mode(path) == 0o644


@pytest.mark.rehearsal
@pytest.mark.parametrize(("uid", "gid"), [(4711, None), (None, 4712)])
def test_drift_of_the_owner_or_the_group_alone_is_seen_and_settled(
    settle: Settle, tmp_path: Path, uid: int | None, gid: int | None
) -> None:
    path = tmp_path / "file"
    file = {"path": str(path), "content": "x\n"}
    settle(files=[file])
    os.chown(path, -1 if uid is None else uid, -1 if gid is None else gid)
    answer = settle(files=[file])
    assert (answer["changes"], shown(answer)) == ([str(path)], f"{path}: another owner\n")
    assert (path.stat().st_uid, path.stat().st_gid) == (os.geteuid(), os.getegid())


def test_a_link_is_made_moved_and_put_in_the_place_of_a_file(settle: Settle, modules: Modules, tmp_path: Path) -> None:
    path = tmp_path / "link"
    assert settle(links=[{"path": str(path), "target": "/one"}])["changes"] == [str(path)]
    assert settle(links=[{"path": str(path), "target": "/one"}]).items() >= NONE.items()
    answer = settle(links=[{"path": str(path), "target": "/two"}])
    assert "--> /one\n+-> /two" in shown(answer)
    assert path.readlink() == Path("/two")
    path.unlink()
    path.write_text("mine")
    settle(links=[{"path": str(path), "target": "/two"}])
    assert path.readlink() == Path("/two")
    assert modules.record("r")["files"] == {str(path): {"kind": "absent"}}
    assert [entry.name for entry in tmp_path.iterdir() if "gpuprov-" in entry.name and entry.name != "gpuprov-home"] == []


def test_a_file_replaces_a_link_and_leaves_its_target_alone(settle: Settle, modules: Modules, tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "link"
    target.write_text("of somebody else")
    path.symlink_to(target)
    settle(files=[{"path": str(path), "content": "ours\n"}])
    assert (path.is_symlink(), path.read_text(), target.read_text()) == (False, "ours\n", "of somebody else")
    assert modules.record("r")["files"][str(path)] == {"kind": "link", "target": str(target)}


def test_what_must_not_be_there_is_removed_with_its_content_remembered(settle: Settle, modules: Modules, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    assert settle(absent=[str(path)])["changes"] == [str(path)]
    assert not path.exists()
    assert modules.record("r")["files"][str(path)]["content"] == "eA=="
    assert settle(absent=[str(path)]).items() >= NONE.items()


@pytest.mark.parametrize("kind", ["file", "link", "absent"])
def test_a_folder_is_never_replaced(settle: Settle, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    asked: dict[str, dict[str, Any]] = {
        "file": {"files": [{"path": str(path), "content": ""}]},
        "link": {"links": [{"path": str(path), "target": "/x"}]},
        "absent": {"absent": [str(path)]},
    }
    answer = settle(**asked[kind])
    assert (answer["failed"], path.is_dir()) == (True, True)
    assert answer["msg"] == f"{path} is a folder, and a {kind} belongs there: move it away"


def test_a_dry_run_says_what_would_change_and_changes_nothing(settle: Settle, modules: Modules, tmp_path: Path) -> None:
    path, gone = tmp_path / "file", tmp_path / "gone"
    gone.write_text("x")
    modules.host.unit("u.service")
    answer = settle(
        check=True,
        files=[{"path": str(path), "content": "x\n"}, {"path": str(path), "content": "", "owner": "nobody-has-this-name"}],
        links=[{"path": str(tmp_path / "l"), "target": "/x"}],
        absent=[str(gone)],
        noted=[str(gone)],
        follow=[{"argv": ["ldconfig"]}],
        units=[{"name": "u.service"}, {"name": "not-there-yet.service"}],
    )
    assert answer["changed"]
    assert [change.partition(" (")[0] for change in answer["changes"]] == [
        *(str(path), str(path), str(tmp_path / "l"), str(gone), "ldconfig"),
        *("enable u.service", "restart u.service", "enable not-there-yet.service", "restart not-there-yet.service"),
    ]
    assert (path.exists(), gone.exists(), (tmp_path / "changes").exists(), modules.host.ran) == (False, True, False, [])


def test_an_owner_who_does_not_exist_stops_a_real_run(settle: Settle, tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        settle(files=[{"path": str(tmp_path / "x"), "content": "", "owner": "nobody-has-this-name"}])


def test_what_another_task_will_write_is_remembered_as_it_is(settle: Settle, modules: Modules, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert settle(noted=[str(tmp_path / "a"), str(tmp_path / "b")]).items() >= NONE.items()
    files = modules.record("r")["files"]
    assert (files[str(tmp_path / "a")]["content"], files[str(tmp_path / "b")]) == ("eA==", {"kind": "absent"})


@pytest.mark.parametrize(
    ("part", "item", "missing"),
    [
        ("files", {"path": "/x"}, "content"),
        ("files", {"content": "x"}, "path"),
        ("links", {"path": "/x"}, "target"),
        ("links", {"target": "/x"}, "path"),
        ("follow", {"also": "x"}, "argv"),
        ("units", {"enabled": False}, "name"),
    ],
)
def test_an_item_that_is_not_whole_is_refused_before_anything_changes(
    settle: Settle, tmp_path: Path, part: str, item: dict[str, Any], missing: str
) -> None:
    (tmp_path / "file").touch()
    answer = settle(**{"absent": [str(tmp_path / "file")], part: [item]})
    assert (answer["failed"], answer["msg"]) == (True, f"missing required arguments: {missing} found in {part}")
    assert (tmp_path / "file").exists()


# --- commands that follow


def follow(**more: Any) -> list[dict[str, Any]]:
    return [{"argv": ["update-initramfs", "-u"], **more}]


def test_a_command_follows_a_change_and_not_the_lack_of_one(settle: Settle, modules: Modules, tmp_path: Path) -> None:
    file = {"path": str(tmp_path / "file"), "content": "x\n"}
    assert settle(files=[file], follow=follow())["changes"] == [str(tmp_path / "file"), "update-initramfs -u"]
    assert settle(files=[file], follow=follow()).items() >= NONE.items()
    assert modules.host.ran == ["update-initramfs -u"]
    assert modules.record("r")["undo"] == [["update-initramfs", "-u"]]
    (tmp_path / "file").chmod(0o600)
    assert "update-initramfs -u" in settle(files=[file], follow=follow())["changes"]
    assert settle(files=[{**file, "content": "y\n"}], follow=follow())["changes"][-1] == "update-initramfs -u"
    assert modules.host.ran == ["update-initramfs -u"] * 3
    assert modules.record("r")["undo"] == [["update-initramfs", "-u"]]


def test_a_command_follows_no_other_order_of_the_words_of_a_file(settle: Settle, modules: Modules, tmp_path: Path) -> None:
    file = {**ME, "path": str(tmp_path / "file"), "content": "x\n"}
    settle(files=[file], follow=follow())
    modules.call("settle", role="r", files=[dict(reversed(file.items()))], follow=follow())
    assert modules.host.ran == ["update-initramfs -u"]


def test_a_command_follows_another_value_too(settle: Settle, modules: Modules) -> None:
    for also in ("580", "580", "590"):
        settle(follow=follow(also=also))
    assert len(modules.host.ran) == 2


def test_a_command_that_failed_runs_again_although_nothing_changed(settle: Settle, modules: Modules) -> None:
    modules.host.answers["update-initramfs"] = (1, "no space left\n")
    answer = settle(follow=follow())
    assert (answer["failed"], answer["msg"]) == (True, "`update-initramfs -u` failed with 1: no space left")
    del modules.host.answers["update-initramfs"]
    assert settle(follow=follow())["changes"] == ["update-initramfs -u"]


def test_the_reason_is_the_last_line_of_a_command_and_a_long_command_leaves_room_for_it(settle: Settle, modules: Modules) -> None:
    modules.host.answers["update-initramfs"] = (1, "WARNING: ignored\nmore\nERROR: no such wheel\n")
    answer = settle(follow=follow(argv=["update-initramfs", *["--option"] * 40]))
    assert answer["msg"].endswith("…` failed with 1: ERROR: no such wheel")
    assert len(answer["msg"]) < 180
    assert "WARNING: ignored" in answer["stderr"]


def test_a_command_runs_again_where_its_effect_is_gone(settle: Settle, modules: Modules) -> None:
    settle(follow=follow(proof=["grep", "x"]))
    assert settle(follow=follow(proof=["grep", "x"])).items() >= NONE.items()
    modules.host.answers["grep"] = (1, "")
    assert settle(follow=follow(proof=["grep", "x"]))["changes"] == ["update-initramfs -u"]


@pytest.mark.parametrize(("undo", "recorded"), [(None, [["update-initramfs", "-u"]]), (["true"], [["true"]]), ([], [])])
def test_what_follows_an_undo_is_recorded(settle: Settle, modules: Modules, undo: list[str] | None, recorded: list[list[str]]) -> None:
    settle(follow=follow(undo=undo))
    assert modules.record("r")["undo"] == recorded


def test_files_that_nothing_follows_let_no_command_of_the_role_run_again(settle: Settle, modules: Modules, tmp_path: Path) -> None:
    """What a login shows is written beside gigabytes of wheels, which another text must not install again."""
    wheels, shown = {"path": str(tmp_path / "wheels"), "content": "x\n"}, {"path": str(tmp_path / "shown"), "content": "x\n"}
    for text in ("x\n", "y\n", "y\n"):
        settle(files=[wheels], follow=follow())
        settle(files=[{**shown, "content": text}])
    assert settle(files=[wheels], follow=follow()).items() >= NONE.items()
    assert modules.host.ran == ["update-initramfs -u"]
    assert set(modules.record("r")["files"]) == {wheels["path"], shown["path"]}
    settle(files=[{**wheels, "content": "y\n"}], follow=follow())
    assert modules.host.ran == ["update-initramfs -u"] * 2


def test_a_command_applies_only_where_what_it_needs_is(settle: Settle, modules: Modules, tmp_path: Path) -> None:
    assert settle(follow=follow(needs=str(tmp_path / "no"))).items() >= NONE.items()
    assert modules.host.ran == []
    assert settle(follow=follow(needs=str(tmp_path)))["changes"] == ["update-initramfs -u"]


# --- units


def test_a_unit_is_enabled_and_started_once_with_its_state_before(settle: Settle, modules: Modules) -> None:
    modules.host.unit("u.service")
    assert settle(units=[{"name": "u.service"}])["changes"] == ["enable u.service", "restart u.service"]
    assert modules.host.ran == ["systemctl enable --quiet u.service", "systemctl restart u.service"]
    assert modules.record("r")["units"] == {"u.service": {"enabled": False, "active": False}}
    assert settle(units=[{"name": "u.service"}]).items() >= NONE.items()


def test_a_unit_that_stopped_is_started_and_one_that_may_fail_is_left(settle: Settle, modules: Modules) -> None:
    for optional in (False, True):
        modules.host.unit("u.service", enabled=True, active=True)
        settle(units=[{"name": "u.service", "optional": optional}])
        modules.host.unit("u.service", enabled=True, active=False)
        again = settle(units=[{"name": "u.service", "optional": optional}])
        assert again["changes"] == ([] if optional else ["start u.service"])
    assert modules.host.ran == ["systemctl restart u.service", "systemctl start u.service"]


def test_a_unit_is_restarted_after_a_change_of_a_file(settle: Settle, modules: Modules, tmp_path: Path) -> None:
    modules.host.unit("u.service", enabled=True, active=True)
    for content, restarts in (("a", 1), ("a", 1), ("b", 2)):
        settle(files=[{"path": str(tmp_path / "conf"), "content": content}], units=[{"name": "u.service"}])
        assert modules.host.ran.count("systemctl restart u.service") == restarts


def test_a_unit_is_disabled_and_not_started(settle: Settle, modules: Modules) -> None:
    modules.host.unit("u.service", enabled=True)
    unit = {"name": "u.service", "enabled": False, "started": False}
    assert settle(units=[unit])["changes"] == ["disable u.service"]
    assert modules.host.ran == ["systemctl disable --quiet u.service"]
    assert settle(units=[unit]).items() >= NONE.items()


def test_a_unit_whose_file_is_newer_than_systemds_knowledge_is_read_again(settle: Settle, modules: Modules) -> None:
    modules.host.unit("u.service", enabled=True, active=True, stale=True)
    settle(units=[{"name": "u.service"}])
    assert modules.host.ran[0] == "systemctl daemon-reload"
    modules.host.unit("u.service", enabled=True, active=True, stale=True)
    settle(check=True, units=[{"name": "u.service"}])
    assert modules.host.ran.count("systemctl daemon-reload") == 1


def test_a_unit_that_is_not_there_or_does_not_start_stops_the_run(settle: Settle, modules: Modules) -> None:
    assert settle(units=[{"name": "no.service"}])["msg"] == "there is no unit no.service"
    modules.host.unit("u.service")
    modules.host.answers["systemctl restart"] = (1, "Job failed\n")
    assert settle(units=[{"name": "u.service"}])["msg"] == "u.service does not start: Job failed"
    assert not settle(units=[{"name": "u.service", "optional": True}]).get("failed")
    modules.host.answers["systemctl enable"] = (5, "read-only\n")
    modules.host.unit("v.service")
    assert "`systemctl enable --quiet v.service` failed with 5: read-only" in settle(units=[{"name": "v.service"}])["msg"]


@pytest.mark.parametrize("command", ["systemctl daemon-reload", "systemctl start u.service"])
def test_a_unit_that_is_not_read_again_or_does_not_start_again_stops_the_run(settle: Settle, modules: Modules, command: str) -> None:
    modules.host.unit("u.service", enabled=True, active=True)
    settle(units=[{"name": "u.service"}])
    modules.host.unit("u.service", enabled=True, stale=True)
    modules.host.answers[command] = (1, "Job failed\n")
    assert settle(units=[{"name": "u.service"}])["msg"] == f"`{command}` failed with 1: Job failed"


def test_a_unit_that_is_started_or_disabled_is_remembered_as_it_was(settle: Settle, modules: Modules) -> None:
    modules.host.unit("u.service", enabled=True)
    settle(units=[{"name": "u.service"}])
    modules.host.unit("v.service", enabled=True, active=True)
    settle(units=[{"name": "v.service", "enabled": False, "started": False}])
    remembered = {"u.service": {"enabled": True, "active": False}, "v.service": {"enabled": True, "active": True}}
    assert modules.record("r")["units"] == remembered


def test_a_file_gets_its_owner_and_its_group(modules: Modules, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owners: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(
        os, "fchown", lambda _file, uid, gid: owners.append((uid, gid))
    )  # not by its name, which may lead elsewhere by then
    monkeypatch.setattr(modules.load("modules.settle"), "ids", lambda owner, group: {("ann", "staff"): (1001, 1002)}[owner, group])
    file = {"path": str(tmp_path / "conf"), "content": "x", "owner": "ann", "group": "staff"}
    modules.call("settle", role="r", files=[file])
    assert (1001, 1002) in owners


def test_a_command_follows_a_file_that_is_no_longer_asked_for_and_not_another_way_to_prove_one(
    settle: Settle, modules: Modules, tmp_path: Path
) -> None:
    one, two = ({"path": str(tmp_path / name), "content": name} for name in ("one", "two"))
    follow = [{"argv": ["apply"]}]
    for files, runs in (([one, two], 1), ([one], 2), ([{**one, "validate": ["true"]}], 2)):
        settle(files=files, follow=follow)
        assert modules.host.ran.count("apply") == runs


def test_the_difference_names_both_states_and_the_mode_where_no_line_differs(settle: Settle, tmp_path: Path) -> None:
    path = str(tmp_path / "conf")
    assert settle(files=[{"path": path, "content": ""}])["diff"] == [{"prepared": f"{path}: mode 0 -> 644\n"}]
    text = settle(files=[{"path": path, "content": "x\n"}])["diff"][0]["prepared"]
    assert text.startswith(f"--- {path} (before)\n+++ {path} (after)\n")
    settle(files=[{"path": path, "content": ""}])
    assert settle(absent=[path])["diff"] == [{"prepared": f"{path}: mode 644 -> 0\n"}]


def test_a_unit_is_restarted_where_its_proof_fails(settle: Settle, modules: Modules) -> None:
    modules.host.unit("u.service")
    unit = {"name": "u.service", "proof": ["test", "-d", "/run/u"]}
    settle(units=[unit])
    assert settle(units=[unit]).items() >= NONE.items()
    modules.host.answers["test -d"] = (1, "")
    assert settle(check=True, units=[unit])["changes"] == ["restart u.service"]
    assert modules.host.ran.count("systemctl restart u.service") == 1
    assert settle(units=[unit])["changes"] == ["restart u.service"]
    assert modules.host.ran.count("systemctl restart u.service") == 2
