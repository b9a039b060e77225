"""SQLite exports: their traps, of which each was found on a real file, and what a stranger may write into one."""

from __future__ import annotations

import os
import signal
import sqlite3
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.errors import FactsInvalidError, UsageError
from provision.watch.trace import read_nsys
from provision.watch.trace.classify import Label, verdicts
from provision.watch.trace.model import Card, Cut, Kind, TracePart
from provision.watch.trace.read import read
from tests.waiting import until

from .timelines import MS, STEPS, Line, computing, copying, export, launching, starting, syncing, working

REAL = Path(__file__).parents[4] / "shared" / "traces"
WHOLE = Cut(skip=0)


def test_rows_in_any_order_give_the_same_trace(tmp_path: Path) -> None:
    one, two = (read(export(tmp_path / f"{seed}.sqlite", launching(0.4), seed=seed), Cut()) for seed in (1, 2))
    assert one == two
    assert verdicts(one)[0].label is Label.LAUNCH
    assert one.maker == "nsys 2026.2.1.210, schema 3.25.0"
    assert one.gpus == {0: Card("NVIDIA H100 80GB HBM3", 132, "9.0")}


def test_versions_behind_the_names_of_calls_change_nothing(tmp_path: Path) -> None:
    lines = [syncing(0.3), starting(0.4)]
    for line in lines:
        line.calls = [call._replace(name=call.name + "_v3020") for call in line.calls]
    found = [verdicts(read(export(tmp_path / f"{n}.sqlite", line), WHOLE))[0].label for n, line in enumerate(lines)]
    assert found == [Label.SYNC, Label.START_UP]


def test_processes_that_count_alike_are_told_apart(tmp_path: Path) -> None:
    quick = computing(0.95)
    quick.pid = 8
    quick.ops = [op._replace(device=1) for op in quick.ops]
    trace = read(export(tmp_path / "t.sqlite", launching(0.5), quick), WHOLE)
    found = {verdict.shares.device: verdict.label for verdict in verdicts(trace) if verdict.shares}
    assert found == {0: Label.LAUNCH, 1: Label.COMPUTE}


def test_launch_calls_that_take_long_while_the_gpu_is_busy_are_no_fault(tmp_path: Path) -> None:
    line = computing(0.99)
    line.calls = [call._replace(end=call.start + MS) for call in line.calls]
    assert verdicts(read(export(tmp_path / "t.sqlite", line), WHOLE))[0].label is Label.COMPUTE


def test_graphs_are_read_as_work(tmp_path: Path) -> None:
    line = computing(0.95)
    line.ops = [op._replace(kind=Kind.GRAPH) for op in line.ops]
    trace = read(export(tmp_path / "t.sqlite", line), WHOLE)
    assert verdicts(trace)[0].label is Label.COMPUTE
    assert {op.name for op in trace.ops} == {"CUDA graph"}


@pytest.mark.parametrize(
    ("table", "label"), [("CUPTI_ACTIVITY_KIND_RUNTIME", Label.UNKNOWN), ("OSRT_API", Label.CPU), ("NVTX_EVENTS", Label.CPU)]
)
def test_a_table_that_is_missing_is_unknown_and_not_zero(tmp_path: Path, table: str, label: Label) -> None:
    trace = read(export(tmp_path / "t.sqlite", working(0.5, waits=True), without=(table,)), WHOLE)
    assert verdicts(trace)[0].label is label
    assert {"CUPTI_ACTIVITY_KIND_RUNTIME": TracePart.CALLS, "OSRT_API": TracePart.WAITS, "NVTX_EVENTS": TracePart.RANGES}[
        table
    ] in trace.missing


def test_a_table_without_a_row_is_missing_as_well(tmp_path: Path) -> None:
    line = working(0.5)
    line.calls = []
    trace = read(export(tmp_path / "t.sqlite", line), WHOLE)
    assert TracePart.CALLS in trace.missing
    assert "missing in the trace: calls of the CUDA API" in str(verdicts(trace)[0].doubts[0])


def test_pageable_and_pinned_copies_are_told_apart(tmp_path: Path) -> None:
    for pageable in (True, False):
        trace = read(export(tmp_path / "t.sqlite", copying(0.5, pageable=pageable)), WHOLE)
        assert {op.pageable for op in trace.ops if op.name == "HtoD"} == {pageable}


def test_the_window_leaves_the_warm_up_out_or_is_a_named_range(tmp_path: Path) -> None:
    path = export(tmp_path / "t.sqlite", launching(0.5), ranges=((90 * MS, 340 * MS, "epoch"),))
    trace = read(path, Cut())
    assert trace.began == pytest.approx(0.2 * STEPS * 2 * MS, rel=0.02)
    named = read(path, Cut("epoch"))
    assert (named.began, named.ended) == (90 * MS, 340 * MS)
    with pytest.raises(FactsInvalidError, match="no range 'other'"):
        read(path, Cut("other"))


def test_a_trace_that_is_larger_than_memory_is_read_in_its_last_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = export(tmp_path / "t.sqlite", launching(0.4, Line(steps=1000)))
    monkeypatch.setattr(read_nsys, "MOST_OPS", 250)
    trace = read(path, WHOLE)
    assert 150 < len(trace.ops) <= 250
    assert trace.ended == max(op.end for op in trace.ops)
    assert any("only the last" in note for note in trace.notes)
    assert verdicts(trace)[0].label is Label.LAUNCH


