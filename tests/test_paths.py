"""Reading a file within bounds."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from provision.paths import read_bounded


def test_a_file_of_the_greatest_size_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"x" * 1024)
    assert read_bounded(file, 1024) == b"x" * 1024
    with pytest.raises(OSError, match="it is larger than 0 KiB") as caught:
        read_bounded(file, 1023)
    assert caught.value.errno == errno.EFBIG


def test_a_file_that_has_no_size_is_bounded_as_it_is_read() -> None:
    with pytest.raises(OSError, match="larger than"):
        read_bounded(Path("/proc/self/maps"), 16)


@pytest.mark.parametrize("kind", ["device", "pipe", "folder", "loop"])
def test_nothing_but_a_regular_file_is_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "p"
    if kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path)
    with pytest.raises(OSError, match=r"not a regular file|symbolic links"):
        read_bounded(path, 1024)
