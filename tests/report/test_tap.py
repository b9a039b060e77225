"""TAP version 13, read by its grammar and by the harness of Perl."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from provision.report import tap
from provision.verify.finding import Report

from .examples import CASES, EMPTY, HOSTILE, ONE

POINT = re.compile(r"(?P<word>ok|not ok) (?P<number>\d+) - (?P<text>(?:[^#\\]|\\[#\\])*?)(?: # (?P<directive>TODO|SKIP) (?P<reason>.*))?")
PLAN = re.compile(r"1\.\.(\d+)( # .+)?")


def points(lines: list[str]) -> list[re.Match[str]]:
    """The points of one document, without its subtests; every line must be one that the grammar has."""
    matches: list[re.Match[str]] = []
    planned, block = None, False
    for line in lines:
        if line.startswith("    "):
            continue
        if block:
            assert re.fullmatch(r'  (\.\.\.|[a-z]+: ".*")', line), line
            assert line == "  ..." or isinstance(json.loads(line.partition(": ")[2]), str)
            block = line != "  ..."
        elif line == "  ---":
            assert matches, "diagnostics follow a point"
            block = True
        elif plan := PLAN.fullmatch(line):
            planned = int(plan[1])
        elif not line.startswith("#"):
            point = POINT.fullmatch(line)
            assert point, line
            matches.append(point)
            assert int(point["number"]) == len(matches)
    assert planned == len(matches)
    assert not block
    return matches


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_line_is_of_the_grammar_and_the_plan_is_kept(case: tuple[Report, ...]) -> None:
    first, *lines = tap.render(*case).split("\n")
    assert first == "TAP version 13"
    top = points(lines)
    if len(case) == 1:
        assert len(top) == len(case[0].findings)
        return
    assert [point["word"] for point in top] == ["ok" if report.exit_code() == 0 else "not ok" for report in case]
    subtests = "\n".join(lines).split("# Subtest: ")[1:]
    for text, report in zip(subtests, case, strict=True):
        inner = points([line.removeprefix("    ") for line in text.split("\n") if line.startswith("    ")])
        assert len(inner) == len(report.findings)


@pytest.mark.skipif(not shutil.which("prove"), reason="no prove here: apt-get install perl")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_perl_s_harness_reads_it_and_comes_to_the_same_verdict(tmp_path: Path, case: tuple[Report, ...]) -> None:
    (tmp_path / "report.tap").write_text(tap.render(*case) + "\n")
    done = subprocess.run(["prove", "-e", "cat", str(tmp_path / "report.tap")], capture_output=True, text=True, check=False)
    assert "Parse errors" not in done.stdout, done.stdout
    assert (done.returncode == 0) == all(report.exit_code() == 0 for report in case), done.stdout


def test_each_outcome_has_its_word_and_directive() -> None:
    read = {
        p["text"].partition(":")[0].removeprefix("check-"): (p["word"], p["directive"]) for p in points(tap.render(ONE).split("\n")[1:])
    }
    assert read == {
        "pass": ("ok", None),
        "fail": ("not ok", None),
        "warn": ("ok", None),
        "waived": ("not ok", "TODO"),
        "unknown": ("not ok", None),
        "not-applicable": ("ok", "SKIP"),
    }


def test_hostile_text_forges_neither_a_point_nor_a_directive() -> None:
    matches = points(tap.render(HOSTILE).split("\n")[1:])
    assert [p["directive"] for p in matches] == [None, None, None, "TODO", None, "SKIP"]
    assert "\\# SKIP" in matches[0]["text"]


def test_a_plan_of_nothing_says_why_and_notes_are_comments() -> None:
    assert "1..0 # SKIP no check was made" in tap.render(EMPTY).split("\n")
    assert f"# {ONE.notes[0]}" in tap.render(ONE).split("\n")
