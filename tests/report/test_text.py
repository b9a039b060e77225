"""The report for people in a terminal."""

from typing import cast

import click
import pytest

from provision.report import text
from provision.structs import replace
from provision.verify.finding import OUTCOMES, Finding, Outcome, Report

from .examples import CASES, CLEAN, EMPTY, FINDINGS, HOSTILE, ONE, UNKNOWN


def many(**outcomes: int) -> Report:
    """A report with so many findings of each outcome, the last ones first."""
    findings = [
        Finding(
            f"{name}-{n}", "", cast("Outcome", name.replace("_", "-")), "what is asked", f"shown {n}", f"`gpuprov apply HOST --role {name}`"
        )
        for name, count in outcomes.items()
        for n in range(count)
    ]
    return replace(ONE, findings=tuple(reversed(findings)), notes=())


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ({"pass": 40, "not_applicable": 3}, "matches profile t4-train in every check that was made: 40 pass"),
        ({"pass": 4, "warn": 1}, "matches profile t4-train in every check that was made: 1 warn, 4 pass"),
        ({"pass": 4, "waived": 1}, "matches profile t4-train apart from 1 waived check: 1 waived, 4 pass"),
        ({"pass": 4, "waived": 23}, "matches profile t4-train apart from 23 waived checks: 23 waived, 4 pass"),
        ({"pass": 12, "unknown": 2, "waived": 1}, "is not proven to match profile t4-train: 2 unknown, 1 waived, 12 pass"),
        ({"pass": 12, "unknown": 2, "fail": 9}, "does NOT match profile t4-train: 9 fail, 2 unknown, 12 pass"),
    ],
)
def test_the_verdict_is_the_first_line_and_the_last(outcomes: dict[str, int], verdict: str, *, everything: bool) -> None:
    lines = text.render(many(**outcomes), everything=everything).splitlines()
    assert (lines[0], lines[-1]) == (f"host-a {verdict}",) * 2


def test_a_warning_that_counts_as_a_failure_is_one_in_the_verdict_too() -> None:
    assert text.render(many(warn=1), strict=True).splitlines()[-1] == "host-a does NOT match profile t4-train: 1 warn"


def test_a_report_without_a_check_meets_nothing() -> None:
    assert text.render(EMPTY).splitlines()[-1] == "no check was made of host-d against profile t4-train"


def test_what_was_excused_stands_before_the_checks() -> None:
    assert text.render(ONE).splitlines()[2] == ONE.notes[0]


def test_failures_come_first_then_what_is_unknown_then_warnings_and_the_rest_is_folded() -> None:
    lines = text.render(many(**{"pass": 9}, waived=2, not_applicable=5, warn=1, unknown=2, fail=2)).splitlines()
    rows = [line.split() for line in lines[2:-1]]
    assert [row[:2] for row in rows if row[0] in OUTCOMES] == [
        *(["fail", "fail-1"], ["fail", "fail-0"], ["unknown", "unknown-1"], ["unknown", "unknown-0"], ["warn", "warn-0"]),
        *(["waived", "2:"], ["pass", "9:"]),
    ]
    assert rows[-2][2:] == [f"pass-{n}," for n in range(8, 0, -1)] + ["pass-0"]
    assert lines[-2] == "  5 not applicable; `gpuprov verify host-a --all` lists every check"


@pytest.mark.parametrize("everything", [False, True])
def test_few_checks_are_listed_whole_and_many_where_everything_is_asked_for(*, everything: bool) -> None:
    report = many(**{"pass": 13 if everything else 12})
    rows = text.render(report, everything=everything).splitlines()[2:-1]
    assert [row.split() for row in rows] == [["pass", f.check, *f.observed.split()] for f in report.findings]


def test_checks_that_are_unknown_for_one_reason_are_told_once() -> None:
    alike = tuple(f._replace(observed="no NVIDIA GPU on this host", hint="run it on a host with a GPU") for f in many(unknown=14).findings)
    other = many(unknown=1).findings[0]._replace(check="other")
    lines = text.render(replace(ONE, findings=(*alike[:7], other, *alike[7:]), notes=())).splitlines()[2:-1]
    assert lines == [
        "  unknown  14 checks: no NVIDIA GPU on this host",
        f"             {', '.join(f.check for f in alike)}",
        "             run it on a host with a GPU",
        "  unknown  other      shown 0",
        "             `gpuprov apply host-a --role unknown`",
    ]


