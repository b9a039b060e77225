"""The record of the state before, and what it is made of: files in one step, units, packages."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from .conftest import ME, Modules


@pytest.fixture
def ledger(modules: Modules) -> Any:
    return modules.load("module_utils.ledger")


def test_a_state_is_complete_and_a_link_is_not_followed(ledger: Any, tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    assert ledger.state_of(str(path)) == {"kind": "absent"}
    path.write_bytes(b"x")
    path.chmod(0o4640)
    assert ledger.state_of(str(path)) == {"kind": "file", "content": "eA==", "mode": 0o4640, "uid": os.geteuid(), "gid": os.getegid()}
    link.symlink_to("gone")
    assert ledger.state_of(str(link)) == {"kind": "link", "target": "gone"}
    assert ledger.state_of(str(tmp_path)) == {"kind": "folder"}


def test_folders_above_a_file_are_closed_to_others_whatever_the_umask(ledger: Any, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ledger.write(str(tmp_path / "made/here/file"), b"x", 0o600, os.geteuid(), os.getegid())
        assert os.umask(0) == 0, "the umask is put back"
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("made", "made/here")] == [0o755, 0o755]


def test_a_first_state_is_recorded_once_on_disk_and_for_root_alone(ledger: Any, tmp_path: Path) -> None:
    record = ledger.Ledger("r", str(tmp_path / "made/here"))
    assert record.data == {"files": {}, "units": {}, "folders": {}, "stamps": {}, "undo": []}
    record.note("files", "/x", {"kind": "absent"})
    record.note("files", "/x", {"kind": "folder"})
    again = ledger.Ledger("r", str(tmp_path / "made/here"))
    assert again.data["files"] == {"/x": {"kind": "absent"}}
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("made", "made/here")] == [0o755, 0o755]
    status = Path(again.path).stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (0o600, os.geteuid(), os.getegid())


def test_folders_that_are_missing_are_named_from_below(ledger: Any, tmp_path: Path) -> None:
    assert ledger.missing_folders(str(tmp_path / "a/b/c")) == [str(tmp_path / "a/b"), str(tmp_path / "a")]
    assert ledger.missing_folders(str(tmp_path / "c")) == []
    assert ledger.missing_folders("/c") == []


@pytest.mark.parametrize("call", ["write", "link"])
def test_a_failure_leaves_the_old_file_and_no_half_of_a_new_one(ledger: Any, tmp_path: Path, monkeypatch: Any, call: str) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    before = sorted(entry.name for entry in tmp_path.iterdir())
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        ledger.write(str(path), b"new", 0o644) if call == "write" else ledger.link(str(path), "/x")
    assert (path.read_text(), sorted(entry.name for entry in tmp_path.iterdir())) == ("old", before)


def test_who_is_not_root_changes_no_owner(ledger: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "chown", lambda *_: pytest.fail("only root may"))
    ledger.write(str(tmp_path / "file"), b"x", 0o600)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_putting_back_says_whether_it_did_anything(ledger: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    state = ledger.state_of(str(path))
    assert ledger.put_back(str(path), state) is False
    assert ledger.put_back(str(path), {"kind": "folder"}) is False
    assert ledger.put_back(str(path), {"kind": "link", "target": "/x"}) is True
    assert path.is_symlink()
    assert ledger.put_back(str(path), state) is True
    assert (path.read_text(), path.is_symlink()) == ("x", False)
    assert ledger.put_back(str(path), {"kind": "absent"}) is True
    assert not path.exists()


def test_a_user_and_a_group_are_told_by_name(ledger: Any) -> None:
    assert ledger.ids(ME["owner"], ME["group"]) == (os.geteuid(), os.getegid())
    with pytest.raises(KeyError):
        ledger.ids(ME["owner"], "no-such-group")


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("LoadState=loaded", "exists"),
        ("UnitFileState=enabled", "enabled"),
        ("UnitFileState=enabled-runtime", "enabled"),
        ("ActiveState=active", "active"),
        ("ActiveState=activating", "active"),
        ("ActiveState=reloading", "active"),
        ("NeedDaemonReload=yes", "stale"),
        ("LoadState=not-found", None),
        ("UnitFileState=disabled", None),
        ("UnitFileState=static", None),
        ("ActiveState=failed", None),
        ("NeedDaemonReload=no", None),
        ("", None),
    ],
)
def test_the_state_of_a_unit_is_read_word_by_word(ledger: Any, modules: Modules, line: str, state: str | None) -> None:
    modules.host.answers["systemctl show"] = (0, line)
    assert ledger.unit_state("u") == {name: name == state for name in ("exists", "enabled", "active", "stale")}


def test_a_command_answers_with_its_code_and_all_that_it_said(modules: Modules, monkeypatch: Any) -> None:
    ledger = modules.load("module_utils.ledger")
    monkeypatch.undo()
    assert ledger.run(["sh", "-c", "echo out; echo err >&2; exit 3"]) == (3, "out\nerr\n")
    assert ledger.run(["no-such-program"]) == (127, "no-such-program: not found")


def test_installed_packages_are_dpkgs_or_rpms(ledger: Any, modules: Modules) -> None:
    modules.host.answers["dpkg-query"] = (0, "ii  bash 1.0\nrc  removed 1.0\nhi  held 1.0\nun  never\n")
    assert ledger.installed_packages() == {"bash": "1.0", "held": "1.0"}
    modules.host.answers |= {"dpkg-query": (127, ""), "rpm": (0, "bash 5.1\nvim 9.0\n")}
    assert ledger.installed_packages() == {"bash": "5.1", "vim": "9.0"}
    modules.host.answers["rpm"] = (127, "rpm: not found")
    assert ledger.installed_packages() == {}


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("gcc", "gcc"),
        ("gcc=4:12*", "gcc"),
        ("gcc-12.2", "gcc"),
        ("gcc-12", "gcc-12"),  # the longest name that fits
        ("gcc-12-3.1", "gcc-12"),
        ("gcc-base", None),
        ("gc", None),
        ("cuda-toolkit-13-2-13.2.1", "cuda-toolkit-13-2"),
    ],
)
def test_a_word_for_a_package_manager_means_an_installed_package(ledger: Any, word: str, name: str | None) -> None:
    assert ledger.bare(word, {"gcc", "gcc-12", "cuda-toolkit-13-2"}) == name


def test_a_new_file_is_made_beside_the_old_one_in_a_folder_that_others_cannot_write_to(
    ledger: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a file of the same file system takes the place of another in one step."""
    made: list[str] = []
    make = ledger.tempfile.mkstemp

    def mkstemp(*args: Any, **options: Any) -> Any:
        descriptor, path = make(*args, **options)
        made.append(path)
        return descriptor, path

    monkeypatch.setattr(ledger.tempfile, "mkstemp", mkstemp)
    before = os.umask(0)
    try:
        ledger.write(str(tmp_path / "conf/file"), b"x", 0o644)
        ledger.Ledger("r", str(tmp_path / "record")).save()
    finally:
        os.umask(before)
    assert [Path(path).parent for path in made] == [tmp_path / "conf", tmp_path / "record"]
    assert {Path(path).name[:9] for path in made} == {".gpuprov-"}  # no program reads it as a configuration of its own
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("conf", "record")] == [0o755, 0o755]


