"""Prometheus's text format, read by its grammar."""

import re
from collections import Counter

import pytest

from provision.report import prometheus
from provision.verify.finding import Report

from .examples import CASES, CLEAN, EMPTY, HOSTILE, ONE

LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?P<labels>\{{{LABEL}(?:,{LABEL})*\}}) (?P<value>-?[0-9]+(?:\.[0-9]+)?)")


def read(*reports: Report) -> list[re.Match[str]]:
    """All samples; a family's help and type stand before it, once, and its samples together."""
    found: list[re.Match[str]] = []
    helped: list[str] = []
    typed: list[str] = []
    for line in prometheus.render(*reports).split("\n"):
        if line.startswith("# HELP "):
            helped.append(line.split(" ")[2])
        elif line.startswith("# TYPE "):
            assert line.split(" ")[3] == "gauge"
            typed.append(line.split(" ")[2])
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            assert sample["name"] == typed[-1] == helped[-1]
            found.append(sample)
    assert len(set(typed)) == len(typed)
    return found


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_line_is_of_the_grammar_and_no_series_comes_twice(case: tuple[Report, ...]) -> None:
    assert max(Counter((s["name"], s["labels"]) for s in read(*case)).values()) == 1


def test_checks_summary_verdict_and_times_are_there() -> None:
    samples = {f"{s['name']}{s['labels']}": s["value"] for s in read(ONE, CLEAN)}
    where = 'host="host-a",profile="t4-train"'
    assert samples[f'gpuprov_check{{{where},check="check-fail",outcome="fail"}}'] == "1"
    assert samples[f'gpuprov_summary{{{where},outcome="fail"}}'] == "1"
    assert samples[f"gpuprov_exit_code{{{where}}}"] == "1"
    assert samples[f"gpuprov_observed_timestamp_seconds{{{where}}}"] == "1795233639"
    assert samples[f"gpuprov_elapsed_seconds{{{where}}}"] == "1.250"
    assert samples['gpuprov_summary{host="host-b",profile="t4-train",outcome="fail"}'] == "0"


def test_what_is_not_known_has_no_sample() -> None:
    names = {s["name"] for s in read(EMPTY)}
    assert names == {"gpuprov_summary", "gpuprov_exit_code"}


def test_quotes_and_backslashes_are_escaped() -> None:
    assert "\\\"'`` `" in prometheus.render(HOSTILE)
    assert "\\\\|" in prometheus.render(HOSTILE)
