"""Programs of others in the verdict: what they found counts, what is not there does not, and what is not understood is unknown."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from provision.catalog import read
from provision.verify.bench.figures import Measured, ToolMessage
from provision.verify.bench.heard import replayed
from provision.verify.bench.references import reference_of
from provision.verify.bench.tools import TOOLS
from provision.verify.bench.verdict import BenchVerdict, Past, exit_code, judge
from tests.watch.bench.stand_in import recorded

from .programs import NCCL, PERSISTENCE, dcgm4, dcgmi, nccl, result

START = next(json.loads(line) for line in recorded("h100-quick") if json.loads(line)["kind"] == "start")


def verdicts(message: ToolMessage) -> list[BenchVerdict]:
    """Through the line that the host sends, on two GPUs."""
    start = {**START, "gpus": START["gpus"] * 2}
    run = replayed("h", [json.dumps(start).encode(), msgspec.json.encode(message)])
    return judge(run.start, run.measured, run.done, Past({}, {}))


@pytest.mark.parametrize(
    ("status", "outcome", "code"),
    [("Pass", "pass", 0), ("Warn", "warn", 0), ("Fail", "fail", 1), ("Skip", "reported", 0), ("Not Run", "unknown", 3)],
)
def test_what_dcgm_found_is_the_verdict_in_its_own_words(status: str, outcome: str, code: int) -> None:
    document = dcgm4(result(0), result(1, status, warnings=[PERSISTENCE]), summary=status)
    found = verdicts(dcgmi(document, code=0 if status in {"Pass", "Skip"} else 226))
    assert [(each.figure.gpu, each.outcome) for each in found] == [(0, "pass"), (1, outcome)]
    assert found[1].words == PERSISTENCE["warning"]
    assert exit_code(found, complete=True) == code


@pytest.mark.parametrize(("share", "outcome"), [(1.0, "pass"), (0.84, "warn"), (0.69, "fail")])
def test_the_sum_of_nccl_tests_has_the_gate_of_our_own(share: float, outcome: str) -> None:
    ours = reference_of(read.gpu("h100"), Measured("peers", "all_reduce.2", 0, "GB/s", 1.0))
    assert ours is not None
    text = re.sub(r"35\d\.00  35\d\.00", f"{share * ours.value:.2f}  {share * ours.value:.2f}", NCCL).replace(
        ": 351", f": {share * ours.value:g}"
    )
    [verdict] = verdicts(nccl(text))
    assert (verdict.reference, verdict.outcome) == (ours, outcome)


def test_a_wrong_sum_fails() -> None:
    text = NCCL.replace("350.00       0", "350.00      12").replace("values : 0 OK", "values : 1 FAILED")
    [verdict] = verdicts(nccl(text, code=1))
    assert (verdict.outcome, "WRONG result" in verdict.words) == ("fail", True)


@pytest.mark.parametrize(
    ("message", "outcome", "words"),
    [
        (ToolMessage("dcgm", 2), "not-applicable", "dcgmi is not installed on this host"),
        (ToolMessage("nccl", 2), "not-applicable", "all_reduce_perf is not installed on this host"),
        (ToolMessage("nccl", 1, "/opt/nccl-tests/build/all_reduce_perf"), "not-applicable", "there is only one GPU"),
        (dcgmi("", late=True, code=-15), "unknown", "dcgmi did not end in time"),
        (dcgmi("", code=None, error="Exec format error"), "unknown", "could not be started: Exec format error"),
        (dcgmi("", cut=True), "unknown", "more than can be its answer"),
        (
            nccl("", code=127, error="libnccl.so.2: cannot open"),
            "unknown",
            "ended with 127, and a line that must occur once in its output occurs 0 times",
        ),
        (nccl("", code=127, error="libnccl.so.2: cannot open"), "unknown", "(libnccl.so.2: cannot open)"),
    ],
)
def test_a_program_that_is_absent_or_not_understood_says_so_itself(message: ToolMessage, outcome: str, words: str) -> None:
    [verdict] = verdicts(message)
    assert (verdict.outcome, words in verdict.words) == (outcome, True), verdict.words


def test_a_program_that_we_do_not_know_proves_nothing() -> None:
    [verdict] = verdicts(ToolMessage("mine", 2, "/x", 0, json.dumps(dcgm4(result(0)))))
    assert (verdict.outcome, set(TOOLS)) == ("unknown", {"dcgm", "nccl"})


@pytest.mark.parametrize("change", [{"output": "x" * 70_000}, {"gpus": 65}, {"code": 10**6}, {"path": "x" * 400}])
def test_a_message_beyond_its_bounds_is_none(change: dict[str, Any]) -> None:
    line = json.dumps({"kind": "tool", "tool": "dcgm", "gpus": 2, **change}).encode()
    with pytest.raises(Exception, match="figure that is not one"):
        replayed("h", [line])
