"""Signed indices over HTTP from repositories of small packages, signed by gpg, built by dpkg-deb and createrepo_c."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from provision.catalog import indices
from provision.catalog.package_versions import Repository
from provision.errors import IndexUnreachableError
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


def test_a_server_that_is_down_is_said(apt: AptRepository) -> None:
    gone = replace(described(apt), url="http://127.0.0.1:9/")
    with pytest.raises(IndexUnreachableError, match="gave no answer") as caught:
        indices.read([gone], EVERY)
    assert "HTTPS_PROXY" in caught.value.hint
