"""`gpuprov bench`: words in; a table, JSON, a page and an exit code out. The host behind ssh says what an H100 said."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.watch.bench.stand_in import changed, play_bench, recorded

# Of the recorded run, what its first steps gave: everything that was begun was done.
DONE = [line for line in recorded("h100-quick") if json.loads(line).get("recipe") not in {"amp", "alignment", "intensity", "minibatch"}]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUPROV_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GPUPROV_SSH_CONFIG", str(tmp_path / "ssh_config"))
    monkeypatch.setenv("PATH", f"{play_bench(tmp_path / 'bin', DONE)}:{os.environ['PATH']}")
    return tmp_path


def test_a_healthy_host_passes_in_the_table_the_json_and_the_page(call: Call, tmp_path: Path) -> None:
    code, out, err = call("bench", "good")
    assert (code, out.splitlines()[0].startswith("good: 14 pass")) == (0, True), out
    assert "at 1,410 MHz of 1,980: power cap" in out
    assert "memory.triad" not in out
    assert "good: gemm on GPU 0, about 105 s left" in err
    code, out, _ = call("bench", "good", "--all", "--html", str(tmp_path / "p.html"))
    assert "memory.triad" in out
    assert "good" in (tmp_path / "p.html").read_text()
    code, out, _ = call("bench", "good", "--json")
    [host] = json.loads(out)["hosts"]
    assert (host["complete"], host["exit_code"], host["start"]["gpus"][0]["name"]) == (True, 0, "NVIDIA H100 80GB HBM3")


def test_the_slow_one_of_six_is_named_and_the_record_remembers(call: Call, home: Path) -> None:
    code, out, _ = call("bench", "a", "b", "c", "d", "slow-e", "f")
    assert code == 0  # an outlier is a warning
    named = {part.splitlines()[0].split(":")[0]: part for part in out.split("\n\n") if "outlier" in part}
    assert list(named) == ["slow-e"]
    assert "outlier: 4.0% below the median of 5 hosts" in named["slow-e"]
    assert len(list((home / "home" / "bench").glob("*.jsonl"))) == 6
    # Measured alone, a host is compared with the six that are recorded; one that is as fast as the others is not an outlier among them.
    assert "outlier: 4.0% below the median of 6 hosts" in call("bench", "slow-g")[1]
    assert "outlier" not in call("bench", "h")[1]


@pytest.mark.parametrize(
    ("figure", "gpu", "said"),
    [
        (
            {"load": {"sm_mhz": 990, "reasons": {"128": 1.0}}},
            {},
            "power brake; at 990 MHz of 1,980: power brake",
        ),
        ({"load": {"sm_mhz": 990, "reasons": {"64": 1.0}}}, {}, "the hardware held it back: hardware thermal slowdown"),
        ({"value": 400.0, "load": {"sm_mhz": 990, "reasons": {"32": 1.0}}}, {}, "heat held it back: software thermal slowdown"),
        ({"value": 400.0, "load": {"sm_mhz": 990, "reasons": {"2": 1.0}}}, {}, "59% of 678; at 990 MHz of 1,980: clock setting"),
        ({"value": 400.0, "load": {"power_w": 350.0}}, {"power_limit_w": 350.0}, "power cap; its power limit is 350 W of 700"),
    ],
)
def test_a_fault_of_clock_or_power_names_itself_in_the_verdict(
    call: Call, tmp_path: Path, figure: dict[str, Any], gpu: dict[str, Any], said: str
) -> None:
    lines = [json.loads(line) for line in changed(DONE, "gemm.bf16.8192.settled", **figure)]
    lines = [{**line, "gpus": [{**line["gpus"][0], **gpu}]} if line["kind"] == "start" else line for line in lines]
    (tmp_path / "bin" / "lines.jsonl").write_text("\n".join(map(json.dumps, lines)))
    code, out, _ = call("bench", "good", "--json")
    [judged] = [each for each in json.loads(out)["hosts"][0]["figures"] if each["figure"] == "gemm.bf16.8192.settled"]
    assert (code, judged["outcome"], said in judged["words"]) == (1, "fail", True), judged["words"]


@pytest.mark.parametrize(
    ("host", "code", "said"),
    [
        ("busy", 3, "a GPU is in use (GPU 0 by process 41 of user 1000: train.py"),
        ("refused", 3, "Connection refused"),
        ("dies", 3, "ended the session before it had measured everything"),
        ("lies", 3, "sent a figure that is not one"),
    ],
)
def test_a_host_that_was_not_measured_says_why_and_is_unknown(call: Call, host: str, code: int, said: str) -> None:
    was, out, _ = call("bench", host)
    assert (was, said in out, "hint: " in out) == (code, True, True), out
    assert "\x1b" not in out


def test_the_interpreter_is_gpuprovs_own_or_the_one_that_is_named(call: Call) -> None:
    assert "/opt/gpuprov/venvs/pytorch/bin/python" in call("bench", "which")[1]
    assert "/opt/torch/bin/python" in call("bench", "which", "--python", "/opt/torch/bin/python")[1]


def test_what_programs_of_others_found_stands_in_the_table_the_json_and_the_page(call: Call, tmp_path: Path) -> None:
    test = {"name": "software", "results": [{"entity_id": 0, "status": "Fail", "warnings": [{"warning": "no <persistence> mode"}]}]}
    answer = {"DCGM Diagnostic": {"test_categories": [{"category": "Deployment", "tests": [test]}]}}
    said = {"kind": "tool", "tool": "dcgm", "gpus": 1, "path": "/usr/bin/dcgmi", "code": 226, "output": json.dumps(answer)}
    absent = {"kind": "tool", "tool": "nccl", "gpus": 1}
    (tmp_path / "bin" / "lines.jsonl").write_bytes(
        b"\n".join([*DONE[:-1], *(json.dumps(each).encode() for each in (said, absent)), DONE[-1]])
    )
    code, out, _ = call("bench", "good", "--html", str(tmp_path / "p.html"))
    assert (code, out.splitlines()[0].startswith("good: 1 fail, 14 pass")) == (1, True), out
    [row] = [line.split() for line in out.splitlines() if "dcgm.software" in line]
    assert (row[:3], "fail" in row, "<persistence>" in row) == (["dcgm.software", "0", "Fail"], True, True)
    assert "nccl" not in out
    assert "all_reduce_perf is not installed" in call("bench", "good", "--all")[1]
    page = (tmp_path / "p.html").read_text()
    assert ("dcgm.software" in page, "no &lt;persistence&gt; mode" in page) == (True, True)
    figures = {each["figure"]: each["outcome"] for each in json.loads(call("bench", "good", "--json")[1])["hosts"][0]["figures"]}
    assert (figures["dcgm.software"], figures["nccl.run"]) == ("fail", "not-applicable")


def test_a_host_that_is_lost_does_not_keep_another_from_its_verdict(call: Call) -> None:
    code, out, _ = call("bench", "good", "refused")
    assert (code, "good: 14 pass" in out) == (3, True)


def test_a_figure_that_fails_outweighs_a_host_that_is_unknown(call: Call, tmp_path: Path) -> None:
    lines = changed(DONE, "memory.copy", value=1000.0)
    (tmp_path / "bin" / "lines.jsonl").write_bytes(b"\n".join(lines))
    code, out, _ = call("bench", "good", "refused")
    assert (code, "34% of 2903" in out) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no host is named"),
        (["h", "--quick", "--full"], "two plans"),
        (["h", "--only", "gem"], "there is no recipe 'gem'"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_measured(call: Call, words: list[str], said: str) -> None:
    code, _, err = call("bench", *words)
    assert (code, said in err, "hint: " in err) == (2, True, True), err


def test_the_schema_is_printed_without_a_host(call: Call) -> None:
    code, out, _ = call("bench", "--schema")
    assert (code, "FigureEntry" in json.loads(out)["$defs"]) == (0, True)
