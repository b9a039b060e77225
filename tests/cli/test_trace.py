"""`gpuprov trace`: what a terminal and a program get of a trace, and the words that do not go together."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest

from tests.cli.conftest import Call, Screen
from tests.watch.trace.timelines import MS, STEP, STEPS, Line, computing, export, kineto, launching

RECORDED = Path(__file__).parents[1] / "data" / "traces"
EVIL = "\x1b]0;x\x07\u202egemm\x1b[2J"
SPANS = tuple((at, at + STEP - 1000, "step") for at in range(0, STEPS * STEP, STEP))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traces")
    export(folder / "slow.sqlite", launching(0.6), ranges=SPANS)
    export(folder / "quick.sqlite", computing(0.95), ranges=SPANS)
    return folder


def test_a_trace_is_explained_with_its_evidence_and_advice(call: Call, files: Path) -> None:
    code, out, _ = call("trace", "--read", str(files / "slow.sqlite"))
    assert code == 0
    first, meaning, maker, *_ = out.splitlines()
    assert first.endswith("slow.sqlite: launch-bound (high confidence; next comes gpu-compute-bound)")
    assert "cannot submit work" in meaning
    assert "a step (step) takes 2.000 ms" in maker
    (row,) = [line.split() for line in out.splitlines() if line.startswith("0 ")]
    assert row[1] == "launch-bound"
    assert [round(float(share.rstrip("%"))) for share in (row[2], row[5])] == [40, 60]
    assert sum(float(share.rstrip("%")) for share in row[2:-1]) == pytest.approx(100, abs=0.5)  # the last is a part of the first
    assert "0.319 s looked at after 0.080 s that count as warm-up" in maker
    assert "The largest gaps of GPU 0:" in out
    assert "1. Raise the batch" in out
    assert "     (shares.launch: 59.8%)" in out
    assert "--duration" not in out


def test_json_holds_its_schema(call: Call, files: Path) -> None:
    _, schema, _ = call("trace", "--schema")
    for words in (("--read", "slow.sqlite"), ("--compare", "slow.sqlite", "quick.sqlite")):
        code, out, _ = call("trace", words[0], *(str(files / word) for word in words[1:]), "--json")
        assert code == 0
        jsonschema.validate(json.loads(out), json.loads(schema))


def test_a_comparison_and_its_page(call: Call, files: Path, tmp_path: Path) -> None:
    page = tmp_path / "p.html"
    code, out, _ = call("trace", "--compare", str(files / "slow.sqlite"), str(files / "quick.sqlite"), "--html", str(page))
    assert code == 0
    assert "launch-bound became gpu-compute-bound" in out
    rows = {words[0]: words[1:] for line in out.splitlines() if (words := line.split())}
    assert [round(float(cell.rstrip("%"))) for cell in rows["launch"]] == [60, 0, -60]
    assert rows["ms"] == ["a", "step", "2.000", "2.000", "x", "1.00"]
    text = page.read_text()
    assert text.index("launch-bound became") < text.index("<h1>launch-bound</h1>") < text.index("<h1>gpu-compute-bound</h1>")


def test_what_a_trace_does_not_say_is_exit_code_three(call: Call, tmp_path: Path) -> None:
    code, out, _ = call("trace", "--read", str(kineto(tmp_path / "t.json", [])))
    assert code == 3
    assert "no GPU work in this trace" in out
    assert "no label" in out


def test_names_of_a_stranger_are_inert_on_a_terminal(on_terminal: Screen, tmp_path: Path) -> None:
    line = launching(0.5)
    line.ops = [op._replace(name=EVIL) for op in line.ops]
    line.calls = [call._replace(name=EVIL) for call in line.calls]
    path = export(tmp_path / "evil.sqlite", line, ranges=((0, STEPS * STEP, EVIL),))
    code, sent = on_terminal(200, "trace", "--read", str(path))
    assert code == 0
    assert "gemm" in sent
    assert "The largest gaps" in sent
    assert [part for part in ("\x1b]", "\x07", "\u202e", "\x1b[2J") if part in sent] == []


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("host", "--stop", "--read", "x"),
        ("--read", "x", "--compare", "a", "b"),
        ("host", "--stop", "--", "ls"),
        ("--read", "/dev/null/x"),
    ],
)
def test_words_that_do_not_go_together_are_wrong_usage(call: Call, words: tuple[str, ...]) -> None:
    code, out, err = call("trace", *words)
    assert (code, out) == (2, "")
    assert "hint: " in err


def test_a_host_without_a_command_says_what_stands_in_the_way(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "nsys").write_text("#!/bin/sh\necho v1\n")
    (tmp_path / "nsys").chmod(0o755)
    code, out, _ = call("trace", "localhost")
    assert code == 0
    assert f"+ nsys is {tmp_path}/nsys (v1)" in out
    code, out, _ = call("trace", "localhost", "--stop")
    assert (code, out) == (0, "there is no trace on localhost\n")


def test_a_kernel_is_measured_in_words(call: Call) -> None:
    code, out, _ = call("trace", "--read", str(RECORDED / "ncu.csv"))
    assert code == 0
    assert "computing is its roof, at 94 % of the peak; tensor cores are active 98 % of the time" in out
    assert "operations: 707.7 T/s" in out
    _, out, _ = call("trace", "--read", str(RECORDED / "ncu.csv"), "--json")
    assert json.loads(out)[0]["compute_capability"] == "9.0"


def test_a_range_of_the_program_is_looked_at_alone(call: Call, tmp_path: Path) -> None:
    path = export(tmp_path / "t.sqlite", launching(0.6, Line(steps=400)), ranges=((100 * MS, 400 * MS, "epoch"),))
    _, out, _ = call("trace", "--read", str(path), "--range", "epoch", "--json")
    assert json.loads(out)["window_s"] == 0.3
