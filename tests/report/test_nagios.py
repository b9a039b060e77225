"""One line as monitoring plugins write it."""

import re

import pytest

from provision.report import nagios
from provision.verify.finding import OUTCOMES, Report

from .examples import CASES, CLEAN, FINDINGS, ONE, UNKNOWN

VALUE = re.compile(r"[a-z-]+=\d+(?:\.\d+)?(?:s)?;;;0(?:;\d+)?")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_line_is_one_with_counts_behind_a_single_bar(case: tuple[Report, ...]) -> None:
    line = nagios.render(*case)
    assert "\n" not in line
    assert len(line) < 4_096
    said, bar, data = line.partition(" | ")
    assert bar
    assert "|" not in said + data
    assert re.match(r"GPUPROV (OK|WARNING|CRITICAL|UNKNOWN) - ", said)
    assert all(VALUE.fullmatch(each) for each in data.split(" ")), data
    for outcome in OUTCOMES:
        assert f" {outcome}={sum(report.summary[outcome] for report in case)};" in f" {data}"


@pytest.mark.parametrize(
    ("hosts", "word"),
    [
        ((CLEAN,), "OK"),
        ((ONE,), "CRITICAL"),
        ((UNKNOWN,), "UNKNOWN"),
        ((UNKNOWN, ONE), "CRITICAL"),
        ((CLEAN, Report("w", "p", FINDINGS[2:4])), "WARNING"),
    ],
)
def test_the_word_follows_the_verdict(hosts: tuple[Report, ...], word: str) -> None:
    assert nagios.render(*hosts).split()[1] == word


def test_what_does_not_pass_is_named_and_what_was_excused_said() -> None:
    line = nagios.render(ONE)
    assert "fail: check-fail; unknown: check-unknown; warn: check-warn; GPU part excused" in line
    assert "elapsed=1.250s" in line
    assert "fail: host-a/check-fail;" in nagios.render(ONE, CLEAN)
    assert "and 22 more; unknown: " in nagios.render(*CASES["a fleet"])
