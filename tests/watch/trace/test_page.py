"""The page of a trace: one file, with a timeline, that loads nothing, runs nothing and shows names as text."""

from __future__ import annotations

import base64
import hashlib
import re

from provision.watch.trace import evidence, timeline
from provision.watch.trace.model import Card, Kind, Range
from provision.watch.trace.page import render

from .timelines import MS, STEP, STEPS, Line, copying, launching

EVIL = "<script>alert(1)</script>\x1b]0;x\x07\u202e"


def page(line: Line, *said: str, name: str = "t") -> str:
    trace = line.trace(ranges=[Range(0, STEPS * STEP, line.thread, name)], gpus={0: Card(name)})
    return render([(evidence.document(trace, name), trace)], said)


def test_it_has_the_verdict_the_strip_the_gaps_and_the_advice() -> None:
    text = page(launching(0.6))
    assert "<h1>launch-bound</h1>" in text
    assert "cudaLaunchKernel" in text
    assert text.count('class="gap"') == 3
    assert "CUDA graphs" in text
    assert "<code>torch.compile(mode=" in text
    assert "(some effort: <bdi>shares.launch: 60.0%</bdi>)" in text
    assert "<td>unknown</td><td>unknown</td>" in text
    assert re.findall("<h([1-6])", text) == ["1", "2", "3", "3", "2"]


def test_no_level_of_headings_is_left_out() -> None:
    """A screen reader goes from heading to heading: https://dequeuniversity.com/rules/axe/4.10/heading-order."""
    levels = [int(level) for level in re.findall(r"<h([1-6])[ >]", page(launching(0.6), "something changed"))]
    assert 3 in levels
    assert all(level <= before + 1 for before, level in zip([0, *levels], levels, strict=False))


def test_names_of_a_stranger_are_text() -> None:
    line = launching(0.6)
    line.ops = [op._replace(name=EVIL) for op in line.ops]
    line.calls = [call._replace(name=EVIL) for call in line.calls]
    text = page(line, EVIL, name=EVIL)
    assert "<script" not in text
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)
    assert "&lt;script&gt;" in text


def test_it_loads_nothing_and_its_policy_names_its_own_style() -> None:
    text = page(copying(0.5))
    assert not re.search(r"(src|href|url\()=?[\"']?http", text)
    assert " style=" not in text
    style = text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in text.replace("&#39;", "'")


def test_the_strip_shows_what_the_gpu_did_when() -> None:
    line = Line(steps=100)
    line.op(0, 50 * MS, (0, 1))
    line.op(100 * MS, 150 * MS, (0, 1), name="ncclDevKernel_AllReduce")
    line.ops.append(line.ops[-1]._replace(start=150 * MS, end=200 * MS, kind=Kind.COPY, name="HtoD"))
    parts = timeline.strip(line.trace(), 0)
    quarter = timeline.PARTS // 4
    full = (0, timeline.STEPS)
    assert parts == [
        (0, quarter, "kernel", *full),
        (2 * quarter, quarter, "communication", *full),
        (3 * quarter, quarter, "copy", *full),
    ]


def test_many_short_kernels_make_one_piece_as_high_as_their_share() -> None:
    assert timeline.strip(launching(0.2, Line(steps=2000)).trace(), 0) == [(0, timeline.PARTS, "kernel", 0, timeline.STEPS * 4 // 5)]
    assert timeline.strip(launching(0.2).trace(), 5) == []


def test_a_hundredth_of_the_time_is_seen() -> None:
    line = Line(steps=100)
    line.op(0, 1 * MS, (0, 1))
    assert [piece[2:] for piece in timeline.strip(line.trace(), 0)][-1] == ("kernel", 0, timeline.STEPS)
    assert {piece.height for piece in timeline.strip(launching(0.99, Line(steps=2000)).trace(), 0)} == {1}
