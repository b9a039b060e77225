"""TensorRT, Transformer Engine and FlashAttention on every GPU: what passes, and each way in which it does not."""

from __future__ import annotations

from typing import Any

import pytest

from provision.verify.facts.file import load
from tests.verify import good

BASE = {"gpu__model": "h200", "verify": {"tier": "perf"}}
TENSORRT = {**BASE, "stack__extras": ["tensorrt"]}
ENGINE = {**BASE, "stack__extras": ["transformer-engine"]}
ATTENTION = {**BASE, "stack__extras": ["flash-attn"]}
DIED = {"reason": "not-run", "unknown": "it died before"}
MISSING = {"reason": "missing", "unknown": "libnvonnxparser.so.11: cannot open shared object file"}

CASES: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    ("tensorrt", {}, TENSORRT, "pass", "GPU 0: 11.3.0.99: FP32 off by 4e-07, FP16 off by 0.00047, INT8 off by 0.02"),
    ("tensorrt", {"tensorrt__fp32": 1e-4, "tensorrt__fp16": 0.005, "tensorrt__int8": 0.05}, TENSORRT, "pass", ""),
    ("tensorrt", {"tensorrt__fp32": 1.1e-4}, TENSORRT, "fail", "WRONG result, FP32 is off by 0.00011"),
    ("tensorrt", {"tensorrt__fp16": 0.0051}, TENSORRT, "fail", "WRONG result, FP16 is off by 0.0051"),
    ("tensorrt", {"tensorrt__int8": 0.051}, TENSORRT, "fail", "WRONG result, INT8 is off by 0.051"),
    ("tensorrt", {"tensorrt__int8": None}, TENSORRT, "fail", "INT8 is off by an unknown amount"),
    ("tensorrt", {"tensorrt__fp16": 0.0}, TENSORRT, "fail", "FP16 was not computed in FP16"),
    ("tensorrt", {"tensorrt__int8": 0.0005}, TENSORRT, "fail", "INT8 was not computed in INT8"),
    ("tensorrt", {"tensorrt__library": 110400}, TENSORRT, "fail", "the Python part is 11.3.0.99, and the library 11.4.0"),
    ("tensorrt", {"tensorrt__version": "10.4.0", "tensorrt__library": 100400}, TENSORRT, "pass", "10.4.0: "),
    ("tensorrt", {"tensorrt__version": "eleven"}, TENSORRT, "unknown", "malformed"),
    ("tensorrt", {"tensorrt": MISSING}, TENSORRT, "fail", "libnvonnxparser.so.11"),
    ("tensorrt", {"tensorrt": {"reason": "failed", "unknown": "TensorRT built no engine in int8"}}, TENSORRT, "fail", "no engine in int8"),
    ("tensorrt", {"tensorrt": {"reason": "import", "unknown": "undefined symbol"}}, TENSORRT, "unknown", "not tried, import: undefined"),
    ("tensorrt", {"tensorrt": DIED}, TENSORRT, "unknown", "not tried, not-run: it died before"),
    ("tensorrt", {"tensorrt": DIED}, BASE, "not-applicable", "does not ask for TensorRT"),
    ("transformer-engine", {}, ENGINE, "pass", "GPU 0: 2.20.2: BF16 off by 0.0017, FP8 off by 0.037"),
    ("transformer-engine", {"transformer_engine__fp8": 0.11}, ENGINE, "fail", "WRONG result, FP8 is off by 0.11"),
    ("transformer-engine", {"transformer_engine__fp8": 0.0017}, ENGINE, "fail", "FP8 was not computed in FP8"),
    ("transformer-engine", {"transformer_engine__bf16": 0.011}, ENGINE, "fail", "WRONG result, BF16"),
    (
        "transformer-engine",
        {"transformer_engine": {"reason": "no-memory", "unknown": "CUDA out of memory"}},
        ENGINE,
        "unknown",
        "no-memory",
    ),
    ("transformer-engine", {"transformer_engine": DIED}, TENSORRT, "not-applicable", "does not ask for Transformer Engine"),
    ("flash-attention", {}, ATTENTION, "pass", "GPU 0: 2.8.3.post2: output off by 0.0025, gradient off by 0.006"),
    ("flash-attention", {"flash_attention__forward": 0.021}, ATTENTION, "fail", "WRONG result, output is off by 0.021"),
    ("flash-attention", {"flash_attention__backward": 0.021}, ATTENTION, "fail", "WRONG result, gradient is off by 0.021"),
    ("flash-attention", {"flash_attention": {"reason": "failed", "unknown": "no kernel image"}}, ATTENTION, "fail", "no kernel image"),
    ("flash-attention", {"flash_attention": {"reason": "timeout", "unknown": "within 20 s"}}, ATTENTION, "unknown", "within 20 s"),
    ("flash-attention", {"flash_attention": DIED}, BASE, "not-applicable", "does not ask for FlashAttention"),
]


@pytest.mark.parametrize(("check", "changed", "asked", "outcome", "words"), CASES)
def test_what_computes_right_in_its_precision_passes_and_nothing_else(
    check: str, changed: dict[str, Any], asked: dict[str, Any], outcome: str, words: str
) -> None:
    found = good.finding(check, good.under_load(gpus=1, **changed), good.profile(gpu__count=1, **asked))
    assert (found.outcome, words in found.observed) == (outcome, True), found


@pytest.mark.parametrize(
    ("changed", "hint"),
    [
        ({"tensorrt": MISSING}, "--role extras"),
        ({"tensorrt__library": 110400}, "--role extras"),
        ({"tensorrt": {"reason": "failed", "unknown": "error 35"}}, "a driver that is too old"),
        ({"tensorrt__int8": 0.5}, "hand the machine back"),
        ({"tensorrt": DIED}, "measure again"),
    ],
)
def test_a_failure_says_what_to_do(changed: dict[str, Any], hint: str) -> None:
    assert hint in good.finding("tensorrt", good.under_load(gpus=1, **changed), good.profile(gpu__count=1, **TENSORRT)).hint


@pytest.mark.parametrize(
    ("check", "changed", "asked"),
    [
        ("tensorrt", {"tensorrt__int8": 0.5}, TENSORRT),
        ("transformer-engine", {"transformer_engine__fp8": 0.5}, ENGINE),
        ("flash-attention", {"flash_attention__forward": 0.5}, ATTENTION),
    ],
)
def test_one_bad_gpu_of_several_decides_and_one_that_is_not_there_is_unknown(
    check: str, changed: dict[str, Any], asked: dict[str, Any]
) -> None:
    found = good.finding(check, good.under_load(gpus=4, **changed), good.profile(gpu__count=4, **asked))
    assert (found.outcome, "GPU 1: WRONG" in found.observed, "GPU 3: " in found.observed) == ("fail", True, True)
    fewer = good.finding(check, good.under_load(gpus=1), good.profile(gpu__count=2, **asked))
    assert (fewer.outcome, "GPU 1 not measured" in fewer.observed) == ("unknown", True)


def test_facts_of_an_older_probe_leave_them_unknown() -> None:
    observed = load(good.RECORDED / "h100-perf.json")
    asked = good.profile(gpu__model="h100", verify={"tier": "perf"}, stack__extras=["tensorrt", "transformer-engine", "flash-attn"])
    outcomes = {check: good.finding(check, observed, asked).outcome for check in ("tensorrt", "transformer-engine", "flash-attention")}
    assert set(outcomes.values()) == {"unknown"}
