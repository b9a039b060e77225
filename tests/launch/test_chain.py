"""The chain: what was changed, taken out or put in is named; what a killed writer left is closed by a line that says so."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from provision.errors import FileRefusedError
from provision.launch import chain
from provision.launch.chain import GENESIS, TORN, AuditUnwritableError, Chain
from provision.paths import lock_of


@pytest.fixture
def log(tmp_path: Path) -> Chain:
    return Chain(tmp_path / "home" / "audit.jsonl")


def fill(log: Chain, count: int = 3) -> list[bytes]:
    for number in range(count):
        log.add({"event": "test", "number": number})
    return log.path.read_bytes().splitlines()


def digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def of_length(length: int) -> bytes:
    """The first line of a chain, so many bytes long."""
    around = {"seq": 1, "prev": GENESIS, "event": ""}
    filler = "x" * (length - len(json.dumps(around, separators=(",", ":"))))
    return json.dumps(around | {"event": filler}, separators=(",", ":")).encode()


def test_lines_follow_from_one_another_and_only_the_user_can_read_them(log: Chain) -> None:
    assert log.read().entries == []
    assert log.read().head == GENESIS == "0" * 64
    lines = fill(log)
    reading = log.read()
    assert [entry["seq"] for entry in reading.entries] == [1, 2, 3]
    assert [entry["prev"] for entry in reading.entries] == [GENESIS, digest(lines[0]), digest(lines[1])]
    assert [(entry["event"], entry["number"]) for entry in reading.entries] == [("test", 0), ("test", 1), ("test", 2)]
    assert reading.head == digest(lines[2])
    assert (reading.line, reading.why) == (0, "")
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700
    log.add({"event": "test"})
    assert log.read().entries[-1]["prev"] == reading.head


@pytest.mark.parametrize(
    ("tamper", "line", "figures"),
    [
        (lambda lines: [lines[0], lines[1].replace(b'"number":1', b'"number":7'), *lines[2:]], 3, []),
        (lambda lines: [lines[0], *lines[2:]], 2, [3, 2]),
        (lambda lines: lines[1:], 1, [2, 1]),
        (lambda lines: [lines[0], lines[0], *lines[1:]], 2, [1, 2]),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], 2, [3, 2]),
        (lambda lines: [*lines[:4], lines[4].replace(b'"seq":5', b'"seq":6')], 5, [6, 5]),
        (lambda lines: [lines[0].replace(b'"seq":1', b'"seq":true'), *lines[1:]], 1, [None]),
        (lambda lines: [lines[0], b"", *lines[1:]], 2, [0]),
        (lambda lines: [lines[0], b"{}", *lines[2:]], 2, [2]),
        (lambda lines: [lines[0], lines[1][:20], *lines[2:]], 2, [20]),
        (lambda lines: [b"[" * 100_000, *lines[1:]], 1, [None]),
    ],
    ids=[
        *("changed", "taken out", "beginning cut off", "doubled", "swapped", "renumbered", "truth for a number"),
        *("blank", "emptied", "cut in the middle", "nested"),
    ],
)
def test_the_first_line_that_does_not_fit_is_named(
    log: Chain, tamper: Callable[[list[bytes]], list[bytes]], line: int, figures: list[int | None]
) -> None:
    lines = fill(log, 5)
    log.path.write_bytes(b"\n".join(tamper(lines)) + b"\n")
    reading = log.read()
    assert reading.line == line, reading.why
    assert [entry["seq"] for entry in reading.entries] == list(range(1, line))
    told = [int(figure) for figure in re.findall(r"\d+", reading.why)]
    # Numbers of lines, or the length of what is none.
    assert told == figures or (figures == [None] and len(told) == 1)


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


@pytest.mark.parametrize("newline", [b"", b"\n"], ids=["torn", "closed"])
@pytest.mark.parametrize(
    "end",
    [
        *(b'{"se', b"7", b"null", b"[3]", b'"seq"', b"{}", b"\xff", b"[" * 60_000),
        *(b'{"seq":3}', b'{"prev":""}', b'{"seq":"3","prev":""}', b'{"seq":true,"prev":""}', b'{"seq":3,"prev":7}'),
        *(b'{"seq":3\n{"prev":', b'\n{"seq":3'),
    ],
)
def test_whatever_is_no_entry_at_the_end_is_closed_by_what_it_was(log: Chain, end: bytes, newline: bytes) -> None:
    head = digest(fill(log, 2)[1])
    with log.path.open("ab") as file:
        file.write(end + newline)
    log.add({"event": "test", "at": "then"})
    reading = log.read()
    assert reading.line == 0, reading.why
    closing = {"seq": 3, "prev": digest(end), "after": head, "at": "then", "event": TORN, "bytes": len(end)}
    assert reading.entries[2:] == [
        closing,
        {"seq": 4, "prev": digest(log.path.read_bytes().splitlines()[-2]), "event": "test", "at": "then"},
    ]


def test_sixteen_torn_lines_can_be_closed_and_no_more(log: Chain) -> None:
    fill(log, 1)
    with log.path.open("ab") as file:
        file.writelines(b'{"torn":%d\n' % number for number in range(16))
    fill(log, 1)
    assert [entry["event"] for entry in log.read().entries] == ["test", TORN, "test"]
    assert log.read().line == 0
    with log.path.open("ab") as file:
        file.writelines(b'{"torn":%d\n' % number for number in range(17))
    before = log.path.read_bytes()
    with pytest.raises(AuditUnwritableError):
        fill(log, 1)
    assert log.path.read_bytes() == before
    assert (log.read().line, len(log.read().entries)) == (20, 3)


@pytest.mark.parametrize(
    ("was", "becomes", "line"),
    [
        (b'"event":"torn"', b'"event":"test"', 3),
        (b'"seq":3', b'"seq":4', 3),
        (b'"after":"', b'"after":"0', 3),
        (b'"prev":"', b'"prev":"0', 3),
        (b'"bytes":20', b'"bytes":21', 5),  # it closes them still, and the next line tells
    ],
)
def test_a_repair_that_was_changed_excuses_nothing(log: Chain, was: bytes, becomes: bytes, line: int) -> None:
    lines = fill(log, 3)
    log.path.write_bytes(b"\n".join([*lines[:2], lines[2][:20]]))
    lines = fill(log, 2)
    assert was in lines[3]
    log.path.write_bytes(b"\n".join([*lines[:3], lines[3].replace(was, becomes), *lines[4:]]) + b"\n")
    reading = log.read()
    assert (reading.line, len(reading.entries)) == (line, line - 1 if line == 3 else 3), reading.why


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


def test_what_cannot_be_opened_is_told_with_its_path_and_the_system_s_reason(log: Chain) -> None:
    log.path.parent.mkdir()
    log.path.symlink_to(log.path.name)
    why = f"{re.escape(str(log.path))}.*{os.strerror(errno.ELOOP)}"
    with pytest.raises(AuditUnwritableError, match=why) as unwritable:
        log.add({"event": "test"})
    assert (unwritable.value.code, unwritable.value.exit_code) == ("audit-unwritable", 2)
    with pytest.raises(FileRefusedError, match=why) as unreadable:
        log.read()
    assert (unreadable.value.code, unreadable.value.exit_code) == ("file-refused", 2)


def test_a_log_that_another_process_holds_is_not_written(log: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = fill(log, 1)
    monkeypatch.setattr(chain, "_WAIT_S", 0.01)
    with lock_of(log.path.with_suffix(".lock")), pytest.raises(AuditUnwritableError, match=r"0\.01 s"):
        log.add({"event": "test"})
    assert log.path.read_bytes().splitlines() == lines
    fill(log, 1)
    assert [entry["seq"] for entry in log.read().entries] == [1, 2]


def test_a_file_and_a_folder_that_others_could_read_are_closed_to_them(log: Chain) -> None:
    log.path.parent.mkdir(mode=0o755)
    log.path.touch(mode=0o644)
    fill(log, 1)
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700


def test_a_new_file_is_closed_to_others_from_its_first_moment(log: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: dict[int, int] = {}  # by inode, since releases of filelock close their own file so too

    def note(descriptor: int, _: int) -> None:
        state = os.fstat(descriptor)
        modes[state.st_ino] = stat.S_IMODE(state.st_mode)

    monkeypatch.setattr(os, "fchmod", note)
    fill(log, 1)
    assert modes[log.path.stat().st_ino] == 0o600


def test_a_line_and_the_name_of_a_new_file_are_on_the_disk_before_a_command_goes_on(log: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[int, int]] = []

    def sync(descriptor: int) -> None:
        state = os.fstat(descriptor)
        synced.append((state.st_ino, 0 if stat.S_ISDIR(state.st_mode) else state.st_size))

    monkeypatch.setattr(os, "fsync", sync)
    sizes = []
    for _ in range(2):
        fill(log, 1)
        sizes.append(log.path.stat().st_size)
    file, folder = log.path.stat().st_ino, log.path.parent.stat().st_ino
    assert synced == [(file, sizes[0]), (folder, 0), (file, sizes[1])]


def test_a_line_goes_on_from_the_end_of_a_file_that_is_longer_than_what_is_read_of_it(log: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "_WINDOW", 300)
    fill(log, 9)
    log.path.write_bytes(log.path.read_bytes()[:-20])
    fill(log, 2)
    reading = log.read()
    assert reading.line == 0, reading.why
    assert [entry["event"] for entry in reading.entries] == ["test"] * 8 + [TORN] + ["test"] * 2


def test_the_longest_line_is_taken_and_read_and_a_longer_one_is_refused(log: Chain) -> None:
    event = json.loads(of_length(64 << 10))["event"]
    with pytest.raises(AuditUnwritableError, match="too long"):
        log.add({"event": f"{event}x"})
    assert log.path.read_bytes() == b""
    log.add({"event": event})
    assert log.path.read_bytes() == of_length(64 << 10) + b"\n"
    reading = log.read()
    assert (reading.line, reading.entries, reading.head) == (0, [{"seq": 1, "prev": GENESIS, "event": event}], digest(of_length(64 << 10)))


def test_a_line_that_is_longer_than_any_writer_s_is_not_read_whole(log: Chain) -> None:
    log.path.parent.mkdir()
    log.path.write_bytes(of_length((64 << 10) + 3) + b"\n")
    assert (log.read().line, log.read().entries) == (1, [])


def test_a_disk_that_takes_a_part_is_an_error_and_the_part_is_closed(log: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log, 1)
    with monkeypatch.context() as patch:
        write = os.write
        patch.setattr(os, "write", lambda descriptor, text: write(descriptor, text[:30]))
        with pytest.raises(AuditUnwritableError, match="only a part"):
            log.add({"event": "test"})
    log.add({"event": "test"})
    assert [entry["event"] for entry in log.read().entries] == ["test", TORN, "test"]


def test_the_name_of_the_file_is_on_the_disk_with_its_first_line(log: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where an earlier writer made the file and was refused, or killed, before it wrote."""
    folders: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: folders.append(stat.S_ISDIR(os.fstat(descriptor).st_mode)))
    with pytest.raises(AuditUnwritableError):
        log.add({"event": "x" * (64 << 10)})
    assert log.path.read_bytes() == b""
    fill(log, 2)
    assert folders == [False, True, False]


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
