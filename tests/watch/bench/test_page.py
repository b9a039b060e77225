"""The page and the report: what an H100 did, and inert whatever a host says."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from provision.verify.bench.figures import DoneMessage, RefusedMessage
from provision.verify.bench.heard import BenchRun, replayed
from provision.watch.bench import page, report
from provision.watch.bench.report import BenchReport, host_entry
from provision.workflow.bench import judged

from .stand_in import changed, recorded

EVIL = "<script>alert(1)</script>"


def of(folder: Path, lines: list[bytes], host: str = "train-1") -> BenchReport:
    return judged([replayed(host, lines)], "quick", folder)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> BenchReport:
    return of(tmp_path_factory.mktemp("record"), [*recorded("h100-quick"), *recorded("h100-cells")])


def layer(name: str, value: float, **detail: float) -> bytes:
    unit = "GB/s" if name == "roof.memory" else "TFLOPS"
    return json.dumps(
        {"kind": "figure", "recipe": "intensity", "gpu": 0, "name": name, "value": value, "unit": unit, "detail": detail}
    ).encode()


ROOF = [layer("roof.arithmetic", 600.0), layer("roof.memory", 3000.0)]


def test_layers_are_math_or_memory_bound_by_the_measured_roof(tmp_path: Path) -> None:
    lines = [
        *ROOF,
        layer("linear.1", 2.4, intensity=1.0),
        layer("linear.4096", 540.0, intensity=682.0),
        layer("linear.256", 300.0, intensity=199.0),
    ]
    text = page.render(of(tmp_path, lines))
    assert "600 TFLOPS and 3000 GB/s: below 200 operations a byte a layer is memory-bound" in text
    rows = re.findall(r"<tr><td>(linear\.\d+)</td>.*?<td>((?:math|memory)-bound)</td><td class=\"number\">(\d+) %", text)
    assert rows == [("linear.1", "memory-bound", "80"), ("linear.4096", "math-bound", "90"), ("linear.256", "memory-bound", "50")]
    assert text.count("<circle") == 3


def test_a_point_under_the_roof_is_drawn_below_it(tmp_path: Path) -> None:
    text = page.render(of(tmp_path, [*ROOF, layer("linear.4096", 300.0, intensity=682.0)]))
    corner = re.search(r'<polyline points="[^"]* ([\d.]+),([\d.]+) [\d.]+,[\d.]+"', text)
    point = re.search(r'<circle cx="([\d.]+)" cy="([\d.]+)"', text)
    assert corner is not None
    assert point is not None
    assert float(point[1]) > float(corner[1])
    assert float(point[2]) > float(corner[2])  # downwards


def test_the_table_of_mini_batches_stands_beside_that_of_2016(result: BenchReport) -> None:
    text = page.render(result)
    row = re.search(r"<tr><td>resnet-50</td>(.*)</tr>", text)
    assert row is not None
    cells = re.findall(r'<td class="number">([^<]*)</td>', row[1])
    # The GPU, 1, 4 and 16 threads; 2016 by device; and how much faster than the fastest GPU of 2016: 0.136 s.
    assert cells == ["0.0154", "–", "2.14", "1.2", "4.74 – 43.2", "3.68 – 53.3", "0.207 – 0.327", "0.136 – 0.254", "0.449 – 0.766", "9"]  # noqa: RUF001
    assert "What changed since: the cards and processors, the framework (PyTorch 2.11.0+cu130)" in text


def test_every_judged_figure_has_a_row_with_its_verdict_and_every_reference_its_source(result: BenchReport) -> None:
    text, [host] = page.render(result), result.hosts
    judged_figures = [figure for figure in host.figures if figure.outcome != "reported"]
    assert text.count('<td><span class="badge">') == len(judged_figures) == 14
    assert "https://github.com/zzc0721/torch-performance-test-data" in text
    assert {figure.reference.title != "" for figure in host.figures if figure.reference} == {True}


def test_a_soak_is_plotted_over_its_time(tmp_path: Path) -> None:
    series = [[10.0, 680.0, 1400, 699.0, 60, 4], [20.0, 670.0, 1390, None, 61, 4]]
    line = {"kind": "figure", "recipe": "soak", "gpu": 0, "name": "last", "value": 670.0, "unit": "TFLOPS", "series": series}
    text = page.render(of(tmp_path, [json.dumps(line).encode()]))
    assert re.findall(r"<figcaption>GPU 0: (\d+) to (\d+) (\w+)", text) == [
        ("670", "680", "TFLOPS"),
        ("1390", "1400", "MHz"),
        ("699", "699", "W"),
        ("60", "61", "C"),
    ]


def test_what_a_host_says_is_inert_and_only_our_style_applies(tmp_path: Path) -> None:
    lines = changed(recorded("h100-quick"), "memory.copy", value=None, why=EVIL)
    lines = [line.replace(b"NVIDIA H100 80GB HBM3", EVIL.encode()) for line in lines]
    text = page.render(of(tmp_path, lines, host=EVIL))
    assert EVIL not in text
    assert "&lt;script&gt;" in text
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"sha256-{digest}" in text
    assert "<script" not in text


def test_the_report_is_what_its_schema_says_and_reads_back(result: BenchReport) -> None:
    raw = msgspec.json.encode(result)
    assert msgspec.json.decode(raw, type=BenchReport) == result
    schema = report.json_schema()
    assert schema["$ref"] == "#/$defs/BenchReport"
    assert set(schema["$defs"]["FigureEntry"]["properties"]) == set(json.loads(raw)["hosts"][0]["figures"][0])
    assert json.loads(raw)["schema"] == "gpuprov-bench/1"


def test_a_recipe_that_did_not_end_makes_the_run_incomplete_and_says_why(result: BenchReport) -> None:
    [host] = result.hosts
    assert (host.complete, host.exit_code, result.exit_code) == (False, 3, 3)
    assert host.error.startswith("amp on GPU 0: it did not end within 35 s")


def test_control_characters_do_not_reach_a_terminal(tmp_path: Path) -> None:
    lines = changed(recorded("h100-quick"), "memory.copy", value=None, why="a\x1b[31mb")
    cells = [cell for row in report.rows(of(tmp_path, lines).hosts[0], every=True) for cell in row]
    assert any("b" in cell and "a" in cell for cell in cells)
    assert not any("\x1b" in cell for cell in cells)


@pytest.mark.parametrize(
    ("run", "hint"),
    [
        ({"done": [DoneMessage(0, "gemm", (0,), {"0": "CUDA error: CUDA-capable device(s) is/are busy or unavailable"})]}, "compute mode"),
        ({"refused": RefusedMessage("no-gpu", "Unexpected error from cudaGetDeviceCount(). Error 802: x")}, "the checks fabric"),
        ({"refused": RefusedMessage("no-gpu", "there is no GPU")}, "see `nvidia-smi` on the host"),
        ({"refused": RefusedMessage("lost", "GPU 5: GPU is lost")}, "`gpuprov verify` of the host says what to do"),
        ({"done": [DoneMessage(0, "gemm", (0,), {"0": "it did not end"})]}, ""),
    ],
)
def test_an_error_of_cudas_has_the_hint_that_verify_gives(run: dict[str, Any], hint: str) -> None:
    entry = host_entry(BenchRun("train-1", 0.0, **run), "quick", "", [])
    assert (hint in entry.hint, bool(entry.hint)) == (True, bool(hint))
