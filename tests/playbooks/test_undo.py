"""The module undo: what roles changed is what it was before, and nothing else is touched."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from .conftest import Modules, Settle


@pytest.fixture
def undo(modules: Modules) -> Any:
    return lambda *roles, check=False: modules.call("undo", check=check, roles=list(roles or ("r",)))


def test_files_links_and_folders_are_what_they_were(settle: Settle, undo: Any, tmp_path: Path) -> None:
    changed, link, gone, new = (tmp_path / name for name in ("changed", "link", "gone", "a/b/new"))
    for path, text in ((changed, "old"), (gone, "here")):
        path.write_text(text)
        path.chmod(0o600)
    link.symlink_to("/old")
    settle(
        files=[{"path": str(changed), "content": "new"}, {"path": str(new), "content": "new"}],
        links=[{"path": str(link), "target": "/new"}],
        absent=[str(gone)],
    )
    answer = undo()
    assert answer["changes"] == [f"{link}: put back", f"{gone}: put back", f"{changed}: put back", f"{new}: removed"]
    assert answer["changed"]
    for path, text in ((changed, "old"), (gone, "here")):
        assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == (text, 0o600)
    assert link.readlink() == Path("/old")
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "changes/r.json").exists()
    assert (undo()["changed"], undo()["changes"], undo()["diff"]) == (False, [], [])


def test_what_stands_in_the_way_is_named_and_a_later_run_goes_on(settle: Settle, undo: Any, tmp_path: Path) -> None:
    first, last = tmp_path / "first", tmp_path / "last"
    settle(files=[{"path": str(first), "content": "new"}, {"path": str(last), "content": "new"}])
    last.unlink()
    last.mkdir()
    answer = undo()
    assert (answer["failed"], str(last) in answer["msg"], first.exists()) == (True, True, True)
    last.rmdir()
    assert undo()["changes"] == [f"{first}: removed"]


@pytest.mark.rehearsal
@pytest.mark.parametrize("bits", [0o4711, 0o1777, 0o000, 0o2755])
def test_an_unusual_owner_and_mode_are_restored(settle: Settle, undo: Any, tmp_path: Path, bits: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\x00\xff not text")
    os.chown(path, 4711, 4712)
    path.chmod(bits)
    settle(files=[{"path": str(path), "content": "ours\n"}])
    assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (0, 0o644)
    undo()
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (4711, 4712, bits)
    assert path.read_bytes() == b"\x00\xff not text"


def test_only_the_mode_was_changed_and_is_put_back(settle: Settle, undo: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("same\n")
    path.chmod(0o640)
    settle(files=[{"path": str(path), "content": "same\n"}])
    assert undo()["changes"] == [f"{path}: put back"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_dry_run_says_what_it_would_do_and_does_nothing(settle: Settle, undo: Any, modules: Modules, tmp_path: Path) -> None:
    path = tmp_path / "a/file"
    modules.host.unit("u.service")
    settle(files=[{"path": str(path), "content": "x"}], follow=[{"argv": ["ldconfig"]}], units=[{"name": "u.service"}])
    modules.host.ran.clear()
    answer = undo(check=True)
    assert answer["changes"] == ["stop u.service", "disable u.service", f"{path}: removed", "ldconfig"]
    assert answer["diff"] == [{"prepared": "\n".join(answer["changes"])}]
    assert (path.exists(), modules.host.ran, (tmp_path / "changes/r.json").exists()) == (True, [], True)
    assert undo()["changes"] == answer["changes"]
    assert modules.host.ran == ["systemctl stop u.service", "systemctl disable --quiet u.service", "ldconfig", "systemctl daemon-reload"]


def test_a_folder_with_something_in_it_stays(settle: Settle, undo: Any, tmp_path: Path) -> None:
    settle(files=[{"path": str(tmp_path / "a/b/file"), "content": "x"}])
    (tmp_path / "a/mine").write_text("x")
    undo()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["mine"]


def test_a_folder_that_stood_where_a_task_was_to_write_is_left_alone(settle: Settle, undo: Any, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    settle(noted=[str(tmp_path / "folder")])
    (tmp_path / "folder").rmdir()
    (tmp_path / "folder").write_text("of somebody else")
    assert undo()["changes"] == []
    assert (tmp_path / "folder").read_text() == "of somebody else"


def test_folders_that_somebody_removed_do_not_stop_an_undo_and_a_dry_run_removes_none(settle: Settle, undo: Any, tmp_path: Path) -> None:
    settle(files=[{"path": str(tmp_path / "a/b/file"), "content": "x"}])
    (tmp_path / "a/b/file").unlink()
    undo(check=True)
    assert (tmp_path / "a/b").is_dir()
    (tmp_path / "a/b").rmdir()
    assert undo()["changes"] == []
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("module", "missing"),
    [
        ("settle", "role"),
        ("undo", "roles"),
        ("remember", "packages_by_role"),
        ("driver", "module"),
        ("preflight", "free_gb, system, systems, wait_s"),
    ],
)
def test_a_module_says_which_of_its_arguments_are_missing(modules: Modules, module: str, missing: str) -> None:
    answer = modules.call(module)
    assert answer["failed"]
    assert answer["msg"] == f"missing required arguments: {missing}"


@pytest.mark.parametrize(
    ("before", "now", "changes"),
    [
        ((False, False), (True, True), ["stop u.service", "disable u.service"]),
        ((True, True), (True, True), []),
        ((True, False), (True, True), ["stop u.service"]),
        ((False, True), (True, True), ["disable u.service"]),
        ((False, False), (False, False), []),
    ],
)
def test_a_unit_is_stopped_and_disabled_only_if_it_was_so_before(
    undo: Any, modules: Modules, before: tuple[bool, bool], now: tuple[bool, bool], changes: list[str]
) -> None:
    modules.host.unit("u.service", enabled=now[0], active=now[1])
    record(modules, "r", units={"u.service": {"enabled": before[0], "active": before[1]}})
    assert undo()["changes"] == changes
    assert [line for line in modules.host.ran if "daemon-reload" not in line] == [
        f"systemctl {change.replace('disable', 'disable --quiet')}" for change in changes
    ]


def record(modules: Modules, role: str, **parts: Any) -> None:
    (modules.folder / "changes").mkdir(exist_ok=True)
    (modules.folder / "changes" / f"{role}.json").write_text(json.dumps(parts))


def test_the_last_role_is_undone_first_and_packages_last(undo: Any, modules: Modules) -> None:
    for role in ("first", "second"):
        record(modules, role, undo=[[role]])
    record(modules, "packages", undo=[["never-run"]], before=[], wanted={"first": ["nvidia-dkms"]})
    modules.host.answers["dpkg-query"] = (0, "ii  nvidia-dkms 1.0\nii  bash 1.0\n")
    modules.monkeypatch.setattr(os.path, "exists", lambda path, real=os.path.exists: path == "/usr/bin/apt-get" or real(path))
    modules.monkeypatch.setenv("DEBIAN_FRONTEND", "as it was")
    assert undo("packages", "first", "second")["changes"] == ["second", "first", "remove nvidia-dkms"]
    assert os.environ["DEBIAN_FRONTEND"] == "noninteractive"


def test_a_command_that_fails_stops_the_undo_with_its_record_kept(undo: Any, modules: Modules) -> None:
    record(modules, "r", undo=[["ldconfig"]])
    modules.host.answers["ldconfig"] = (2, "broken\n")
    assert undo()["msg"] == "`ldconfig` failed with 2: broken"
    assert (modules.folder / "changes/r.json").exists()


@pytest.fixture
def apt(modules: Modules) -> Modules:
    modules.monkeypatch.setattr(os.path, "exists", lambda path, real=os.path.exists: path == "/usr/bin/apt-get" or real(path))
    modules.monkeypatch.setenv("DEBIAN_FRONTEND", "as it was")
    modules.host.answers["dpkg-query"] = (0, "ii  bash 1.0\nii  ours 1.0\nii  shared 1.0\nii  older 1.0\nhi  held 1.0\n")
    return modules


ROLES = {"a": ["ours=1.0", "shared", "older", "held", "not-installed"], "b": ["shared"]}


def test_packages_of_these_roles_alone_go_and_older_ones_stay(undo: Any, apt: Modules) -> None:
    record(apt, "packages", before=["bash", "older"], wanted=ROLES)
    apt.host.answers["apt-get -o"] = (0, "Inst x\nRemv dependency [1.0]\nRemv older [1.0]\n")
    assert undo("a")["changes"] == ["remove held ours"]
    assert apt.host.ran == [
        "apt-mark unhold held ours",
        "apt-get purge --yes --quiet held ours",
        "apt-get -o APT::AutoRemove::RecommendsImportant=false -o APT::AutoRemove::SuggestsImportant=false --simulate autoremove",
        "apt-get purge --yes --quiet dependency",
    ]
    assert apt.record("packages")["wanted"] == {"b": ["shared"]}


def test_the_record_of_packages_goes_with_the_last_role(undo: Any, apt: Modules) -> None:
    record(apt, "packages", before=["bash", "older"], wanted=ROLES)
    assert undo("a", "b")["changes"] == ["remove held ours shared"]
    assert len(apt.host.ran) == 3, "no orphans"
    assert not (apt.folder / "changes/packages.json").exists()


def test_a_dry_run_removes_no_package(undo: Any, apt: Modules) -> None:
    record(apt, "packages", before=[], wanted=ROLES)
    assert undo("a", check=True)["changes"] == ["remove held older ours"]
    assert apt.host.ran == []
    assert apt.record("packages")["wanted"] == ROLES


@pytest.mark.parametrize(
    "command",
    [
        "systemctl stop u.service",
        "systemctl disable --quiet u.service",
        "apt-mark unhold held ours",
        "apt-get purge --yes --quiet held ours",
        "apt-get purge --yes --quiet dependency",
    ],
)
def test_whatever_command_fails_stops_the_undo_and_no_package_is_forgotten(undo: Any, apt: Modules, command: str) -> None:
    record(apt, "a", units={"u.service": {"enabled": False, "active": False}})
    record(apt, "packages", before=["bash", "older"], wanted=ROLES)
    apt.host.unit("u.service", enabled=True, active=True)
    apt.host.answers |= {"apt-get -o": (0, "Remv dependency [1.0]\n"), command: (100, "locked\n")}
    assert undo("a")["msg"] == f"`{command}` failed with 100: locked"
    assert (apt.folder / "changes/a.json").exists() is command.startswith("systemctl")
    assert apt.record("packages")["wanted"] == ROLES


def test_dnf_removes_where_there_is_no_apt(undo: Any, modules: Modules) -> None:
    record(modules, "packages", before=["older"], wanted={"a": ["ours-1.2*", "older"]})
    modules.host.answers |= {"dpkg-query": (127, ""), "rpm": (0, "ours 1.2\nolder 1\n")}
    modules.monkeypatch.setattr(os.path, "exists", lambda path, real=os.path.exists: path != "/usr/bin/apt-get" and real(path))
    modules.host.answers["dnf remove"] = (1, "locked\n")
    assert undo("a")["msg"] == "`dnf remove --assumeyes --quiet ours` failed with 1: locked"
    assert modules.record("packages")["wanted"] == {"a": ["ours-1.2*", "older"]}
    del modules.host.answers["dnf remove"]
    assert undo("a")["changes"] == ["remove ours"]
    assert modules.host.ran[-1] == "dnf remove --assumeyes --quiet ours"
