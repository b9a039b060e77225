"""JUnit's XML, read again by the standard library."""

from xml.etree import ElementTree as ET

import pytest

from provision.report import junit
from provision.verify.finding import Report

from .examples import CASES, HOSTILE, ONE


def read(*reports: Report) -> ET.Element:
    return ET.fromstring(junit.render(*reports))  # noqa: S314 - our own


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_counts_say_what_the_document_holds(case: tuple[Report, ...]) -> None:
    root = read(*case)
    suites = root.findall("testsuite")
    assert len(suites) == len(case)
    for node in (root, *suites):
        assert int(node.attrib["tests"]) == len(list(node.iter("testcase")))
        assert int(node.attrib["failures"]) == len(list(node.iter("failure")))
        assert int(node.attrib["errors"]) == len(list(node.iter("error")))
        assert int(node.attrib["skipped"]) == len(list(node.iter("skipped")))
    assert int(root.attrib["failures"]) == sum(report.summary["fail"] for report in case)


def test_each_outcome_has_its_element() -> None:
    cases = {case.attrib["name"].removeprefix("check-"): case for case in read(ONE).iter("testcase")}
    assert {name: [child.tag for child in case] for name, case in cases.items()} == {
        "pass": [],
        "fail": ["failure"],
        "warn": ["system-out"],
        "waived": ["system-out"],
        "unknown": ["error"],
        "not-applicable": ["skipped"],
    }
    assert cases["not-applicable"][0].attrib["message"] == "observed not-applicable"
    assert (cases["waived"][0].text or "").startswith("waived: ")
    assert "expected: expected fail\nhint: do `gpuprov apply" in (cases["fail"][0].text or "")


def test_a_suite_says_where_when_and_what_was_excused() -> None:
    suite = read(ONE)[0]
    assert (suite.attrib["name"], suite.attrib["time"], suite.attrib["timestamp"]) == ("host-a", "1.250", "2026-11-21T04:00:39")
    assert [(p.attrib["name"], p.attrib["value"]) for p in suite.iter("property")] == [("profile", "t4-train"), ("note", ONE.notes[0])]


def test_hostile_text_adds_no_element_and_no_time() -> None:
    root = read(HOSTILE)
    assert not {node.tag for node in root.iter()} & {"script", "b"}
    assert "timestamp" not in root[0].attrib
