"""Reading a file within bounds."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from provision.errors import UsageError
from provision.paths import read_bounded, text_of
from tests.fuzz.run import Odd, lay

NO_FILE = [Odd.ZERO, Odd.PIPE, Odd.FOLDER, Odd.LOOP]


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


@pytest.mark.parametrize("kind", NO_FILE)
def test_nothing_but_a_regular_file_is_read(tmp_path: Path, kind: Odd) -> None:
    lay(tmp_path, {"p": kind})
    with pytest.raises(OSError, match=r"not a regular file|symbolic links"):
        read_bounded(tmp_path / "p", 1024)


@pytest.mark.parametrize("kind", [*NO_FILE, Odd.HUGE, b"\xff", b"12345"])
def test_a_text_that_is_kept_for_the_user_is_read_within_bounds(tmp_path: Path, kind: Odd | bytes) -> None:
    lay(tmp_path, {"p": kind})
    with pytest.raises(UsageError, match=r"cannot read .*/p: ") as caught:
        text_of(tmp_path / "p", 4)
    assert caught.value.hint


def test_the_text_of_no_file_is_empty_and_what_is_not_utf_8_can_be_written_back(tmp_path: Path) -> None:
    assert text_of(tmp_path / "gone") == ""
    lay(tmp_path, {"p": b"a\r\n\xe9"})
    assert text_of(tmp_path / "p", errors="surrogateescape").encode(errors="surrogateescape") == b"a\r\n\xe9"
