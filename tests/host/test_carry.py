"""Carrying files to a folder of root's: on this machine, whose sudo is a stand-in."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from provision.errors import HostUnreachableError
from provision.host.carry import Parcel, carry, remove
from provision.host.ssh import LOCALHOST


@pytest.fixture(autouse=True)
def _sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root is not needed below a folder of the test's own."""
    program = tmp_path / "bin" / "sudo"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nshift\nexec "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


def parcel(folder: Path, path: str, content: bytes) -> Parcel:
    source = folder / "source" / path
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_bytes(content)
    return Parcel(source, path, hashlib.sha256(content).hexdigest(), len(content))


def test_files_arrive_whole_and_only_what_is_not_there_is_sent_again(tmp_path: Path) -> None:
    place, said = tmp_path / "place", list[str]()
    large = bytes(range(256)) * 8000
    parcels = [parcel(tmp_path, "wheels/a+b~1.whl", large), parcel(tmp_path, "keys/r0.asc", b"")]
    sent = carry(LOCALHOST, parcels, {"apt.conf": "x;\n", "lists/partial/.keep": ""}, str(place), said.append)
    assert sent == len(large)
    assert (place / "wheels/a+b~1.whl").read_bytes() == large
    assert ((place / "keys/r0.asc").read_bytes(), (place / "apt.conf").read_text()) == (b"", "x;\n")
    assert (place / "lists/partial").is_dir()
    assert carry(LOCALHOST, parcels, {}, str(place), said.append) == 0
    (place / "wheels/a+b~1.whl").write_bytes(large[:-1])
    assert carry(LOCALHOST, parcels, {}, str(place), said.append) == len(large)
    assert (place / "wheels/a+b~1.whl").read_bytes() == large
    remove(LOCALHOST, str(place))
    assert not place.exists()


@pytest.mark.parametrize("now", [b"another!", b"less"], ids=["changed", "shorter"])
def test_a_file_that_changes_between_the_check_and_the_copy_is_refused(tmp_path: Path, now: bytes) -> None:
    mine = parcel(tmp_path, "wheels/a.whl", b"original")
    mine.source.write_bytes(now)
    with pytest.raises(HostUnreachableError, match=r"wheels/a\.whl arrived .* with another digest"):
        carry(LOCALHOST, [mine], {}, str(tmp_path / "place"), lambda _: None)


def test_a_host_without_room_is_said_before_anything_is_sent(tmp_path: Path) -> None:
    huge = Parcel(tmp_path / "huge", "wheels/huge.whl", "0" * 64, 1 << 60)
    with pytest.raises(HostUnreachableError, match="GB free"):
        carry(LOCALHOST, [huge], {}, str(tmp_path / "place"), lambda _: None)
