"""The report for issues, pull requests and summaries of CI jobs: Markdown as GitHub and GitLab read it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from provision.report.base import EXPLAINED, GLYPHS, counted, inert, spans
from provision.verify.finding import Finding, Outcome, Report, summary

__all__ = ["code", "prose", "render"]

# Emphasis, links, HTML, entities, tables, formulas, and what makes GitHub see an address or a name in plain words.
_MARKUP: Final = re.compile(r"([\\`*_\[\]<>#|~&@:.$^])")
# What GitHub acts on even where it is escaped: names, issues, addresses. Only a code span stops it.
_REFERENCE: Final = re.compile(r"[@#]|://")
_IN_TABLE: Final = 120


def render(*reports: Report, strict: bool = False) -> str:
    """Of several hosts what does not pass everywhere first, then each host: its notes, a table, and details of what does not pass."""
    lines: list[str] = []
    if len(reports) > 1:
        lines += [f"# gpuprov: {len(reports)} hosts, {counted(summary(reports)) or 'no check was made'}", ""]
        lines += _side_by_side(reports)
    for report in reports:
        lines += _one_host(report, "#" if len(reports) == 1 else "##", strict=strict)
    return "\n".join(lines).rstrip("\n")


def _one_host(report: Report, level: str, *, strict: bool) -> Iterator[str]:
    yield f"{level} {code(report.host)} against profile {code(report.profile)}"
    yield ""
    for note in report.all_notes(strict=strict):
        yield f"> **{prose(note)}**"
        yield ""
    took = f" in {report.elapsed_s:.1f} s" if report.elapsed_s is not None else ""
    when = code(report.observed_at) if report.observed_at else "at an unknown time"
    yield f"{len(report.findings)} checks: {counted(report.summary) or 'none was made'}. Observed {when}{took}."
    yield ""
    if report.findings:
        yield "| outcome | check | observed |"
        yield "|---|---|---|"
        for finding in report.findings:
            yield f"| {_outcome(finding.outcome)} | {_cell(finding.check)} | {_cell(finding.observed)} |"
        yield ""
    explained = [finding for outcome in EXPLAINED for finding in report.findings if finding.outcome == outcome]
    if explained:
        yield f"{level}# What does not pass"
        yield ""
        for finding in explained:
            yield from _details(finding)


def _details(finding: Finding) -> Iterator[str]:
    yield f"- {_outcome(finding.outcome)} {code(finding.check)}: {prose(finding.title)}"
    yield f"  - expected: {code(finding.expected)}"
    yield f"  - observed: {code(finding.observed)}"
    if finding.hint:
        yield f"  - hint: {prose(finding.hint)}"
    yield ""


def _side_by_side(reports: Sequence[Report]) -> Iterator[str]:
    outcomes = [{finding.check: finding.outcome for finding in report.findings} for report in reports]
    checks = dict.fromkeys(finding.check for report in reports for finding in report.findings)
    rows = [check for check in checks if any(column.get(check, "pass") not in {"pass", "not-applicable"} for column in outcomes)]
    if not rows:
        return
    yield f"| not everywhere | {' | '.join(_cell(report.host) for report in reports)} |"
    yield f"|---|{'---|' * len(reports)}"
    for check in rows:
        cells = (_outcome(found) if (found := column.get(check)) else "not checked" for column in outcomes)
        yield f"| {_cell(check)} | {' | '.join(cells)} |"
    yield ""


def _outcome(outcome: Outcome) -> str:
    """Bold where it needs somebody: a rendered table has no colours of ours."""
    words = f"{GLYPHS[outcome]} {outcome}"
    return f"**{words}**" if outcome in EXPLAINED else words


def prose(text: str) -> str:
    """Words of a sentence in which nothing is markup but the commands between backticks."""
    return "".join(code(part) if command or _REFERENCE.search(part) else _escaped(part) for command, part in spans(text))


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", text)


def code(text: str, longest: int = 0) -> str:
    """A code span, in which no markup, link, mention or HTML is read: fenced with more backticks than it holds."""
    shown = inert(text, longest) if longest else inert(text)
    if not shown.strip():
        return "(empty)"
    fence = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    edge = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{edge}{shown}{edge}{fence}"


def _cell(text: str) -> str:
    """The same within a table, whose bars are read even before code spans are."""
    return code(text, _IN_TABLE).replace("|", "\\|")
