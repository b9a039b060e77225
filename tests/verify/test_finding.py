"""The report and the verdict: counts, exit codes, what --strict changes, and the form that JSON and digests are made from."""

import pytest

from provision.verify.finding import OUTCOMES, Finding, Outcome, Report, exit_code, fails, summary


def report(*outcomes: Outcome, notes: tuple[str, ...] = ()) -> Report:
    return Report("h", "p", tuple(Finding("check", "title", outcome, "e", "o") for outcome in outcomes), notes)


@pytest.mark.parametrize(
    ("outcomes", "code", "strict_code"),
    [
        ((), 0, 0),
        (("pass", "not-applicable", "waived"), 0, 0),
        (("pass", "warn"), 0, 1),
        (("pass", "unknown"), 3, 3),
        (("unknown", "warn"), 3, 1),
        (("unknown", "fail"), 1, 1),
    ],
)
def test_a_failure_outweighs_what_is_unknown_and_strict_makes_a_warning_a_failure(
    outcomes: tuple[Outcome, ...], code: int, strict_code: int
) -> None:
    assert (report(*outcomes).exit_code(), report(*outcomes).exit_code(strict=True)) == (code, strict_code)


@pytest.mark.parametrize(
    ("reports", "code"),
    [
        ([], 3),
        ([report("pass"), report("pass")], 0),
        ([report("pass"), report("unknown")], 3),
        ([report("unknown"), report("fail")], 1),
    ],
)
def test_the_verdict_on_several_hosts_is_the_worst_and_without_hosts_it_is_unknown(reports: list[Report], code: int) -> None:
    assert exit_code(reports) == code


def test_strict_reaches_every_host_and_counts_are_added() -> None:
    assert exit_code([report("pass"), report("warn")]) == 0
    assert exit_code([report("pass"), report("warn")], strict=True) == 1
    assert summary([report("pass"), report("pass", "fail")]) == {**dict.fromkeys(OUTCOMES, 0), "pass": 2, "fail": 1}
    assert [outcome for outcome in OUTCOMES if fails(outcome, strict=True)] == ["fail", "warn"]


def test_strict_is_noted_where_it_matters_and_changes_no_finding() -> None:
    warned = report("warn", notes=("first",))
    assert warned.all_notes(strict=True) == ("first", "warnings count as failures (--strict)")
    assert warned.all_notes() == report("pass", notes=("first",)).all_notes(strict=True) == ("first",)
    assert warned.as_dict(strict=True)["findings"] == warned.as_dict()["findings"]
    assert (warned.as_dict(strict=True)["exit_code"], warned.as_dict()["exit_code"]) == (1, 0)


def test_an_excuse_is_written_only_where_there_is_one() -> None:
    assert "excuse" not in Finding("c", "t", "pass", "e", "o").as_dict()
    assert Finding("c", "t", "waived", "e", "o", excuse="waiver").as_dict()["excuse"] == "waiver"
