"""What the formats share: text made safe, commands in hints, counts, times, and checks that differ between hosts."""

import pytest

from provision.report.base import inert, observed_at, spans, tally, uneven_checks
from provision.verify.finding import Report

from .examples import CLEAN, EMPTY, EVIL, ONE, UNKNOWN


def test_inert_text_is_one_bounded_line_without_anything_to_obey() -> None:
    line = inert(EVIL)
    assert line.isprintable()
    assert len(line) == 400
    assert line.endswith("…")
    assert inert("x" * 400) == "x" * 400
    assert inert("Ünïcode 漢字 ✓") == "Ünïcode 漢字 ✓"


def test_commands_stand_between_backticks_and_an_odd_backtick_is_only_itself() -> None:
    assert list(spans("run `a b` now")) == [(False, "run "), (True, "a b"), (False, " now")]
    assert list(spans("a ` b")) == [(False, "a ` b")]
    assert list(spans("")) == []


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-11-21T04:00:39Z", "2026-11-21T04:00:39+00:00"),
        ("2026-11-21T04:00:39", "2026-11-21T04:00:39+00:00"),
        ("2026-11-21T06:00:39+02:00", "2026-11-21T04:00:39+00:00"),
    ],
)
def test_the_hour_of_an_observation_is_read_in_utc(text: str, utc: str) -> None:
    observed = observed_at(Report("h", "p", (), observed_at=text))
    assert observed is not None
    assert observed.isoformat() == utc


@pytest.mark.parametrize("text", ["", "yesterday", EVIL, "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_what_is_not_a_time_is_none(text: str) -> None:
    assert observed_at(Report("h", "p", (), observed_at=text)) is None


def test_counts_name_the_outcomes_that_occur_in_their_order() -> None:
    assert tally(ONE.summary) == "1 pass, 1 fail, 1 warn, 1 waived, 1 unknown, 1 not-applicable"
    assert (tally(UNKNOWN.summary), tally(EMPTY.summary)) == ("1 pass, 1 unknown", "")


def test_a_check_is_uneven_where_some_host_does_not_pass_it_and_not_where_it_does_not_apply() -> None:
    rows = dict(uneven_checks([ONE, CLEAN, UNKNOWN]))
    assert rows["check-unknown"] == ["unknown", None, "unknown"]
    assert rows.keys() == {"check-fail", "check-warn", "check-waived", "check-unknown"}
    assert uneven_checks([CLEAN, CLEAN, EMPTY]) == []
