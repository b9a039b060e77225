"""Mixed precision and Triton's kernel, which tier perf runs in the host's PyTorch: what passes, and each way in which it does not."""

from __future__ import annotations

from typing import Any

import pytest

from provision.verify.facts.file import load
from tests.verify import good

PERF = {"tier": "perf"}
H200 = {"gpu__model": "h200", "verify": PERF}
WITH_TRITON = {**H200, "stack__extras": ["triton"]}
NOT_TRIED = {"reason": "not-run", "unknown": "it died before"}


def judged(check: str, changed: dict[str, Any], asked: dict[str, Any], gpus: int = 1) -> tuple[str, str, str]:
    result = good.finding(check, good.under_load(gpus=gpus, **changed), good.profile(gpu__count=gpus, **asked))
    return result.outcome, result.observed, result.hint


CASES: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    ("amp", {}, H200, "pass", "GPU 0: 8.3 x in bfloat16"),
    ("amp", {"amp__speed_up": 1.0}, H200, "fail", "1 x in bfloat16"),
    ("amp", {"amp__speed_up": 1.01}, H200, "pass", "1.01 x"),
    ("amp", {"amp__error": 0.02}, H200, "pass", ""),
    ("amp", {"amp__error": 0.021}, H200, "fail", "WRONG result"),
    ("amp", {"amp__error": None}, H200, "fail", "WRONG result"),
    (
        "amp",
        {"amp": {"reason": "timeout", "unknown": "amp did not end within 10 s"}},
        H200,
        "unknown",
        "not measured, timeout: amp did not",
    ),
    ("amp", {"others__during": ["4711 python"]}, H200, "unknown", "also used by 4711 python"),
    ("amp", {}, {**H200, "stack__frameworks__pytorch": None}, "not-applicable", "does not ask for PyTorch"),
    ("amp", {}, {"gpu__model": "p100", "verify": PERF, "stack__profilers": ["nsys"]}, "not-applicable", "no tensor cores"),
    ("amp", {}, {"gpu__model": "v100", "verify": PERF}, "pass", ""),
    ("triton", {}, WITH_TRITON, "pass", "GPU 0: right, with Triton 3.6.0"),
    ("triton", {"triton__right": False}, WITH_TRITON, "fail", "WRONG sum"),
    ("triton", {"triton": {"reason": "missing", "unknown": "no /usr/include/python3.12/Python.h"}}, WITH_TRITON, "fail", "Python.h"),
    ("triton", {"triton": {"reason": "failed", "unknown": "PTX of a newer driver"}}, WITH_TRITON, "fail", "PTX of a newer driver"),
    ("triton", {"triton": NOT_TRIED}, WITH_TRITON, "unknown", "not tried, not-run: it died before"),
    ("triton", {"triton": NOT_TRIED}, H200, "not-applicable", "does not ask for Triton"),
]


@pytest.mark.parametrize(("check", "changed", "asked", "outcome", "words"), CASES)
def test_what_computes_right_and_faster_passes_and_nothing_else(
    check: str, changed: dict[str, Any], asked: dict[str, Any], outcome: str, words: str
) -> None:
    result = judged(check, changed, asked)
    assert (result[0], words in result[1]) == (outcome, True), result
    assert (check, outcome) != ("triton", "fail") or "WRONG" in result[1] or "--role pytorch" in result[2]


@pytest.mark.parametrize(("check", "changed"), [("amp", {"amp__speed_up": 0.5}), ("triton", {"triton__right": False})])
def test_one_bad_gpu_of_several_decides(check: str, changed: dict[str, Any]) -> None:
    outcome, observed, _ = judged(check, changed, WITH_TRITON, gpus=4)
    assert (outcome, "GPU 1: " in observed) == ("fail", True)


@pytest.mark.parametrize("check", ["amp", "triton"])
def test_a_gpu_that_was_not_measured_is_unknown(check: str) -> None:
    result = good.finding(check, good.under_load(gpus=1), good.profile(gpu__count=2, **WITH_TRITON))
    assert (result.outcome, "GPU 1 not measured" in result.observed) == ("unknown", True)


def test_what_a_real_h100_did_passes() -> None:
    observed = load(good.RECORDED / "h100-perf.json")
    asked = good.profile(gpu__model="h100", verify=PERF, stack__extras=["triton"])
    assert {check: good.finding(check, observed, asked).outcome for check in ("amp", "triton")} == {"amp": "pass", "triton": "pass"}
    assert "8.34 x in bfloat16" in good.finding("amp", observed, asked).observed
