"""JUnit's XML, read again by the standard library."""

import re
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
    assert [int(suite.attrib["skipped"]) for suite in suites] == [len(list(suite.iter("skipped"))) for suite in suites]
    assert int(root.attrib["failures"]) == sum(report.summary["fail"] for report in case)


# The elements of Jenkins's schema that are written here: attributes, those of them that must be there, and what may be inside.
# https://github.com/jenkinsci/xunit-plugin/blob/master/src/main/resources/org/jenkinsci/plugins/xunit/types/model/xsd/junit-10.xsd
COUNTS = {"tests", "failures", "errors"}
SCHEMA: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": ({"name", "time", *COUNTS}, set(), {"testsuite"}),
    "testsuite": ({"name", "time", "skipped", "timestamp", "hostname", *COUNTS}, {"name", *COUNTS}, {"properties", "testcase"}),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, {"name", "value"}, set()),
    "testcase": ({"name", "time", "classname"}, {"name"}, {"skipped", "error", "failure", "system-out"}),
    **dict.fromkeys(("skipped", "error", "failure"), ({"type", "message"}, set(), set())),
    "system-out": (set(), set(), set()),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_element_is_as_the_schema_of_jenkins_has_it(case: tuple[Report, ...]) -> None:
    for node in read(*case).iter():
        known, needed, inside = SCHEMA[node.tag]
        assert needed <= set(node.attrib) <= known, node.tag
        assert {child.tag for child in node} <= inside
        assert re.fullmatch(r"([0-9]+(\.[0-9]+)?)?", node.get("time", ""))


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
