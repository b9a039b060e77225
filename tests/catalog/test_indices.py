"""Signed indices over HTTP from repositories of small packages, signed by gpg, built by dpkg-deb and createrepo_c."""

from __future__ import annotations

import gzip
import lzma
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.catalog import indices
from provision.catalog.package_versions import Repository
from provision.errors import IndexUnreachableError
from provision.structs import replace
from tests.converge.repository import Package, RpmRepository
from tests.converge.repository import Repository as AptRepository

EVERY = re.compile(".*")


@pytest.fixture
def apt(tmp_path: Path) -> Iterator[AptRepository]:
    made = AptRepository(tmp_path, "127.0.0.1")
    made.add([Package("nvidia-open", f"595.{minor}-1") for minor in ("9.1", "58.03", "71.05")] + [Package("tmux", "3.3")])
    yield made
    made.close()


@pytest.fixture
def dnf(tmp_path: Path) -> Iterator[RpmRepository]:
    made = RpmRepository(tmp_path / "rpms", "127.0.0.1")
    made.add([Package("nvidia-driver-cuda", f"595.{minor}-2") for minor in ("9.1", "58.03")], {})
    yield made
    made.close()


def described(served: AptRepository | RpmRepository) -> Repository:
    kind = "apt" if isinstance(served, AptRepository) else "dnf"
    suite = "/" if kind == "apt" else None
    return Repository(kind, "mirror", served.url, suite, key=f"{served.url}key.asc", fingerprint=served.fingerprint)  # type: ignore[arg-type]


def test_versions_are_ordered_as_apt_orders_them_and_other_packages_are_left_out(apt: AptRepository) -> None:
    found = indices.read([described(apt)], re.compile("nvidia-.*"))
    assert found == {"nvidia-open": ["595.71.05-1", "595.58.03-1", "595.9.1-1"]}


def test_dnf_gets_the_epoch_without_which_no_name_can_be_told_from_a_version(dnf: RpmRepository) -> None:
    assert indices.read([described(dnf)], EVERY) == {"nvidia-driver-cuda": ["0:595.58.03-2", "0:595.9.1-2"]}


def test_several_archives_are_one_group(apt: AptRepository, tmp_path: Path) -> None:
    other = AptRepository(tmp_path / "security", "127.0.0.1")
    other.add([Package("nvidia-open", "595.72-1~deb12u1"), Package("nvidia-open", "595.72-1")])
    try:
        found = indices.read([described(apt), described(other)], re.compile("nvidia-open"))
    finally:
        other.close()
    assert found["nvidia-open"][:3] == ["595.72-1", "595.72-1~deb12u1", "595.71.05-1"]


def test_another_key_is_refused_although_its_signature_holds(apt: AptRepository, dnf: RpmRepository) -> None:
    for served in (apt, dnf):
        with pytest.raises(IndexUnreachableError, match="not signed with its key") as caught:
            indices.read([replace(described(served), fingerprint="0" * 40)], EVERY)
        assert caught.value.hint


def test_without_a_known_fingerprint_nothing_is_fetched() -> None:
    nobody = Repository("apt", "nvidia", "http://127.0.0.1:9/", "/", key="http://127.0.0.1:9/key")
    with pytest.raises(IndexUnreachableError, match="fingerprint of its key is not known"):
        indices.read([nobody], EVERY)


def test_a_keyring_of_the_system_is_trusted_as_a_whole(apt: AptRepository) -> None:
    ring = replace(described(apt), key=None, fingerprint=None, keyring=str(apt.folder / "key.asc"))
    assert "nvidia-open" in indices.read([ring], EVERY)
    with pytest.raises(IndexUnreachableError, match="is not on this machine"):
        indices.read([replace(ring, keyring="/nonexistent.gpg")], EVERY)


def test_a_list_that_was_changed_behind_the_signature_is_refused(apt: AptRepository) -> None:
    listed = apt.folder / "Packages.gz"
    listed.write_bytes(gzip.compress(gzip.decompress(listed.read_bytes()) + b"\nPackage: evil\nVersion: 1\n"))
    with pytest.raises(IndexUnreachableError, match="not the file that the signed index lists"):
        indices.read([described(apt)], EVERY)


def test_a_list_of_rpms_that_was_changed_behind_the_signature_is_refused(dnf: RpmRepository) -> None:
    (listed,) = (dnf.folder / "repodata").glob("*-primary.xml.gz")
    listed.write_bytes(gzip.compress(gzip.decompress(listed.read_bytes()) + b"<!-- more -->"))
    with pytest.raises(IndexUnreachableError, match="not the file that the signed index lists"):
        indices.read([described(dnf)], EVERY)


def test_what_stands_outside_the_signature_does_not_count(apt: AptRepository) -> None:
    entry = apt.folder / "InRelease"
    evil = f"SHA256:\n {'0' * 64} 1 Packages.xz\n"
    entry.write_text(evil + entry.read_text() + evil)
    assert "nvidia-open" in indices.read([described(apt)], EVERY)


@pytest.mark.parametrize("text", ["", "SHA256:\n", "not signed"])
def test_an_entry_without_a_signature_is_refused(apt: AptRepository, text: str) -> None:
    (apt.folder / "InRelease").write_text(text)
    with pytest.raises(IndexUnreachableError, match="not signed with its key"):
        indices.read([described(apt)], EVERY)


def test_an_unsigned_index_of_rpms_is_refused(dnf: RpmRepository) -> None:
    shutil.copy(dnf.folder / "key.asc", dnf.folder / "repodata/repomd.xml.asc")
    with pytest.raises(IndexUnreachableError, match="not signed with its key"):
        indices.read([described(dnf)], EVERY)


