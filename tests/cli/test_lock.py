"""`gpuprov lock`, and what other commands do with a lock that does not hold."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from provision.profile import load
from tests.cli.conftest import Call


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A copy of a shipped profile and its lock."""
    shutil.copy(load.find("v100-train"), tmp_path)
    shutil.copy(load.find("v100-train").with_name("v100-train.lock.yml"), tmp_path)
    return tmp_path / "v100-train.yml"


def changed(path: Path, old: str, new: str) -> Path:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.parametrize(
    ("change", "said", "way_out"),
    [
        (("pytorch: auto", "pytorch: 2.15.0"), "none for V100 (sm_70)", "2.10.0"),
        (('driver: "580"', 'driver: "595"'), "V100", "580"),
    ],
)
def test_a_stack_that_cannot_be_is_refused_with_its_core_and_the_nearest_change(
    call: Call, own: Path, change: tuple[str, str], said: str, way_out: str
) -> None:
    changed(own, *change)
    for command in ("lock", "explain"):
        code, out, err = call(command, str(own))
        assert (code, out) == (2, ""), command
        assert "error[stack-conflict]" in err
        assert said in err
        assert way_out in err.partition("hint: ")[2]


def test_a_cudnn_that_is_older_than_the_system_is_refused(call: Call, tmp_path: Path) -> None:
    path = Path(shutil.copy(load.find("t4-train"), tmp_path))
    changed(path, "cudnn: auto", "cudnn: 8.9.7.29")
    code, _, err = call("lock", str(path))
    assert (code, "error[stack-conflict]" in err) == (2, True)
    assert "NVIDIA's repository for ubuntu 24.04 begins with cuDNN 9.3 and has no 8.9.7.29" in err
    changed(path, 'version: "24.04"', 'version: "22.04"')
    assert call("lock", str(path))[0] == 0


def test_a_lock_of_ubuntus_own_archive_is_refused_where_it_would_not_hold(call: Call, tmp_path: Path) -> None:
    path = Path(shutil.copy(load.find("t4-train"), tmp_path))
    changed(path, "\ngpu:\n", "\nsources: {packages: distribution}\n\ngpu:\n")
    assert call("lock", str(path), "-o", "-")[1].count("branch: '580'") == 1
    changed(path, "driver: auto", 'driver: "595"')
    code, _, err = call("lock", str(path))
    assert code == 2
    assert "ubuntu 24.04's driver 595 becomes an empty package that depends on the next branch, so no lock of it lasts" in err


def test_lock_writes_and_checks(call: Call, own: Path) -> None:
    target = own.with_name("v100-train.lock.yml")
    text = target.read_text()
    assert call("lock", "--check", str(own))[0] == 0
    target.unlink()
    code, _, err = call("lock", "--check", str(own))
    assert (code, "error[lock-invalid]" in err) == (2, True)
    assert call("lock", str(own))[0] == 0
    assert target.read_text() == text
    assert call("lock", str(own), "-o", "-")[1] == text


def test_a_disk_that_is_full_takes_no_lock(call: Call, own: Path) -> None:
    target = own.with_name("v100-train.lock.yml")
    before = target.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))  # a file cannot grow, as on a full disk
    try:
        code, _, err = call("lock", str(own))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (code, "cannot write" in err) == (2, True), err
    assert target.read_bytes() == before
    assert sorted(path.name for path in own.parent.iterdir()) == ["v100-train.lock.yml", "v100-train.yml"]


def test_a_lock_that_would_come_out_otherwise_is_stale_and_the_difference_is_told(call: Call, own: Path) -> None:
    changed(own, "pytorch: auto", "pytorch: 2.9.1")
    code, _, err = call("lock", "--check", str(own))
    assert code == 2
    assert "error[lock-stale]" in err
    assert "frameworks.pytorch.version: 2.10.0 → 2.9.1" in err
    code, out, _ = call("diff", str(own.with_name("v100-train.lock.yml")), str(own))
    assert code == 1
    assert "frameworks.pytorch.wheels: torch 2.10.0 → 2.9.1" in out
    _, out, _ = call("lock", str(own))
    assert "frameworks.pytorch.version: 2.10.0 → 2.9.1" in out
    assert call("diff", str(own.with_name("v100-train.lock.yml")), str(own))[:2] == (0, "no difference\n")


@pytest.mark.parametrize(
    "command", [["plan", "-p"], ["apply", "localhost", "-p"], ["up", "--rehearse", "-p"], ["verify", "localhost", "-p"]]
)
def test_no_command_goes_on_with_a_stale_lock(call: Call, own: Path, command: list[str]) -> None:
    changed(own, "pytorch: auto", "pytorch: 2.9.1")
    code, out, err = call(*command, str(own))
    assert (code, out) == (2, "")
    assert "error[lock-stale]" in err


def test_a_lock_edited_by_hand_is_refused(call: Call, own: Path) -> None:
    changed(own.with_name("v100-train.lock.yml"), "branch: '580'", "branch: '570'")
    code, _, err = call("plan", "-p", str(own))
    assert (code, "was changed by hand" in err) == (2, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: " + "[" * 100_000, "nested more than 12 deep"),
        ("a: &a [x, x]\n" + "".join(f"{name}: &{name} [*a, *a]\n" for name in "bcdefgh"), "anchor"),
        ("x" * 300_000, "larger than 256 KiB"),
        ("created: 2026-02-31\n", "not a lock"),
        ("created: 2026-01-01 00:00:00+99:99\n", "not a lock"),
        ("n: " + "1" + ":59" * 400 + "\n", "not a lock"),
        ("n: 0x" + "f" * 4000 + "\n", "not a lock"),
        ("- a\n", "not a lock"),
        ("", "not a lock"),
    ],
    ids=["deep", "aliases", "large", "no date", "no offset", "base 60", "digits", "a list", "empty"],
)
def test_a_lock_that_would_hurt_its_reader_is_refused(own: Path, text: str, said: str) -> None:
    """In a process of its own: libyaml once ended it with SIGSEGV."""
    own.with_name("v100-train.lock.yml").write_text(text)
    done = subprocess.run([sys.executable, "-m", "provision", "plan", "-p", str(own)], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done
    assert done.stderr.startswith("error[lock-invalid]: ")
    assert said in done.stderr


@pytest.mark.parametrize("kind", ["device", "pipe", "loop", "nothing"])
def test_a_lock_that_is_no_file_is_refused(call: Call, own: Path, kind: str) -> None:
    lock = own.with_name("v100-train.lock.yml")
    lock.unlink()
    if kind == "pipe":
        os.mkfifo(lock)
    else:
        lock.symlink_to({"device": Path("/dev/zero"), "loop": lock, "nothing": own.with_name("gone")}[kind])
    code, _, err = call("plan", "-p", str(own))
    assert (code, err.startswith("error[lock-invalid]: ")) == (2, True), err


def test_a_lock_on_standard_output_is_json_where_json_is_asked_for(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, text, _ = call("lock", "t4-train", "-o", "-")
    assert code == 0
    code, out, _ = call("lock", "t4-train", "-o", "-", "--json")
    said = json.loads(out)
    assert (code, said["path"], said["sha256"] in text, list(tmp_path.iterdir())) == (0, "-", True, [])
    assert said["lock"]["driver"]["branch"] in text
