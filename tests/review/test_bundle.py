import hashlib
import io
import json
import os
import shutil
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.errors import BundleInvalidError, LockInvalidError
from provision.profile import load, lockfile
from provision.review import bundle
from tests.review.samples import files, restated

FILES = files()
ZIP = bundle.pack(FILES)


@pytest.fixture(params=["t4-train.bundle", "t4-train.bundle.zip"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def test_what_is_written_is_read_back(path: Path) -> None:
    bundle.write(path, FILES)
    read = bundle.read(path)
    assert dict(read.files) == {n: d for n, d in FILES.items() if n != bundle.STATEMENT}
    assert read.digest == hashlib.sha256(FILES[bundle.STATEMENT]).hexdigest()
    assert (read.profile.name, read.statement.profile.sha256) == ("t4-train", load.digest(read.profile))
    assert read.statement.lock.sha256 == read.lock.digest
    assert read.statement.policy is not None
    assert read.statement.policy.sha256 == hashlib.sha256(FILES["policy.yml"]).hexdigest()
    assert read.approvals == {}


def test_equal_files_make_equal_bytes_in_any_order_at_any_time(tmp_path: Path) -> None:
    backwards = dict(reversed(FILES.items()))
    assert bundle.pack(backwards) == ZIP
    bundle.write(tmp_path / "a.zip", backwards)
    assert (tmp_path / "a.zip").read_bytes() == ZIP


def test_a_bundle_without_rules_says_so(path: Path) -> None:
    bundle.write(path, files(policy=None))
    assert bundle.read(path).statement.policy is None


def test_the_same_bundle_written_again_keeps_its_approvals_and_another_drops_them(path: Path) -> None:
    bundle.write(path, FILES)
    bundle.add(bundle.read(path), {"approvals/a@b.c.json": b"x", "approvals/a@b.c.json.sig": b"y"})
    bundle.write(path, FILES)
    assert bundle.read(path).approvals == {"a@b.c": (b"x", b"y")}
    bundle.write(path, files(old="deadline_h: 12", new="deadline_h: 13"))
    assert bundle.read(path).approvals == {}
    assert [p.name for p in path.parent.iterdir() if p.name.startswith(".")] == []


def test_what_is_no_bundle_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "mine.txt").write_text("mine")
    with pytest.raises(BundleInvalidError, match="is not a bundle"):
        bundle.write(tmp_path / "x", FILES)
    assert (tmp_path / "x" / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_part_that_is_changed_missing_or_new_is_named(path: Path, name: str) -> None:
    for changed, word in (
        ({**FILES, name: FILES[name] + b" "}, name),
        ({n: d for n, d in FILES.items() if n != name}, name),
        ({**FILES, "extra.txt": b""}, "extra.txt"),
    ):
        put(path, changed)
        with pytest.raises(BundleInvalidError) as refused:
            bundle.read(path)
        assert f"{path}: {word} is " in refused.value.message


def put(path: Path, made: dict[str, bytes]) -> None:
    """Without the care that `write` takes."""
    if path.suffix == ".zip":
        path.write_bytes(bundle.pack(made))
        return
    shutil.rmtree(path, ignore_errors=True)
    for name, data in made.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)


OTHER = files(old="deadline_h: 12", new="deadline_h: 99")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (restated(FILES, profile_yml=OTHER["profile.yml"]), "profile.yml asks for something else"),
        (restated(FILES, lock_yml=OTHER["lock.yml"]), "lock.yml locks something else"),
        (restated(FILES, policy_yml=b"schema: 1\nname: lax\n"), "policy.yml is not the one"),
        (restated({n: d for n, d in FILES.items() if n != "policy.yml"}), "policy.yml is not the one"),
        (restated({n: d for n, d in FILES.items() if n != "lock.yml"}), "lock.yml is missing"),
        (restated({n: d for n, d in FILES.items() if n != "profile.yml"}), "profile.yml is missing"),
        ({**FILES, bundle.STATEMENT: b"{}\n"}, "statement.json is not a statement"),
        ({**FILES, bundle.STATEMENT: b"["}, "statement.json is not a statement"),
        ({**FILES, bundle.STATEMENT: b"[" * 100_000}, "statement.json is not a statement"),
        ({**FILES, bundle.STATEMENT: b"\xff"}, "statement.json is not a statement"),
        ({**FILES, bundle.STATEMENT: FILES[bundle.STATEMENT].replace(b":", b": ", 1)}, "statement.json is not in its canonical form"),
        ({**FILES, bundle.STATEMENT: FILES[bundle.STATEMENT].replace(b"statement/1", b"statement/2")}, "statement.json is not a statement"),
        ({**FILES, bundle.STATEMENT: FILES[bundle.STATEMENT].replace(b'{"files"', b'{"a":1,"files"')}, "statement.json is not a statement"),
        ({**FILES, "approvals/x.txt": b""}, "approvals/x.txt is not an approval"),
        ({**FILES, "approvals/a/b.json": b""}, "approvals/a/b.json is not an approval"),
        ({**FILES, **{f"approvals/a{n}.json": b"" for n in range(65)}}, "exceeds the limit of 64 approvals"),
        ({**FILES, "approvals/a.json": b" " * 20_000}, "approvals/a.json is larger than 16 KiB"),
    ],
    ids=lambda value: value if isinstance(value, str) else "files",
)
def test_a_forger_who_makes_the_digests_agree_is_found_by_meaning(path: Path, made: dict[str, bytes], said: str) -> None:
    put(path, made)
    with pytest.raises(BundleInvalidError) as refused:
        bundle.read(path)
    assert said in refused.value.message
    assert refused.value.message.startswith(f"{path}: ")


