"""Acceptance: what the checks of perf say to which measurement, and that no leaf of one breaks them."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.profile.model import Profile
from provision.verify.checks import CHECKS
from provision.verify.facts import load, parse
from provision.verify.finding import Finding
from provision.verify.judge import judge

from .. import good  # noqa: TID252 - the tests have no root package

PERF_CHECKS = ["gemm", "memory-bandwidth", "host-copies", "all-reduce"]
LATE = {"reason": "timeout", "unknown": "it did not end within 15 s"}
ONE: dict[str, Any] = {"gpus": 1, "total": {"reason": "one-gpu", "unknown": "there is one GPU"}}
ELSEWHERE = {"before": ["77 python3"], "during": ["77 python3"], "seen": True, "busy_before": 100}
UNSEEN = {"before": [], "during": [], "seen": False, "busy_before": 60}
T4 = {"name": "Tesla T4"}
X8 = {"load__link_generation": 3, "load__link_width": 8}
TOPOLOGY = {**good.SUM, "bus_gb_s": 15.0, "environment": {"NCCL_TOPO_FILE": "/x.xml"}}
# check, changed measurement, model, outcome, words in what was observed
CASES: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("gemm", {}, "h200", "pass", "GPU 0: 788 TFLOPS, sustained 665"),
    ("gemm", {**ONE, "gemm__tflops": 660.0, "gemm__sustained_tflops": 600.0}, "h200", "warn", "691 of 700 W"),
    ("gemm", {**ONE, "gemm__tflops": 500.0, "gemm__sustained_tflops": 480.0}, "h200", "fail", "held by power cap, link 5 x16 of 5 x16"),
    ("gemm", {**ONE, "gemm__sustained_tflops": 500.0}, "h200", "fail", "does not hold it"),
    ("gemm", {**ONE, "load__reasons": {"64": 0.5}}, "h200", "fail", "heat (hardware)"),
    ("gemm", {**ONE, "load__reasons": {"64": 0.02}}, "h200", "pass", ""),
    ("gemm", {**ONE, "load__reasons": {"32": 0.5}}, "h200", "warn", "heat (software)"),
    ("gemm", {"gemm__tflops": 700.0}, "h200", "warn", "11 % below the best GPU beside it"),
    ("gemm", {"gemm__sustained_tflops": 590.0}, "h200", "warn", "as well as it should"),
    ("gemm", {"gemm__tflops": 400.0}, "h200", "fail", "49 % below"),
    ("gemm", {"gemm__error": 0.3}, "h200", "fail", "WRONG result"),
    ("gemm", {"gemm__error": None}, "h200", "fail", "WRONG result"),
    ("gemm", {"gemm__tflops": 400.0, "others": ELSEWHERE}, "h200", "unknown", "also used by 77 python3"),
    ("gemm", {"gemm__tflops": 400.0, "others": UNSEEN}, "h200", "unknown", "somebody unseen (60 % busy before)"),
    ("gemm", {"gemm": LATE}, "h200", "unknown", "timeout: it did not end within 15 s"),
    ("gemm", {"gemm__tflops": 5000.0}, "h200", "unknown", "more than the 989.5"),
    ("gemm", {"gemm__sustained_tflops": None}, "h200", "unknown", "no sustained rate"),
    ("gemm", {"gemm__tflops": -1.0}, "h200", "unknown", "malformed"),
    ("gemm", {**ONE, "name": "NVIDIA H200 NVL"}, "h200", "unknown", "788 TFLOPS"),
    ("gemm", {**ONE, "gemm__precision": "fp16", "gemm__tflops": 25.0, "gemm__sustained_tflops": 22.0, **T4}, "t4", "unknown", "25 TFLOPS"),
    ("memory-bandwidth", {}, "h200", "pass", "4246.3 GB/s"),
    ("memory-bandwidth", {**ONE, "memory__gb_s": 3500.0}, "h200", "warn", "SM 1485 of 1980 MHz"),
    ("memory-bandwidth", {**ONE, "memory__gb_s": 2900.0}, "h200", "fail", "2900 GB/s"),
    ("memory-bandwidth", {"memory__gb_s": 3750.0}, "h200", "warn", "12 % below"),
    ("memory-bandwidth", {"memory__right": False}, "h200", "fail", "WRONG"),
    ("memory-bandwidth", {"memory__gb_s": 2900.0, "others": ELSEWHERE}, "h200", "unknown", "77 python3"),
    ("memory-bandwidth", {"memory": {"reason": "no-memory", "unknown": "CUDA out of memory"}}, "h200", "unknown", "no-memory"),
    # DCGM passes an H200 at 2,333 MB/s: a slip of the unit in its table.
    ("memory-bandwidth", {**ONE, "memory__gb_s": 2.333}, "h200", "fail", ""),
    ("host-copies", {}, "h200", "pass", "55.5 GB/s to it, 55.3 back"),
    ("host-copies", {**ONE, "copies__to_host_gb_s": 40.0}, "h200", "fail", "link 5 x16"),
    # What Azure's 48 would fail, on a healthy H100: Voltage Park's 54.8 and 46.8.
    ("host-copies", {**ONE, "copies__to_device_gb_s": 54.8, "copies__to_host_gb_s": 46.8}, "h200", "pass", "46.8"),
    ("host-copies", {"copies__to_host_gb_s": 48.0}, "h200", "warn", "13 % below"),
    ("host-copies", {"copies": {"reason": "died", "unknown": "gone"}}, "h200", "unknown", "died: gone"),
    ("host-copies", {"copies__right": None}, "h200", "fail", "WRONG"),
    ("host-copies", {**ONE, **T4, **X8, "copies__to_device_gb_s": 6.2, "copies__to_host_gb_s": 6.4}, "t4", "pass", "6.2"),
    ("host-copies", {**ONE, **T4, **X8, "copies__to_device_gb_s": 5.0, "copies__to_host_gb_s": 6.4}, "t4", "fail", "link 3 x8"),
    # A hypervisor's invented link, and none at all: nothing to hold it to.
    ("host-copies", {**ONE, **T4, "load__link_generation": 1, "load__link_width": 1}, "t4", "unknown", "55.5"),
    ("host-copies", {**ONE, **T4, "load__link_generation": None}, "t4", "unknown", "55.5"),
    ("all-reduce", {}, "h200", "pass", "right, 475 GB/s"),
    ("all-reduce", ONE, "h200", "not-applicable", "one GPU"),
    ("all-reduce", {"total": {**good.SUM, "bus_gb_s": 350.0}}, "h200", "warn", "350 GB/s"),
    # Azure's forced topology file: 15 GB/s on healthy cards (AzNHC #142).
    ("all-reduce", {"total": TOPOLOGY}, "h200", "fail", "NCCL_TOPO_FILE=/x.xml"),
    ("all-reduce", {"total": {**good.SUM, "right": False}}, "h200", "fail", "WRONG sum"),
    ("all-reduce", {"gpus": 2, "total": {**good.SUM, "gpus": 2, "bus_gb_s": 323.1}}, "h200", "unknown", "323.1 GB/s"),
    ("all-reduce", {"total": {**good.SUM, "bus_gb_s": 100.0}, "others": ELSEWHERE}, "h200", "unknown", "GPU 1 also used by 77 python3"),
    ("all-reduce", {"total": {**LATE, "environment": {}}}, "h200", "unknown", "timeout"),
    ("all-reduce", {"total": {**good.SUM, "gpus": 7}}, "h200", "unknown", "over 7 of 8 GPUs"),
    ("all-reduce", {"total": {**good.SUM, "bus_gb_s": 5.0}, **T4}, "t4", "pass", "right, 5 GB/s"),
]  # fmt: skip


def profile(model: str = "h200") -> Profile:
    """One that asks for tier perf."""
    return good.profile(gpu__model=model, verify={"tier": "perf"})


def finding(check: str, facts: Any, model: str = "h200") -> Finding:
    return good.finding(check, facts, profile(model))


@pytest.mark.parametrize(("check", "changed", "model", "outcome", "words"), CASES, ids=lambda v: str(v)[:40])
def test_table(check: str, changed: dict[str, Any], model: str, outcome: str, words: str) -> None:
    result = finding(check, good.under_load(**changed), model)
    assert (result.outcome, words in result.observed) == (outcome, True), result
    assert result.hint or outcome in {"pass", "not-applicable"}


@pytest.mark.parametrize("check", PERF_CHECKS)
@pytest.mark.parametrize("perf", [None, {"unknown": "no PyTorch in /opt/gpuprov/venvs/pytorch to measure with"}, {"devices": []}])
def test_what_was_not_measured_never_passes(check: str, perf: Any) -> None:
    assert finding(check, good.facts(**({} if perf is None else {"perf": perf}))).outcome == "unknown"


def leaves(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(node, dict) and node:
        return [leaf for key, value in node.items() for leaf in leaves(value, (*path, key))]
    if isinstance(node, list) and node:
        return [leaf for index, value in enumerate(node) for leaf in leaves(value, (*path, index))]
    return [path]


GARBAGE = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just([]), st.just({}))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_leaf_may_be_anything_without_a_traceback(data: st.DataObject) -> None:
    raw = json.loads(json.dumps(good.under_load(gpus=2, total={**good.SUM, "gpus": 2}).raw))
    path = data.draw(st.sampled_from(leaves(raw["perf"])))
    node = raw["perf"]
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = data.draw(GARBAGE)
    report = judge(parse({"schema": "gpuprov-facts/1", "gathered_at": "", "elapsed_s": 0, "facts": raw}, "x"), profile())
    assert len(report.findings) == len(CHECKS)


def test_what_was_recorded_on_two_real_h200s_is_judged_as_what_it_is() -> None:
    observed = load(good.RECORDED / "h200-perf.json")
    outcomes = {check: finding(check, observed) for check in PERF_CHECKS}
    assert {check: f.outcome for check, f in outcomes.items()} == {
        "gemm": "pass",
        "memory-bandwidth": "pass",
        "host-copies": "pass",
        "all-reduce": "unknown",  # no healthy figure is known for two
    }
    assert "right, 32" in outcomes["all-reduce"].observed