def test_an_index_that_calls_itself_expired_is_refused(apt: AptRepository) -> None:
    apt.more = "Valid-Until: Wed, 01 Jan 2096 00:00:00 UTC\n"
    apt.add([])
    assert indices.read([described(apt)], EVERY)
    apt.more = "Valid-Until: Wed, 01 Jan 2020 00:00:00 UTC\n"
    apt.add([])
    with pytest.raises(IndexUnreachableError, match="was valid until Wed, 01 Jan 2020"):
        indices.read([described(apt)], EVERY)


def test_more_bytes_than_an_index_has_are_not_read(apt: AptRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indices, "_UNPACKED_BYTES", 100)
    with pytest.raises(IndexUnreachableError, match="when it is unpacked"):
        indices.read([described(apt)], EVERY)
    monkeypatch.setattr(indices, "_INDEX_BYTES", 10)
    with pytest.raises(IndexUnreachableError, match="is larger than"):
        indices.read([described(apt)], EVERY)


ENTRY = b"""<repomd xmlns="http://linux.duke.edu/metadata/repo"><data type="primary">
<checksum type="sha256">0</checksum><location href="repodata/primary.xml.gz"/></data></repomd>"""
PRIMARY = b"""<metadata xmlns="http://linux.duke.edu/metadata/common"><package><name>a</name><arch>noarch</arch>
<version epoch="0" ver="1" rel="2"/></package></metadata>"""


@pytest.mark.parametrize(
    ("entry", "primary", "bound", "said"),
    [
        (ENTRY, PRIMARY, len(PRIMARY), ""),
        (ENTRY, PRIMARY, len(PRIMARY) - 1, "when it is unpacked"),
        (ENTRY, PRIMARY[:-9], len(PRIMARY), "its list of packages is not XML"),
        (ENTRY[:-9], PRIMARY, len(PRIMARY), "its index is not XML"),
    ],
)
def test_a_list_of_rpms_is_read_within_bounds_and_as_xml(
    monkeypatch: pytest.MonkeyPatch, entry: bytes, primary: bytes, bound: int, said: str
) -> None:
    files = {"repomd.xml": entry, "repomd.xml.asc": b"", "primary.xml.gz": gzip.compress(primary)}

    def fetched(url: str, target: Path, _most: int, **_: str) -> Path:
        target.write_bytes(files[url.rpartition("/")[2]])
        return target

    monkeypatch.setattr(indices, "_fetch", fetched)
    monkeypatch.setattr(indices, "_verify", lambda *_: None)
    monkeypatch.setattr(indices, "_UNPACKED_BYTES", bound)
    signed = Repository("dnf", "mirror", "http://127.0.0.1:9/", key="k", fingerprint="f")
    if not said:
        assert indices.read([signed], EVERY) == {"a": ["0:1-2"]}
        return
    with pytest.raises(IndexUnreachableError, match=said) as caught:
        indices.read([signed], EVERY)
    assert caught.value.hint


@pytest.mark.parametrize("ending", [".gz", ".xz"])
def test_a_file_that_unpacks_to_more_is_read_block_by_block_up_to_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """One line without an end, or one text between two tags, is not a way around the bound."""
    packed = tmp_path / f"primary{ending}"
    packed.write_bytes(gzip.compress(b"x" * (1 << 20)) if ending == ".gz" else lzma.compress(b"x" * (1 << 20)))
    monkeypatch.setattr(indices, "_UNPACKED_BYTES", 1 << 20)
    assert sum(map(len, indices._unpacked(packed))) == 1 << 20
    monkeypatch.setattr(indices, "_UNPACKED_BYTES", (1 << 20) - 1)
    with pytest.raises(IndexUnreachableError, match=f"primary{ending} is larger than"), indices._unpacked(packed) as file:
        next(file)


WHOLE = gzip.compress(b"x" * 999, mtime=0)


@pytest.mark.parametrize("broken", [b"no archive", WHOLE[:-9], WHOLE[:12] + b"?" * 9], ids=["other", "cut", "changed"])
def test_a_file_that_cannot_be_unpacked_is_an_error_with_a_hint(tmp_path: Path, broken: bytes) -> None:
    (tmp_path / "Packages.gz").write_bytes(broken)
    with (
        pytest.raises(IndexUnreachableError, match=r"Packages\.gz cannot be unpacked") as caught,
        indices._unpacked(tmp_path / "Packages.gz") as file,
    ):
        file.read()
    assert caught.value.hint


def test_a_gpg_that_does_not_answer_is_an_error_with_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = tmp_path / "bin/gpg"
    stuck.parent.mkdir()
    stuck.write_text("#!/bin/sh\nexec sleep 600\n")
    stuck.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stuck.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(indices, "_GPG_S", 0.05)
    archive = Repository("apt", "bookworm", "http://127.0.0.1:9/", "bookworm", keyring=str(stuck))
    with pytest.raises(IndexUnreachableError, match="gpg did not say within") as caught:
        indices._verify(archive, tmp_path, ["--verify"])
    assert "gpg --version" in caught.value.hint


def test_a_server_that_is_down_is_said(apt: AptRepository) -> None:
    gone = replace(described(apt), url="http://127.0.0.1:9/")
    with pytest.raises(IndexUnreachableError, match="gave no answer") as caught:
        indices.read([gone], EVERY)
    assert "HTTPS_PROXY" in caught.value.hint
