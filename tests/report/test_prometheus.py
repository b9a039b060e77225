"""Prometheus's text format, read by its grammar."""

import re
import shutil
import subprocess
from collections import Counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

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


# What `promtool check metrics` finds fault with in names and labels of a gauge:
# https://github.com/prometheus/client_golang/tree/main/prometheus/testutil/promlint/validations
TYPES = {"counter", "gauge", "summary", "histogram"}
ABBREVIATED = {"s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d"}
SCALED = {"minutes", "hours", "days", "weeks", "bits", "milliseconds", "kilobytes", "megabytes", "gigabytes", "percent"}
OF_OTHERS = {"total", "count", "sum", "bucket", "info"}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_official_client_reads_it_and_no_rule_of_promtool_is_broken(case: tuple[Report, ...]) -> None:
    for family in text_string_to_metric_families(prometheus.render(*case) + "\n"):
        words = family.name.split("_")
        assert not set(words) & (TYPES | ABBREVIATED | SCALED), family.name
        assert words[-1] not in OF_OTHERS
        assert family.documentation
        assert all(re.fullmatch(r"[a-z][a-z_]*", word) for word in (family.name, *(label for s in family.samples for label in s.labels)))
        assert not {label for sample in family.samples for label in sample.labels} & {"le", "quantile"}


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool here: Debian's package prometheus has it")
def test_promtool_finds_no_fault() -> None:
    for name, case in CASES.items():
        page = prometheus.render(*case) + "\n"
        done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), name


def test_checks_summary_verdict_and_times_are_there() -> None:
    samples = {f"{s['name']}{s['labels']}": s["value"] for s in read(ONE, CLEAN)}
    where = 'host="host-a",profile="t4-train"'
    assert samples[f'gpuprov_check{{{where},check="check-fail",outcome="fail"}}'] == "1"
    assert samples[f'gpuprov_checks{{{where},outcome="fail"}}'] == "1"
    assert samples[f"gpuprov_exit_code{{{where}}}"] == "1"
    assert samples[f"gpuprov_observed_timestamp_seconds{{{where}}}"] == "1795233639"
    assert samples[f"gpuprov_elapsed_seconds{{{where}}}"] == "1.250"
    assert samples['gpuprov_checks{host="host-b",profile="t4-train",outcome="fail"}'] == "0"


def test_what_is_not_known_has_no_sample() -> None:
    names = {s["name"] for s in read(EMPTY)}
    assert names == {"gpuprov_checks", "gpuprov_exit_code"}


def test_quotes_and_backslashes_are_escaped() -> None:
    assert "\\\"'`` `" in prometheus.render(HOSTILE)
    assert "\\\\|" in prometheus.render(HOSTILE)
