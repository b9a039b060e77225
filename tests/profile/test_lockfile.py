"""Lock files: whole or refused, compared value by value."""

import datetime as dt
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.errors import LockInvalidError, LockStaleError
from provision.profile import load, lockfile
from provision.profile.lock import build
from provision.profile.locked import Lock

TODAY = dt.date(2026, 11, 21)


@pytest.fixture(scope="module")
def lock() -> Lock:
    return build(load.load(load.find("v100-train")), TODAY)


def test_what_is_written_is_read_back(lock: Lock, tmp_path: Path) -> None:
    path = tmp_path / "x.lock.yml"
    path.write_text(lockfile.dump(lock))
    assert lockfile.read(path) == lock


def test_a_line_changed_by_hand_is_noticed(lock: Lock) -> None:
    text = lockfile.dump(lock)
    assert "branch: '580'" in text
    with pytest.raises(LockInvalidError) as caught:
        lockfile.parse(text.replace("branch: '580'", "branch: '595'"), "x.lock.yml")
    assert "x.lock.yml was changed by hand" in caught.value.message


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_file_cut_off_anywhere_is_refused(data: st.DataObject) -> None:
    text = (load.find("t4-train").with_name("t4-train.lock.yml")).read_text()
    cut = data.draw(st.integers(0, len(text.rstrip()) - 1))
    with pytest.raises(LockInvalidError):
        lockfile.parse(text[:cut], "x")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "its last line has no digest"),
        ("[]", "its last line has no digest"),
        ("a: b", "its last line has no digest"),
        ("a: 1\nb: [", "is not YAML"),
        ("sha256: x", "schema: is missing"),
        ("schema: 1\ngcc: 1\nsha256: x", "profile: is missing"),
        ("schema: one\nsha256: x", "schema: cannot be 'one'"),
        ("schema: 0x" + "f" * 4000 + "\nsha256: x", "schema: cannot be 'a number of too many digits'"),
        ("a: 2026-02-31\nsha256: x", "it holds a value that cannot be"),
        ("\x00", "not"),
        ("!!python/object:os.system {}", "uses the tag"),
    ],
)
def test_what_is_no_lock_is_refused_in_our_own_words(text: str, why: str) -> None:
    with pytest.raises(LockInvalidError) as caught:
        lockfile.parse(text, "x")
    assert caught.value.message.startswith("x is not a lock: ")
    assert why in caught.value.message
    assert "validation error" not in caught.value.message


def test_a_number_that_python_does_not_write_is_no_part_of_a_lock(lock: Lock) -> None:
    text = lockfile.dump(lock)
    gcc = f"gcc: {lock.cuda.gcc}\n"
    assert gcc in text
    with pytest.raises(LockInvalidError, match="it holds a value that cannot be"):
        lockfile.parse(text.replace(gcc, "gcc: 0x" + "f" * 4000 + "\n"), "x")


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"a: b\n" * 60_000])
def test_a_file_of_other_bytes_or_too_many_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "x.lock.yml"
    path.write_bytes(raw)
    with pytest.raises(LockInvalidError):
        lockfile.read(path)


def test_the_lock_of_a_profile_that_changed_since_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t4-train.yml"
    shutil.copy(load.find("t4-train"), path)
    shutil.copy(load.find("t4-train").with_name("t4-train.lock.yml"), tmp_path)
    assert lockfile.find(path, load.load(path)) is not None
    path.write_text(path.read_text().replace("deadline_h: 12", "deadline_h: 13"))
    with pytest.raises(LockStaleError) as caught:
        lockfile.find(path, load.load(path))
    assert caught.value.hint == f"`gpuprov lock {path} --check` shows what would change, and `gpuprov lock {path}` writes it again"


def test_differences_are_told_value_by_value(lock: Lock) -> None:
    other = lock.model_copy(
        update={"driver": lock.driver.model_copy(update={"branch": "575", "packages": ("a", *lock.driver.packages[1:])})}
    )
    assert lockfile.changes(lock, lock) == []
    assert lockfile.changes(lock, other) == [
        "driver.branch: 580 → 575",
        f"driver.packages: - {lock.driver.packages[0]}",
        "driver.packages: + a",
    ]


def test_a_wheel_with_another_version_is_one_line_and_with_other_hashes_another(lock: Lock) -> None:
    torch = lock.frameworks["pytorch"]

    def with_wheels(*wheels: str) -> Lock:
        return lock.model_copy(update={"frameworks": {"pytorch": torch.model_copy(update={"wheels": wheels})}})

    old = with_wheels("numpy==2.0 --hash=sha256:aa", "same==1 --hash=sha256:cc")
    assert lockfile.changes(old, with_wheels("numpy==2.1 --hash=sha256:bb", "same==1 --hash=sha256:cc")) == [
        "frameworks.pytorch.wheels: numpy 2.0 → 2.1"
    ]
    assert lockfile.changes(old, with_wheels("numpy==2.0 --hash=sha256:bb", "same==1 --hash=sha256:cc")) == [
        "frameworks.pytorch.wheels: numpy 2.0 → 2.0 (other hashes)"
    ]


def test_the_day_of_the_catalogue_alone_makes_no_lock_stale(lock: Lock) -> None:
    assert lockfile.stale(lock, lock.model_copy(update={"catalogue": "2027-01-01"})) == []