def nearly(digest: str) -> str:
    """Another digest that differs in its last character alone."""
    return digest[:-1] + ("0" if digest[-1] != "0" else "1")


@pytest.mark.parametrize(
    ("part", "said"),
    [
        *((("files", name), f"{name} is not what statement.json says") for name in FILES if name != bundle.STATEMENT),
        (("profile", "sha256"), "profile.yml asks for something else"),
        (("lock", "sha256"), "lock.yml locks something else"),
        (("policy", "sha256"), "policy.yml is not the one"),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_a_digest_is_compared_to_its_last_character(path: Path, part: tuple[str, str], said: str) -> None:
    stated = json.loads(FILES[bundle.STATEMENT])
    stated[part[0]][part[1]] = nearly(stated[part[0]][part[1]])
    put(path, {**FILES, bundle.STATEMENT: bundle.canonical(stated)})
    with pytest.raises(BundleInvalidError) as refused:
        bundle.read(path)
    assert refused.value.message.startswith(f"{path}: {said}")


def test_the_profile_of_a_lock_is_compared_to_the_last_character(path: Path) -> None:
    profile, lock = load.parse(FILES["profile.yml"], Path("p.yml")), lockfile.parse(FILES["lock.yml"].decode(), "lock.yml")
    lock = lock.model_copy(update={"profile": lock.profile.model_copy(update={"sha256": nearly(lock.profile.sha256)})})
    made = {**FILES, "lock.yml": lockfile.dump(lock).encode()}
    put(path, {**made, bundle.STATEMENT: bundle.statement(profile, lock, FILES["policy.yml"], made)})
    with pytest.raises(BundleInvalidError, match=r"\.bundle\S*: lock\.yml is the lock of another profile"):
        bundle.read(path)


def test_a_lock_for_other_places_than_the_profiles_is_refused(path: Path) -> None:
    profile = load.parse(FILES["profile.yml"], Path("profile.yml"))
    lock = lockfile.parse(FILES["lock.yml"].decode(), "lock.yml")
    forged = lock.model_copy(update={"places": lock.places[1:]})
    made = {**FILES, "lock.yml": lockfile.dump(forged).encode()}
    put(path, {**made, bundle.STATEMENT: bundle.statement(profile, forged, FILES["policy.yml"], made)})
    with pytest.raises(BundleInvalidError, match=r"\.bundle\S*: lock\.yml locks other places"):
        bundle.read(path)


def test_a_lock_of_another_profile_is_refused(path: Path) -> None:
    profile, lock = load.parse(FILES["profile.yml"], Path("p.yml")), lockfile.parse(OTHER["lock.yml"].decode(), "lock.yml")
    made = {**FILES, "lock.yml": OTHER["lock.yml"]}
    put(path, {**made, bundle.STATEMENT: bundle.statement(profile, lock, FILES["policy.yml"], made)})
    with pytest.raises(BundleInvalidError, match=r"\.bundle\S*: lock\.yml is the lock of another profile"):
        bundle.read(path)


def test_a_lock_whose_last_line_does_not_hold_is_refused(path: Path) -> None:
    put(path, restated(FILES, lock_yml=FILES["lock.yml"].replace(b"branch: '", b"branch: '9", 1)))
    with pytest.raises(LockInvalidError, match=r"\.bundle\S*/lock\.yml was changed by hand"):
        bundle.read(path)


def zipped(*entries: tuple[str | zipfile.ZipInfo, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", compression) as archive:
        warnings.simplefilter("ignore")  # of duplicate names, which are the point
        for name, data in entries:
            archive.writestr(name, data)
    return out.getvalue()


EVERY_BYTE = bytes(range(256))


def overlapping() -> bytes:
    """Ten files of 7 MiB in a kilobyte: each begins inside the one before, as zip bombs without compression do."""
    raw = bytearray(zipped(*((f"f{n}", b"") for n in range(10))))
    at = raw.find(b"PK\x01\x02")
    while at >= 0:
        raw[at + 20 : at + 28] = struct.pack("<II", 7 << 20, 7 << 20)
        at = raw.find(b"PK\x01\x02", at + 1)
    return bytes(raw)


def link(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "the zip's directory is damaged"),
        (b"PK", "the zip's directory is damaged"),
        (zipped(("../x", b"")), "../x has a name"),
        (zipped(("/etc/passwd", b"")), "/etc/passwd has a name"),
        (zipped(("a/../../x", b"")), "a/../../x has a name"),
        (zipped(("a\\..\\x", b"")), "has a name"),
        (zipped(("C:/x", b"")), "C:/x has a name"),
        (zipped((".hidden", b"")), ".hidden has a name"),
        (zipped(("-rf", b"")), "-rf has a name"),
        (zipped(("a\x1b[2J", b"")), "has a name"),
        (zipped(("\u202egnp.exe", b"")), "has a name"),
        (zipped(("x" * 500, b"")), "has a name"),
        (zipped(("a", b"1"), ("a", b"2")), "a is there twice"),
        (zipped(("a", b"1"), ("A", b"2")), "A is there twice"),
        (zipped(("a", b"1"), ("a/b", b"2")), "a is there twice"),
        (zipped((link("profile.yml"), b"/etc/shadow")), "profile.yml is not a regular file"),
        (zipped(("a/", b"")), "a/ is not a regular file"),
        (zipped(("x", b"")).replace(b"x", b"\0"), "has a name that a bundle does not allow"),
        (zipped(("a", b"0" * 10_000_000), compression=zipfile.ZIP_DEFLATED), "overlap"),
        (zipped(("a", EVERY_BYTE), compression=zipfile.ZIP_DEFLATED), "a is compressed"),
        (zipped(("a", b"0" * 9_000_000)), "a is compressed, or too large"),
        (b"0" * (33 * 1024 * 1024), "larger than 32 MiB"),
        (zipped(*((f"f{n}", b"") for n in range(2_100))), "names more than 2000 files"),
        (overlapping(), "names files that overlap"),
        (zipped(*sorted(FILES.items())), "is not packed as"),
        (ZIP + b"\0", "the zip's directory"),
        (b"\0" + ZIP, "is not packed as"),
    ],
    ids=lambda value: value if isinstance(value, str) else "zip",
)
def test_a_hostile_zip_is_refused(tmp_path: Path, raw: bytes, said: str) -> None:
    path = tmp_path / "x.bundle.zip"
    path.write_bytes(raw)
    with pytest.raises(BundleInvalidError) as refused:
        bundle.read(path)
    assert said in refused.value.message
    assert f"{path}: " in refused.value.message
    assert refused.value.message.isprintable()
    assert sorted(p.name for p in tmp_path.iterdir() if p != path and p.name != "gpuprov-home") == []


def to_link(path: Path, target: str) -> None:
    path.rename(path.parent.parent / "aside")
    path.symlink_to(target)


@pytest.mark.parametrize(
    ("do", "said"),
    [
        (lambda f: to_link(f / "review.md", "/etc/hostname"), "review.md is not a regular file"),
        (lambda f: to_link(f / "render", "/etc"), "render is not a regular file"),
        (lambda f: os.mkfifo(f / "pipe"), "pipe is not a regular file"),
        (lambda f: (f / ".git").mkdir(), ".git/x has a name"),
        (lambda f: (f / "big").write_bytes(b"0" * 9_000_000), "big is too large"),
        (lambda f: (f / "review.md.orig").write_bytes(b""), "review.md.orig is not named by statement.json"),
    ],
)
def test_a_hostile_folder_is_refused(tmp_path: Path, do: Callable[[Path], object], said: str) -> None:
    path = tmp_path / "x.bundle"
    bundle.write(path, FILES)
    do(path)
    with pytest.raises(BundleInvalidError) as refused:
        bundle.read(path)
    assert refused.value.message.startswith(f"{path}: {said}")


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BundleInvalidError, match="No such file"):
        bundle.read(tmp_path / "no.bundle")


# --- one bit ------------------------------------------------------------------------------------------------------


def owner_of(at: int) -> str:
    """Which part a byte of the zip belongs to."""
    with zipfile.ZipFile(io.BytesIO(ZIP)) as archive:
        starts = {e.header_offset: e.filename for e in archive.infolist()}
        return "" if at >= archive.start_dir else starts[max(s for s in starts if s <= at)]


def flipped(raw: bytes, at: int, bit: int) -> bytes:
    changed = bytearray(raw)
    changed[at] ^= 1 << bit
    return bytes(changed)


def refusal_of_flip(path: Path, at: int, bit: int) -> str:
    path.write_bytes(flipped(ZIP, at, bit))
    with pytest.raises(BundleInvalidError) as refused:
        bundle.read(path)
    return refused.value.message


def data_ranges() -> list[range]:
    """The bytes of the files themselves; the rest is the zip's own."""
    with zipfile.ZipFile(io.BytesIO(ZIP)) as archive:
        starts = [e.header_offset + 30 + len(e.filename) for e in archive.infolist()]
        return [range(s, s + e.file_size) for s, e in zip(starts, archive.infolist(), strict=True)]


@pytest.mark.matrix
def test_one_bit_flipped_in_any_byte_that_is_the_zips_own_is_refused_with_its_part(tmp_path: Path) -> None:
    data = data_ranges()
    structure = [at for at in range(len(ZIP)) if not any(at in r for r in data)]
    assert len(structure) > 800
    for at in structure:
        said = refusal_of_flip(tmp_path / "x.zip", at, at % 8)
        assert owner_of(at) in said, (at, said)
        assert ": " in said


@pytest.mark.matrix
@given(st.integers(0, len(ZIP) - 1), st.integers(0, 7))
@settings(max_examples=300, deadline=None)
def test_one_bit_flipped_anywhere_in_the_zip_is_refused_with_its_part(tmp_path_factory: pytest.TempPathFactory, at: int, bit: int) -> None:
    said = refusal_of_flip(tmp_path_factory.getbasetemp() / "flip.zip", at, bit)
    assert owner_of(at) in said


@pytest.mark.matrix
@given(st.sampled_from(sorted(FILES)), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_one_bit_flipped_in_any_file_of_a_folder_is_refused_with_its_part(
    tmp_path_factory: pytest.TempPathFactory, name: str, random: Random
) -> None:
    path = tmp_path_factory.getbasetemp() / "flip.bundle"
    raw = FILES[name]
    at, bit = random.randrange(len(raw)), random.randrange(8)
    put(path, {**FILES, name: flipped(raw, at, bit)})
    with pytest.raises(BundleInvalidError) as refused:
        bundle.read(path)
    assert name in refused.value.message
