"""All formats over the same reports: registered, pure, bounded, and with --strict."""

import json
from pathlib import Path

import pytest

from provision import report as reports
from provision.errors import UsageError
from provision.verify.finding import OUTCOMES, Report

from .examples import CASES, CLEAN, FINDINGS, ONE, UNKNOWN

EVERY = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def test_every_format_is_registered() -> None:
    folder = Path(reports.__file__).parent
    modules = {p.stem for p in folder.glob("*.py") if "\ndef render(" in p.read_text()} - {"__init__"}
    assert set(reports.FORMATS) == modules


@EVERY
@pytest.mark.parametrize("name", reports.FORMATS)
def test_a_format_is_a_pure_function_whose_result_is_plain_text_of_whole_lines(name: str, case: tuple[Report, ...]) -> None:
    document = reports.render(name, case)
    assert document == reports.render(name, list(case))
    assert not document.endswith("\n")
    assert all(c.isprintable() or c == "\n" for c in document), "nothing that a terminal obeys, whatever the format escapes"
    assert "\x1b" not in document
    document.encode()


@pytest.mark.parametrize("name", [name for name in reports.FORMATS if name != "json"])
def test_a_hint_for_people_names_the_host_where_it_is_known(name: str) -> None:
    assert "HOST" not in reports.render(name, [ONE])


@pytest.mark.parametrize("name", [name for name in reports.FORMATS if name != "json"])
def test_a_host_that_floods_cannot_flood_the_reader(name: str) -> None:
    assert len(reports.render(name, CASES["hostile"])) < 250_000
    assert "x" * 2_001 not in reports.render(name, CASES["hostile"])


def test_a_format_that_is_not_there_and_no_report_at_all_are_refused_with_a_way_out() -> None:
    with pytest.raises(UsageError) as caught:
        reports.render("pdf", [ONE])
    assert "html" in caught.value.hint
    with pytest.raises(UsageError, match="nothing to report"):
        reports.render("text", [])


WARNED = Report("w", "p", (FINDINGS[0], FINDINGS[OUTCOMES.index("warn")]))
# What each format says where a warning is a failure, and does not say where it is none.
STRICTLY = {
    "text": "warnings count as failures (--strict)",
    "json": '"exit_code": 1',
    "html": "w does NOT match profile p: 1 check fails",
    "markdown": "> **warnings count as failures (--strict)**",
    "junit": '<failure message="observed warn" type="warn">',
    "tap": "not ok 2 - check-warn",
    "ctrf": '"failed": 1',
    "nagios": "GPUPROV CRITICAL",
    "prometheus": 'gpuprov_exit_code{host="w",profile="p"} 1',
}


@pytest.mark.parametrize("name", reports.FORMATS)
def test_with_strict_a_warning_is_a_failure_in_every_format_and_the_verdict_of_clean_hosts_stays(name: str) -> None:
    assert STRICTLY[name] not in reports.render(name, [WARNED])
    assert STRICTLY[name] in reports.render(name, [WARNED], strict=True)
    assert reports.render(name, [CLEAN, UNKNOWN], strict=True) == reports.render(name, [CLEAN, UNKNOWN])


def test_strict_says_so_on_several_hosts_and_changes_no_finding() -> None:
    strict = json.loads(reports.render("json", [CLEAN, WARNED], strict=True))
    lax = json.loads(reports.render("json", [CLEAN, WARNED]))
    assert [host["exit_code"] for host in strict["hosts"]] == [0, 1]
    assert strict["exit_code"] == 1
    assert [host["findings"] for host in strict["hosts"]] == [host["findings"] for host in lax["hosts"]]
    assert "not ok 2 - w" in reports.render("tap", [CLEAN, WARNED], strict=True)
    assert "1 of 2 hosts does NOT match" in reports.render("html", [CLEAN, WARNED], strict=True)
    assert reports.render("junit", [CLEAN, WARNED], strict=True).count('failures="1"') == 2
