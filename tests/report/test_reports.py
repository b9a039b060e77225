"""Reports: text and JSON say the same, and nothing from a host reaches a terminal as anything but text."""

import json

from provision import report as reports
from provision.verify.finding import OUTCOMES, Finding, Report

FINDINGS = tuple(Finding(f"check-{o}", "title", o, f"expected {o}", f"observed {o}", "do this" if o != "pass" else "") for o in OUTCOMES)
REPORT = Report("host", "t4-train", FINDINGS, notes=("GPU part excused by --without-gpu: 1 checks were not proven",), elapsed_s=1.25)
EVIL = "\x1b[2J\x07\r\n\u202egnp.exe [bold]x[/bold] {{ 7*7 }} <b> " + "x" * 10_000


def test_the_summary_of_both_formats_agrees() -> None:
    data = json.loads(reports.json.render(REPORT))
    assert data["summary"] == dict.fromkeys(OUTCOMES, 1)
    last = reports.text.render(REPORT).splitlines()[-1]
    assert last == f"{len(FINDINGS)} checks: " + ", ".join(f"1 {o}" for o in OUTCOMES)


def test_what_was_excused_stands_in_the_first_line() -> None:
    assert reports.text.render(REPORT).splitlines()[0] == REPORT.notes[0]


def test_expected_and_hint_stand_with_what_does_not_pass_and_only_there() -> None:
    text = reports.text.render(REPORT)
    assert "expected: expected fail" in text
    assert "expected: expected unknown" in text
    assert "expected: expected pass" not in text


def test_hostile_text_is_inert_and_bounded_in_text_and_whole_in_json() -> None:
    hostile = Report(EVIL, "p", (Finding("c", "t", "fail", EVIL, EVIL, EVIL),), notes=(EVIL,), observed_at=EVIL)
    text = reports.text.render(hostile)
    assert all(c.isprintable() or c == "\n" for c in text)
    assert "[bold]x[/bold]" in text
    assert len(text) < 5_000
    assert json.loads(reports.json.render(hostile))["findings"][0]["observed"] == EVIL


def test_colour_is_only_used_where_asked_for() -> None:
    assert "\x1b[" not in reports.text.render(REPORT)
    assert "\x1b[" in reports.text.render(REPORT, color=True)


def test_every_format_is_registered() -> None:
    from pathlib import Path

    folder = Path(reports.__file__).parent
    assert set(reports.FORMATS) == {p.stem for p in folder.glob("*.py") if "\ndef render(" in p.read_text()}