def test_a_hint_names_the_host_that_was_observed_and_none_for_facts_of_a_file() -> None:
    assert "do `gpuprov apply host-a --role fail` now" in text.render(ONE)
    assert "do `gpuprov apply HOST --role fail` now" in text.render(replace(ONE, elapsed_s=None))
    assert "`gpuprov apply 'a b;c' --role fail`" in text.render(replace(ONE, host="a b;c"))


def test_lines_are_as_wide_as_the_terminal_and_go_on_below_themselves() -> None:
    lines = text.render(many(**{"pass": 40}, fail=3, not_applicable=1), width=80).splitlines()[2:-1]
    assert max(map(len, lines)) <= 80
    passed = next(n for n, line in enumerate(lines) if line.startswith("  pass"))
    ids = " ".join(lines[passed:-1]).replace(",", "").split()
    assert ids == ["pass", "40:", *(f"pass-{n}" for n in range(39, -1, -1))]
    assert all(line.startswith(" " * 11 + "pass-") for line in lines[passed + 1 : -1])


def test_expected_and_hint_stand_with_what_does_not_pass_and_only_there() -> None:
    lines = text.render(ONE)
    assert "expected: expected fail" in lines
    assert "expected: expected unknown" in lines
    assert "expected: expected pass" not in lines


def test_of_many_checks_what_was_expected_stands_behind_what_was_observed_and_a_hint_of_several_once() -> None:
    lines = text.render(many(**{"pass": 12}, warn=1, fail=2)).splitlines()[2:-2]
    assert lines == [
        "  fail     fail-1 shown 1; expected: what is asked",
        "  fail     fail-0 shown 0; expected: what is asked",
        "             `gpuprov apply host-a --role fail`",
        "  warn     warn-0 shown 0; expected: what is asked",
        "             `gpuprov apply host-a --role warn`",
    ]


def test_nine_failures_with_one_remedy_and_fourteen_unknown_checks_fit_a_terminal_of_24_lines() -> None:
    alike = [f._replace(observed="no NVIDIA GPU on this host", hint="run it where the GPU is") for f in many(unknown=14).findings]
    findings = (*many(**{"pass": 9}, not_applicable=38, fail=9).findings, *alike)
    lines = text.render(replace(ONE, findings=findings, notes=()), width=80).splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80


def test_hostile_text_is_inert_and_bounded() -> None:
    lines = text.render(HOSTILE)
    assert all(c.isprintable() or c == "\n" for c in lines)
    assert "[bold]x[/bold]" in lines
    assert len(lines) < 20_000
    assert all(c.isprintable() or c in "\n\x1b" for c in text.render(HOSTILE, styled=click.style))


def test_colour_is_only_used_where_asked_for() -> None:
    assert "\x1b[" not in text.render(ONE)
    assert "\x1b[" in text.render(ONE, styled=click.style)


def test_several_hosts_come_one_after_the_other_and_then_side_by_side() -> None:
    lines = text.render(ONE, CLEAN, UNKNOWN).splitlines()
    assert "\n".join(lines).startswith(text.render(ONE))
    head = next(n for n, line in enumerate(lines) if "not everywhere" in line)
    assert lines[head].split() == ["not", "everywhere", "host-a", "host-b", "host-c"]
    rows = [line.split() for line in lines[head + 1 : -2]]
    assert rows == [
        ["check-fail", "fail", "not", "checked", "not", "checked"],
        ["check-warn", "warn", "not", "checked", "not", "checked"],
        ["check-waived", "waived", "not", "checked", "not", "checked"],
        ["check-unknown", "unknown", "not", "checked", "unknown"],
    ]
    assert lines[-1] == "3 hosts, 9 checks: 3 pass, 1 fail, 1 warn, 1 waived, 2 unknown, 1 not-applicable"


def test_hosts_on_which_all_is_well_need_no_table() -> None:
    assert "not everywhere" not in text.render(*CASES["several hosts, all well"])


def test_what_does_not_apply_somewhere_is_no_reason_for_a_row() -> None:
    elsewhere = replace(CLEAN, findings=(FINDINGS[0]._replace(outcome="not-applicable"),))
    assert "not everywhere" not in text.render(CLEAN, elsewhere)