def test_what_a_command_says_need_not_be_text(modules: Modules, monkeypatch: Any) -> None:
    ledger = modules.load("module_utils.ledger")
    monkeypatch.undo()
    assert ledger.run(["printf", "\\377"]) == (0, "\ufffd")


def test_a_file_is_whole_on_the_disk_before_it_takes_the_place_of_the_old_one(ledger: Any, tmp_path: Path, monkeypatch: Any) -> None:
    steps: list[tuple[str, int, int]] = []

    def note(step: str, status: os.stat_result) -> None:
        steps.append((step, status.st_ino, status.st_size))

    def replace(new: str, old: str, really: Any = os.replace) -> None:
        note("replaced", Path(new).stat())
        really(new, old)

    monkeypatch.setattr(os, "fsync", lambda descriptor: note("synced", os.fstat(descriptor)))
    monkeypatch.setattr(os, "replace", replace)
    ledger.write(str(tmp_path / "file"), b"whole", 0o600)
    inode = (tmp_path / "file").stat().st_ino
    assert steps == [("synced", inode, 5), ("replaced", inode, 5)]


@pytest.mark.parametrize(("length", "told"), [(120, "x" * 120), (121, "x" * 119 + "…")])
@pytest.mark.parametrize(("output", "reason"), [("", "it printed nothing"), ("y" * 5000, "y" * 5000)])
def test_a_command_that_fails_is_told_with_its_end(modules: Modules, length: int, told: str, output: str, reason: str) -> None:
    ledger = modules.load("module_utils.ledger")
    said: dict[str, str] = {}
    modules.host.answers["x"] = (3, output)
    ledger.must_run(SimpleNamespace(fail_json=said.update), ["x" * length])
    assert said == {"msg": f"`{told}` failed with 3: {reason}", "stderr": output[:4000]}
