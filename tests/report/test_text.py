"""The report for people in a terminal."""

import click

from provision.report import text
from provision.structs import replace
from provision.verify.finding import OUTCOMES

from .examples import CASES, CLEAN, FINDINGS, HOSTILE, ONE, UNKNOWN


def test_the_last_line_is_the_summary() -> None:
    assert text.render(ONE).splitlines()[-1] == f"{len(FINDINGS)} checks: " + ", ".join(f"1 {o}" for o in OUTCOMES)


def test_what_was_excused_stands_in_the_first_line() -> None:
    assert text.render(ONE).splitlines()[0] == ONE.notes[0]


def test_expected_and_hint_stand_with_what_does_not_pass_and_only_there() -> None:
    lines = text.render(ONE)
    assert "expected: expected fail" in lines
    assert "expected: expected unknown" in lines
    assert "expected: expected pass" not in lines


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
