"""The chain: what was changed, taken out or put in is named; what a killed writer left is closed by a line that says so."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from provision.errors import FileRefusedError
from provision.launch import chain
from provision.launch.chain import TORN, AuditUnwritableError, Chain


@pytest.fixture
def log(tmp_path: Path) -> Chain:
    return Chain(tmp_path / "home" / "audit.jsonl")


def fill(log: Chain, count: int = 3) -> list[bytes]:
    for number in range(count):
        log.add({"event": "test", "number": number})
    return log.path.read_bytes().splitlines()


def test_lines_follow_from_one_another_and_only_the_user_can_read_them(log: Chain) -> None:
    assert log.read().entries == []
    fill(log)
    reading = log.read()
    assert [entry["seq"] for entry in reading.entries] == [1, 2, 3]
    assert (reading.line, reading.why) == (0, "")
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700
    log.add({"event": "test"})
    assert log.read().entries[-1]["prev"] == reading.head


@pytest.mark.parametrize(
    ("tamper", "line"),
    [
        (lambda lines: [lines[0], lines[1].replace(b'"number":1', b'"number":7'), *lines[2:]], 3),
        (lambda lines: [lines[0], *lines[2:]], 2),
        (lambda lines: lines[1:], 1),
        (lambda lines: [lines[0], lines[0], *lines[1:]], 2),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], 2),
        (lambda lines: [lines[0], b"", *lines[1:]], 2),
        (lambda lines: [lines[0], b"{}", *lines[2:]], 2),
        (lambda lines: [lines[0], lines[1][:20], *lines[2:]], 2),
        (lambda lines: [b"[" * 100_000, *lines[1:]], 1),
    ],
    ids=["changed", "taken out", "beginning cut off", "doubled", "swapped", "blank", "emptied", "cut in the middle", "nested"],
)
def test_the_first_line_that_does_not_fit_is_named(log: Chain, tamper: Callable[[list[bytes]], list[bytes]], line: int) -> None:
    lines = fill(log, 5)
    log.path.write_bytes(b"\n".join(tamper(lines)) + b"\n")
    reading = log.read()
    assert reading.line == line, reading.why
    assert len(reading.entries) == line - 1


def test_a_line_that_was_changed_stays_wrong_however_much_follows(log: Chain) -> None:
    lines = fill(log, 2)
    log.path.write_bytes(b"\n".join([lines[0].replace(b"0", b"1"), lines[1]]) + b"\n")
    fill(log, 30)
    assert log.read().line == 1


@pytest.mark.parametrize("kept", [1, 25, -1])
def test_a_torn_last_line_is_named_and_then_closed_by_a_line_that_says_so(log: Chain, kept: int) -> None:
    lines = fill(log, 3)
    log.path.write_bytes(b"\n".join([*lines[:2], lines[2][:kept]]))
    assert log.read().line == 3
    assert len(log.read().entries) == 2
    log.add({"event": "test", "number": 3})
    reading = log.read()
    assert reading.line == 0, reading.why
    assert [entry["event"] for entry in reading.entries] == ["test", "test", TORN, "test"]
    assert [entry["seq"] for entry in reading.entries] == [1, 2, 3, 4]
    assert lines[2][:kept] in log.path.read_bytes(), "what was torn stays"


def test_a_repair_that_was_torn_itself_is_closed_as_well(log: Chain) -> None:
    lines = fill(log, 2)
    log.path.write_bytes(lines[0] + b"\n" + lines[1][:9] + b'\n{"seq":2,"prev":"ab')
    log.add({"event": "test"})
    reading = log.read()
    assert reading.line == 0, reading.why
    assert [entry["event"] for entry in reading.entries] == ["test", TORN, "test"]


def test_a_line_torn_later_than_its_repair_says_is_not_excused(log: Chain) -> None:
    lines = fill(log, 3)
    log.path.write_bytes(b"\n".join([*lines[:2], lines[2][:20]]))
    log.add({"event": "test"})
    text = log.path.read_bytes()
    log.path.write_bytes(text.replace(lines[2][:20] + b"\n", lines[2][:19] + b"\n"))
    assert log.read().line == 3


def test_only_the_last_newline_is_missing(log: Chain) -> None:
    fill(log, 2)
    log.path.write_bytes(log.path.read_bytes()[:-1])
    assert log.read().line == 0
    log.add({"event": "test"})
    assert [entry["event"] for entry in log.read().entries] == ["test"] * 3


def test_a_first_line_that_was_torn_is_closed(log: Chain) -> None:
    log.path.parent.mkdir()
    log.path.write_bytes(b'{"se')
    log.add({"event": "test"})
    assert [entry["event"] for entry in log.read().entries] == [TORN, "test"]
    assert log.read().line == 0


def test_nothing_is_added_behind_an_end_that_no_writer_left(log: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "_WINDOW", 100)
    log.path.parent.mkdir()
    log.path.write_bytes(b"x" * 1000)
    with pytest.raises(AuditUnwritableError, match="its end is damaged"):
        log.add({"event": "test"})
    assert log.path.read_bytes() == b"x" * 1000


def test_what_is_no_file_is_neither_written_nor_read(log: Chain) -> None:
    log.path.parent.mkdir()
    os.mkfifo(log.path)
    with pytest.raises(AuditUnwritableError, match="not a regular file"):
        log.add({"event": "test"})
    with pytest.raises(FileRefusedError, match="not a regular file"):
        log.read()


def test_a_line_that_is_too_long_is_refused(log: Chain) -> None:
    with pytest.raises(AuditUnwritableError, match="too long"):
        log.add({"event": "x" * (64 << 10)})
    assert log.read().entries == []


def test_a_disk_that_takes_a_part_is_an_error_and_the_part_is_closed(log: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log, 1)
    with monkeypatch.context() as patch:
        write = os.write
        patch.setattr(os, "write", lambda descriptor, text: write(descriptor, text[:30]))
        with pytest.raises(AuditUnwritableError, match="only a part"):
            log.add({"event": "test"})
    log.add({"event": "test"})
    assert [entry["event"] for entry in log.read().entries] == ["test", TORN, "test"]


def test_writers_at_the_same_time_make_one_chain(log: Chain) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: Chain(log.path).add({"event": "test", "number": number}), range(24)))
    reading = log.read()
    assert reading.line == 0, reading.why
    assert {entry["number"] for entry in reading.entries} == set(range(24))


def test_a_line_is_one_document_of_ascii(log: Chain) -> None:
    log.add({"event": "a\nb\x1b\u202e"})
    (line,) = log.path.read_bytes().splitlines()
    assert line.isascii()
    assert json.loads(line)["event"] == "a\nb\x1b\u202e"