VALUES = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=5) | st.binary(max_size=5)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(*[VALUES] * 5), min_size=1, max_size=4))
def test_values_of_any_type_are_left_out_or_read(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[object, ...]]) -> None:
    path = export(tmp_path_factory.mktemp("t") / "t.sqlite", launching(0.4, Line(steps=3)))
    with sqlite3.connect(path) as db:
        for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL"):
            width = len(db.execute(f"PRAGMA table_info({table})").fetchall())
            marks = ", ".join("?" * width)
            db.executemany(f"INSERT INTO {table} VALUES ({marks})", [(row * 3)[:width] for row in rows])  # noqa: S608 - ours
    db.close()
    verdicts(read(path, Cut()))


def test_a_view_or_a_virtual_table_is_no_table(tmp_path: Path) -> None:
    path = export(tmp_path / "t.sqlite", launching(0.4), without=("OSRT_API", "NVTX_EVENTS"))
    with sqlite3.connect(path) as db:
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        db.execute(f'CREATE VIEW OSRT_API AS {endless} SELECT i AS start, i AS "end", 9 AS globalTid, 1 AS nameId FROM n')  # noqa: S608 - ours
        db.execute('CREATE VIRTUAL TABLE NVTX_EVENTS USING fts5(start, "end", eventType, globalTid)')
    db.close()
    trace = read(path, WHOLE)
    assert trace.waits == []
    assert {TracePart.WAITS, TracePart.RANGES} <= trace.missing


def test_a_query_may_do_nothing_but_read(tmp_path: Path) -> None:
    with read_nsys._Export(export(tmp_path / "t.sqlite", launching(0.4))) as opened:
        for attempt in ("ATTACH 'other' AS o", "SELECT load_extension('x')", "DELETE FROM StringIds", "PRAGMA journal_mode = WAL"):
            with pytest.raises(sqlite3.DatabaseError):
                opened._db.execute(attempt)


@pytest.mark.parametrize("damage", ["cut", "noise", "other"])
def test_a_damaged_or_a_foreign_database_is_refused(tmp_path: Path, damage: str) -> None:
    path = export(tmp_path / "t.sqlite", launching(0.4))
    raw = path.read_bytes()
    if damage == "cut":
        path.write_bytes(raw[:5000])
    elif damage == "noise":
        path.write_bytes(raw[:100] + b"\xff" * 8000 + raw[8100:])
    else:
        path.unlink()
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE t (a)")
        db.close()
    with pytest.raises(FactsInvalidError) as refused:
        read(path, Cut())
    assert "nsys" in refused.value.hint


def test_what_no_reader_knows_is_refused_with_the_way_to_make_it_known(tmp_path: Path) -> None:
    report = tmp_path / "a.nsys-rep"
    report.write_bytes(b"\0QDSTRM\0")
    with pytest.raises(UsageError, match="only nsys reads") as refused:
        read(report, Cut())
    assert "nsys export --type sqlite" in refused.value.hint
    report.rename(tmp_path / "a.bin")
    with pytest.raises(FactsInvalidError, match="neither"):
        read(tmp_path / "a.bin", Cut())
    for absent in (tmp_path / "absent", Path("/dev/zero")):
        with pytest.raises(UsageError, match="cannot read"):
            read(absent, Cut())


@pytest.mark.skipif(not REAL.is_dir(), reason="the real exports are not beside the repository, in ../shared/traces")
@pytest.mark.parametrize(
    ("name", "label"), [("h100_2gpu_1s", Label.TRANSFER), ("mfu_2gpu_before", Label.COMPUTE), ("mfu_2gpu_after", Label.LAUNCH)]
)
def test_real_exports_get_the_label_of_their_definitions(name: str, label: Label) -> None:
    found = verdicts(read(REAL / f"{name}.sqlite", Cut()))
    assert [verdict.label for verdict in found] == [label, label]


def braided(path: Path, *, deep: int = 12, wide: int = 60) -> Path:
    """An export of a few KB in which every page of a table leads to the next one 61 times: more rows than anybody waits for."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA page_size = 512")
    db.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
    db.execute('CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, "end" INTEGER, globalPid INTEGER)')
    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 3)")
    db.commit()
    (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name LIKE '%KERNEL'").fetchone()
    db.close()
    raw = path.read_bytes()
    pages = [raw[at : at + 512] for at in range(0, len(raw), 512)]
    first, last = len(pages) + 1, len(pages) + deep
    pages += [*[b""] * (deep - 1), pages[root - 1]]
    for here, below in zip([root, *range(first, last)], range(first, last + 1), strict=True):
        offsets = [512 - 5 * (number + 1) for number in range(wide)]
        cells = b"".join(struct.pack(">IB", below, wide - number) for number in range(wide))
        head = struct.pack(f">BHHHBI{wide}H", 5, 0, wide, offsets[-1], 0, below, *offsets)
        pages[here - 1] = head + bytes(512 - len(head) - len(cells)) + cells
    whole = bytearray(b"".join(pages))
    whole[28:32] = struct.pack(">I", last)
    path.write_bytes(whole)
    return path


def test_pages_that_lead_to_each_other_end_a_reading_and_do_not_hold_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = braided(tmp_path / "t.sqlite")
    monkeypatch.setattr(read_nsys, "_LONGEST_S", 0.0)
    with pytest.raises(FactsInvalidError, match="takes longer than 0 s to read"):
        read(path, WHOLE)


def test_ctrl_c_ends_a_query(tmp_path: Path) -> None:
    path = braided(tmp_path / "t.sqlite")
    command = [sys.executable, "-m", "provision", "trace", "--read", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        opened = Path(f"/proc/{process.pid}/fd")
        until(lambda: path in {Path(os.path.realpath(each)) for each in opened.iterdir()})
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, "error[interrupted]" in err) == (130, True), err
