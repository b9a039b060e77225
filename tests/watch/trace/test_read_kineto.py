"""Traces of PyTorch's profiler: our own recorded programs, old and new names, what is cut, hostile or too much."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.errors import FactsInvalidError
from provision.watch.trace import read_kineto
from provision.watch.trace.classify import Label, verdicts
from provision.watch.trace.doubts import DoubtKind
from provision.watch.trace.model import Card, Cut, TracePart
from provision.watch.trace.read import read

from .timelines import MS, STEP, copying, events, kineto, launching

RECORDED = Path(__file__).parents[2] / "data" / "traces"


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("launch", Label.LAUNCH),
        ("launch-mended", Label.COMPUTE),
        ("sync", Label.SYNC),
        ("cpu", Label.CPU),
        ("transfer", Label.TRANSFER),
        ("transfer-mended", Label.COMPUTE),
        ("compute", Label.COMPUTE),
    ],
)
def test_our_programs_get_the_label_of_their_fault(name: str, label: Label) -> None:
    trace = read(RECORDED / f"{name}.json.gz", Cut())
    assert [verdict.label for verdict in verdicts(trace)] == [label]
    assert TracePart.WAITS in trace.missing
    assert trace.gpus == {0: Card("NVIDIA H100 80GB HBM3")}


@pytest.mark.parametrize("old", [False, True])
def test_old_and_new_names_of_categories_say_the_same(tmp_path: Path, *, old: bool) -> None:
    trace = read(kineto(tmp_path / "t.json", events(copying(0.5, pageable=True), old=old)), Cut(skip=0))
    shares = verdicts(trace)[0].shares
    assert shares
    assert shares.exposed_copies == pytest.approx(0.5, abs=0.01)
    assert {op.pageable for op in trace.ops if op.name == "HtoD"} == {True}


def test_pieces_of_any_size_give_the_same_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kineto(tmp_path / "t.json.gz", events(launching(0.4)))
    whole = read(path, Cut())
    monkeypatch.setattr(read_kineto, "_CHUNK", 777)
    assert read(path, Cut()) == whole


def test_a_file_that_is_cut_off_gives_what_stands_before(tmp_path: Path) -> None:
    path = kineto(tmp_path / "t.json", events(launching(0.4)))
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    trace = read(path, Cut())
    assert 50 < len(trace.ops) < 250
    assert any("cut off" in note for note in trace.notes)


def test_a_named_range_is_the_window(tmp_path: Path) -> None:
    path = kineto(tmp_path / "t.json", events(launching(0.4), ranges=((100 * MS, 350 * MS, "epoch"),)))
    trace = read(path, Cut("epoch"))
    assert (trace.began, trace.ended) == (100 * MS, 350 * MS)
    assert all(op.end > trace.began and op.start < trace.ended for op in trace.ops)
    with pytest.raises(FactsInvalidError, match="no range 'other'"):
        read(path, Cut("other"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}', "has no traceEvents"),
        (b'{"traceEvents": [' + b'{"a":' * 100_000, "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b"[[-1, 1, 37888, 7], [-1, 1, 512, 7]]", "its events are lists"),  # PyTorch's own timeline of memory
        (gzip.compress(b'{"traceEvents": []}', mtime=0)[:-9], "cannot read"),
        (b"\x1f\x8b" + b"\0" * 64, "cannot read"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(FactsInvalidError, match=message) as refused:
        read(path, Cut())
    assert refused.value.hint


def test_a_bomb_is_refused_at_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_kineto, "_MOST_BYTES", 100_000)
    monkeypatch.setattr(read_kineto, "_CHUNK", 10_000)
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b'{"ph": "M"},' * 20_000, 1))
    with pytest.raises(FactsInvalidError, match="larger than"):
        read(path, Cut())


def test_more_events_than_are_kept_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_kineto, "_MOST_KEPT", 300)
    with pytest.raises(FactsInvalidError, match="more than 300 events") as refused:
        read(kineto(tmp_path / "t.json", events(launching(0.4))), Cut())
    assert "--duration" in refused.value.hint


def test_overheads_count_as_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_kineto, "_MOST_KEPT", 300)
    overhead = {"ph": "X", "cat": "overhead", "name": "Instrumentation", "ts": 1, "dur": 1, "pid": 0, "tid": 0}
    with pytest.raises(FactsInvalidError, match="more than 300 events"):
        read(kineto(tmp_path / "t.json", [overhead] * 301), Cut())


def test_names_of_threads_take_no_memory_beyond_what_a_name_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_kineto, "_CHUNK", 50_000)
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 1, "dur": 1, "pid": "p" * 100_000}
    path = kineto(tmp_path / "t.json", [{**call, "tid": f"{number}" + "t" * 100_000} for number in range(100)])
    tracemalloc.start()
    try:
        trace = read(path, Cut())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(trace.calls), len({call.thread for call in trace.calls}), peak < 5_000_000) == (100, 100, True), peak


VALUES = (
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | st.floats() | st.text(max_size=6) | st.lists(st.integers(), max_size=2)
)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.fixed_dictionaries({"ts": VALUES, "dur": VALUES, "name": VALUES, "args": VALUES, "pid": VALUES}), max_size=4))
def test_values_of_any_kind_are_left_out_or_read(tmp_path_factory: pytest.TempPathFactory, found: list[dict[str, object]]) -> None:
    path = tmp_path_factory.mktemp("t") / "t.json"
    cats = ("kernel", "cuda_runtime", "user_annotation", "gpu_memcpy")
    path.write_text(json.dumps({"traceEvents": [{**e, "ph": "X", "cat": cats[n]} for n, e in enumerate(found)]}))
    trace = read(path, Cut())
    assert all(isinstance(op.start, int) and op.end >= op.start for op in trace.ops)
    verdicts(trace)


def test_a_host_without_a_gpu_leaves_a_trace_that_says_nothing(tmp_path: Path) -> None:
    found = [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": n, "dur": 1} for n in range(500)]
    verdict = verdicts(read(kineto(tmp_path / "t.json", found), Cut()))[0]
    assert verdict.label is Label.UNKNOWN
    assert [doubt.kind for doubt in verdict.doubts] == [DoubtKind.NO_WORK]


def test_times_keep_their_nanoseconds(tmp_path: Path) -> None:
    trace = read(kineto(tmp_path / "t.json", events(launching(0.4))), Cut(skip=0))
    assert trace.ops[1].start - trace.ops[0].start == STEP
