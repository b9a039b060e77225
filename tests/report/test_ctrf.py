"""The Common Test Report Format, against what its specification demands (ctrf.io)."""

import json
from typing import Any

import jsonschema
import pytest

from provision.report import ctrf
from provision.verify.finding import Report

from .examples import CASES, EMPTY, ONE

COUNT = {"type": "integer", "minimum": 0}
COUNTS = ("tests", "passed", "failed", "skipped", "pending", "other", "start", "stop")
TEST = {
    "type": "object",
    "required": ["name", "status", "duration"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "status": {"enum": ["passed", "failed", "skipped", "pending", "other"]},
        "duration": COUNT,
        "suite": {"type": "array", "minItems": 1, "items": {"type": "string"}},
        "message": {"type": "string"},
        "rawStatus": {"type": "string"},
        "extra": {"type": "object"},
    },
    "additionalProperties": False,
}
SCHEMA = {
    "type": "object",
    "required": ["results", "reportFormat", "specVersion"],
    "properties": {
        "reportFormat": {"const": "CTRF"},
        "specVersion": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"},
        "generatedBy": {"type": "string"},
        "results": {
            "type": "object",
            "required": ["tool", "summary", "tests"],
            "properties": {
                "tool": {"type": "object", "required": ["name"], "properties": {"name": {"minLength": 1}, "version": {"type": "string"}}},
                "summary": {
                    "type": "object",
                    "required": list(COUNTS),
                    "properties": dict.fromkeys((*COUNTS, "suites"), COUNT),
                    "additionalProperties": False,
                },
                "tests": {"type": "array", "items": TEST},
                "extra": {"type": "object"},
            },
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}


def results(*reports: Report) -> Any:
    return json.loads(ctrf.render(*reports))["results"]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_document_is_of_the_format_and_its_counts_are_those_of_its_tests(case: tuple[Report, ...]) -> None:
    data = json.loads(ctrf.render(*case))
    jsonschema.validate(data, SCHEMA)
    counts, tests = data["results"]["summary"], data["results"]["tests"]
    assert counts["tests"] == len(tests) == sum(len(report.findings) for report in case)
    for status in ("passed", "failed", "skipped", "pending", "other"):
        assert counts[status] == sum(test["status"] == status for test in tests)
    assert counts["start"] <= counts["stop"]


def test_our_own_word_stands_beside_the_status() -> None:
    assert {test["rawStatus"]: test["status"] for test in results(ONE)["tests"]} == {
        "pass": "passed",
        "fail": "failed",
        "warn": "passed",
        "waived": "passed",
        "unknown": "other",
        "not-applicable": "skipped",
    }


def test_times_suites_notes_and_the_verdict_are_there() -> None:
    data = results(ONE)
    assert (data["summary"]["start"], data["summary"]["stop"]) == (1795233639000, 1795233640250)
    assert data["tests"][1]["suite"] == ["t4-train", "host-a"]
    assert data["extra"]["exit_code"] == 1
    assert data["extra"]["notes"] == [{"host": "host-a", "note": ONE.notes[0]}]
    assert results(EMPTY)["summary"]["start"] == 0
