"""How much a bundle may hold, to the last byte, and what is left of it when the disk refuses."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import stat
import struct
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from provision.errors import BundleInvalidError, ProfileInvalidError
from provision.profile import load, lockfile
from provision.review import bundle
from tests.review.samples import files, restated
from tests.review.test_bundle import put

FILES = files()
SMALL, LARGE, TOTAL = 16 << 10, 8 << 20, 32 << 20


@pytest.fixture(params=["t4-train.bundle", "t4-train.bundle.zip"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def refusal(path: Path) -> str:
    """What is said of a bundle that is refused; it begins with the bundle itself."""
    with pytest.raises(BundleInvalidError) as refused:
        bundle.read(path)
    assert (refused.value.message.startswith(f"{path}: "), bool(refused.value.hint)) == (True, True)
    return refused.value.message.removeprefix(f"{path}: ")


def with_more(**more: bytes) -> dict[str, bytes]:
    return restated(FILES, **{f"render__{name}": data for name, data in more.items()})


def is_zip(path: Path) -> bool:
    return path.suffix == ".zip"


def tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# --- bounds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", ".sig"])
def test_an_approval_may_have_16_kib_and_no_byte_more(path: Path, suffix: str) -> None:
    name = f"approvals/ada.json{suffix}"
    put(path, {**FILES, name: b"x" * SMALL})
    assert bundle.read(path).approvals == {"ada": (None, b"x" * SMALL) if suffix else (b"x" * SMALL, None)}
    put(path, {**FILES, name: b"x" * (SMALL + 1)})
    assert refusal(path).startswith(f"{name} is ")


def test_there_may_be_64_approvals_and_no_more(path: Path) -> None:
    approvals = {f"approvals/p{n:02}.json{suffix}": b"x" for n in range(64) for suffix in ("", ".sig")}
    put(path, {**FILES, **approvals})
    assert bundle.read(path).approvals == {f"p{n:02}": (b"x", b"x") for n in range(64)}
    put(path, {**FILES, **approvals, "approvals/p64.json": b"x"})
    assert refusal(path).startswith("approvals/p")


def test_there_may_be_2000_files_and_no_more(path: Path) -> None:
    most = {f"f{n}": b"" for n in range(2000 - len(FILES))}
    put(path, with_more(**most))
    assert len(bundle.read(path).files) == 1999
    put(path, with_more(**most, one_more=b""))
    said = refusal(path).partition(" ")[0]
    assert said == "the" if is_zip(path) else (path / said).is_file()


def test_a_file_may_have_8_mib_and_no_byte_more(path: Path) -> None:
    put(path, with_more(large=b"\0" * LARGE))
    assert len(bundle.read(path).files["render/large"]) == LARGE
    put(path, with_more(large=b"\0" * (LARGE + 1)))
    assert refusal(path).startswith("render/large is ")


def of_size(size: int, measure: Callable[[dict[str, bytes]], int]) -> dict[str, bytes]:
    """A bundle of so many bytes."""
    parts = dict.fromkeys(("a", "b", "c"), b"\0" * LARGE)
    rest = size - measure(with_more(**parts, d=b""))
    return with_more(**parts, d=b"\0" * rest)


def test_all_files_together_may_have_32_mib_and_no_byte_more(path: Path) -> None:
    def measure(made: dict[str, bytes]) -> int:
        return len(bundle.pack(made)) if is_zip(path) else sum(map(len, made.values()))

    put(path, of_size(TOTAL, measure))
    assert len(bundle.read(path).files) == len(FILES) - 1 + 4
    put(path, of_size(TOTAL + 1, measure))
    with pytest.raises(BundleInvalidError) as refused:
        bundle.read(path)
    assert refused.value.message.startswith(f"{path}: " if not is_zip(path) else f"cannot read {path}: ")


def test_a_file_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "t4.bundle"
    put(path, with_more(huge=b""))
    os.truncate(path / "render/huge", 1 << 42)
    assert refusal(path).startswith("render/huge is ")


# --- the bytes that are signed ------------------------------------------------------------------------------------


def test_what_is_signed_is_spelled_in_one_way_only() -> None:
    assert bundle.canonical({"b": "\u00e9\u2028", "a": [1, 2.5, None, {"d": True, "c": ""}]}) == (
        '{"a":[1,2.5,null,{"c":"","d":true}],"b":"\u00e9\u2028"}\n'.encode()
    )
    for number in ("nan", "inf", "-inf"):
        with pytest.raises(ValueError, match="JSON"):
            bundle.canonical({"a": float(number)})


def test_a_statement_names_every_file_but_itself_and_the_approvals() -> None:
    profile, lock = load.parse(FILES["profile.yml"], Path("p")), lockfile.parse(FILES["lock.yml"].decode(), "l")
    others = {bundle.STATEMENT: b"x", "approvals/ada.json": b"x", "approvals/ada.json.sig": b"x"}
    for policy in (FILES["policy.yml"], None):
        said = json.loads(bundle.statement(profile, lock, policy, {**FILES, **others}))
        assert said == {
            "schema": "gpuprov-statement/1",
            "profile": {"name": "t4-train", "sha256": load.digest(profile)},
            "lock": {"sha256": lock.digest},
            "policy": {"sha256": sha256(policy).hexdigest()} if policy else None,
            "files": {name: sha256(data).hexdigest() for name, data in FILES.items() if name != bundle.STATEMENT},
        }


def test_a_zip_has_plain_files_in_order_without_dates() -> None:
    with zipfile.ZipFile(io.BytesIO(bundle.pack({"b": b"2", "a/c": b"1"}))) as archive:
        entries = archive.infolist()
        assert [(entry.filename, archive.read(entry)) for entry in entries] == [("a/c", b"1"), ("b", b"2")]
    for entry in entries:
        assert (entry.date_time, entry.compress_type, entry.create_system) == ((1980, 1, 1, 0, 0, 0), zipfile.ZIP_STORED, 3)
        assert entry.external_attr == (stat.S_IFREG | 0o644) << 16


# --- a part that changes while it is read -------------------------------------------------------------------------


@pytest.mark.parametrize("becomes", ["a link", "a pipe"])
def test_a_file_that_becomes_something_else_before_it_is_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, becomes: str
) -> None:
    path = tmp_path / "t4.bundle"
    put(path, FILES)
    shutil.copy(path / "review.md", tmp_path / "aside")
    genuine = os.open

    def late(name: Any, *words: Any, **settings: Any) -> int:
        if str(name).endswith("/review.md"):
            Path(name).unlink()
            Path(name).symlink_to(tmp_path / "aside") if becomes == "a link" else os.mkfifo(name)
        return genuine(name, *words, **settings)

    monkeypatch.setattr(os, "open", late)
    with pytest.raises(BundleInvalidError):
        bundle.read(path)


# --- what is named as wrong ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["-rf", "a b", "REVIEW.md", "render/-x/y", "renDer", "x" * 121])
def test_a_name_that_no_bundle_has_is_named_with_its_bundle(path: Path, name: str) -> None:
    put(path, {**FILES, name: b""})
    assert any(refusal(path).lower().startswith(word) for word in (name.lower(), "render/-x/x"))


@pytest.mark.parametrize(
    ("name", "shown"),
    [("x" * 160, "x" * 160), ("x" * 161, "x" * 160), ("\u202egnp.exe", "'\\u202egnp.exe'"), ("a\x1b[2J", "'a\\x1b[2J'")],
    ids=("as long as is shown", "longer", "backwards", "escaped"),
)
def test_a_name_is_shown_short_and_so_that_a_terminal_obeys_nothing_in_it(path: Path, name: str, shown: str) -> None:
    put(path, {**FILES, name: b""})
    assert refusal(path).startswith(f"{shown} has ")


def of_stated_size(size: int) -> bytes:
    """A zip of one file that states so many bytes of the few that it has."""
    raw = bytearray(bundle.pack({"a": b"0123456789"}))
    for at, field in ((raw.index(b"PK\x01\x02"), 20), (0, 18)):
        raw[at + field : at + field + 8] = struct.pack("<II", size, size)
    return bytes(raw)


def test_files_that_are_larger_than_their_zip_are_refused_before_they_are_read(tmp_path: Path) -> None:
    path, whole = tmp_path / "t4.bundle.zip", len(of_stated_size(0))
    path.write_bytes(of_stated_size(whole))
    said = refusal(path)
    assert (said.startswith("a is damaged: "), "None" in said) == (True, False)
    path.write_bytes(of_stated_size(whole + 1))
    assert refusal(path).startswith("the zip's directory names ")


def test_what_python_says_of_a_damaged_zip_is_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "t4.bundle.zip"
    path.write_bytes(b"PK\n")
    with pytest.raises(zipfile.BadZipFile) as theirs:
        zipfile.ZipFile(path)
    assert refusal(path) == f"the zip's directory is damaged: {theirs.value}"


def test_a_byte_between_the_files_and_the_directory_of_a_zip_is_of_the_directory(tmp_path: Path) -> None:
    raw, path = bundle.pack(FILES), tmp_path / "t4.bundle.zip"
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        start = archive.start_dir
    end = raw.rindex(b"PK\x05\x06")
    path.write_bytes(raw[:start] + b"\0" + raw[start : end + 16] + struct.pack("<I", start + 1) + raw[end + 20 :])
    assert refusal(path).startswith("the zip's directory is not packed")


def test_a_profile_that_this_version_refuses_is_named_with_its_bundle(path: Path) -> None:
    put(path, restated(FILES, profile_yml=b"schema: 1\n"))
    with pytest.raises(ProfileInvalidError) as refused:
        bundle.read(path)
    assert f"{path / 'profile.yml'}" in refused.value.message


def test_what_cannot_be_read_is_told_once_and_why(path: Path) -> None:
    with pytest.raises(BundleInvalidError) as refused:
        bundle.read(path)
    assert refused.value.message == f"cannot read {path}: {os.strerror(errno.ENOENT)}"
    assert refused.value.hint


# --- writing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../x", "/x", "a b", "a/.git/x", "Profile.yml", "lock.yml/x"])
def test_with_a_name_that_cannot_be_part_of_a_bundle_nothing_is_written(path: Path, tmp_path: Path, name: str) -> None:
    bundle.write(path, FILES)
    before = tree(tmp_path)
    for target in (path, tmp_path / "new.zip", tmp_path / "new"):
        with pytest.raises(BundleInvalidError) as refused:
            bundle.write(target, {**FILES, name: b"x"})
        assert refused.value.message.startswith(f"{target}: ")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", ["../x", "/x", "a b", "approvals/.json"])
def test_with_a_name_that_cannot_be_part_of_a_bundle_nothing_is_added(path: Path, tmp_path: Path, name: str) -> None:
    bundle.write(path, FILES)
    there, before = bundle.read(path), tree(tmp_path)
    with pytest.raises(BundleInvalidError) as refused:
        bundle.add(there, {"approvals/ada.json": b"x", name: b"x"})
    assert refused.value.message.startswith(f"{path}: {name} ")
    assert tree(tmp_path) == before


def test_where_nothing_can_be_written_that_is_said(path: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    target = tmp_path / "file" / path.name
    with pytest.raises(BundleInvalidError) as refused:
        bundle.write(target, FILES)
    assert (f"cannot write {target}: " in refused.value.message, bool(refused.value.hint)) == (True, True)
    assert tree(tmp_path) == {"file": b""}


@pytest.mark.parametrize("there", [True, False])
def test_when_the_disk_is_full_nothing_new_is_left_and_what_was_there_stays(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, there: bool
) -> None:
    if there:
        bundle.write(path, FILES)
    before, written = tree(tmp_path), []

    def full(file: Path, data: bytes) -> None:
        written.append(file)
        if is_zip(path) or len(written) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        file.write_bytes(data)

    monkeypatch.setattr(bundle, "write_whole", full)
    with pytest.raises(BundleInvalidError):
        bundle.write(path, FILES)
    assert len(written) == (1 if is_zip(path) else 3)
    assert (tree(tmp_path), [p.name for p in tmp_path.iterdir() if p.name.startswith(".")]) == (before, [])


def test_an_approval_that_cannot_be_added_is_said(path: Path, tmp_path: Path) -> None:
    bundle.write(path, FILES)
    there = bundle.read(path)
    if is_zip(path):
        path.unlink()
    else:
        (path / "approvals").write_bytes(b"")
    before = tree(tmp_path)
    with pytest.raises(BundleInvalidError) as refused:
        bundle.add(there, {"approvals/ada.json": b"x"})
    assert (f"cannot write {path}: " in refused.value.message, bool(refused.value.hint)) == (True, True)
    assert tree(tmp_path) == before


def test_an_approval_replaces_the_one_of_its_name_and_leaves_the_others(path: Path) -> None:
    bundle.write(path, FILES)
    bundle.add(bundle.read(path), {"approvals/ada.json": b"1", "approvals/bob.json": b"2"})
    bundle.add(bundle.read(path), {"approvals/ada.json": b"3", "approvals/ada.json.sig": b"4"})
    assert bundle.read(path).approvals == {"ada": (b"3", b"4"), "bob": (b"2", None)}


@pytest.mark.parametrize("there", ["a folder", "an empty folder", "a file", "a link that leads nowhere", "another zip"])
def test_what_is_no_bundle_stays_as_it_is(path: Path, tmp_path: Path, there: str) -> None:
    if there == "a folder":
        path.mkdir()
        (path / "mine.txt").write_bytes(b"mine")
    elif there == "an empty folder":
        path.mkdir()
    elif there == "a file":
        path.write_bytes(b"mine")
    elif there == "another zip":
        path.write_bytes(bundle.pack({"mine.txt": b"mine"}))
    else:
        path.symlink_to("nowhere")
    before = tree(tmp_path)
    with pytest.raises(BundleInvalidError) as refused:
        bundle.write(path, FILES)
    assert (str(path) in refused.value.message, bool(refused.value.hint)) == (True, True)
    assert (tree(tmp_path), path.is_symlink()) == (before, there.startswith("a link"))


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()], ids=["full", "interrupted"])
def test_a_folder_whose_place_cannot_be_taken_is_there_with_its_approvals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    path = tmp_path / "a.bundle"
    bundle.write(path, FILES)
    bundle.add(bundle.read(path), {"approvals/ada.json": b"x"})
    before, rename, done = tree(tmp_path), Path.rename, list[Path]()

    def second_fails(self: Path, target: Path) -> Path:
        done.append(self)
        if len(done) == 2:
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", second_fails)
    with pytest.raises((BundleInvalidError, KeyboardInterrupt)):
        bundle.write(path, {**FILES, "summary.md": b"another"})
    assert (tree(tmp_path), len(done)) == (before, 3)
