"""What the formats share: text made safe to show, commands between backticks, counts, times, and checks of several hosts side by side."""

import datetime as dt
import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from provision.structs import replace
from provision.verify.finding import OUTCOMES, Outcome, Report

TEMPLATES: Final = Path(__file__).parent / "templates"
LONGEST: Final = 400
LONGEST_NAME: Final = 40
_NARROWEST: Final = 30
_COMMAND: Final = re.compile(r"`[^`]+`")
_NO_BREAK: Final = "\0"  # which no text has that `inert` passed
# The outcomes that ask something of the reader, and of which she is told more.
EXPLAINED: tuple[Outcome, ...] = ("fail", "unknown", "warn")
# Beside the word, so that an outcome is recognised at a glance without its colour.
GLYPHS: dict[Outcome, str] = {"pass": "✓", "fail": "✗", "warn": "!", "waived": "◇", "unknown": "?", "not-applicable": "–"}  # noqa: RUF001


def inert(text: str, longest: int = LONGEST) -> str:
    """Text from a host, safe to show: one bounded line without anything that a terminal or a bidirectional layout would obey."""
    # Cut first: there is no need to look at the rest.
    line = "".join(c if c.isprintable() else "�" for c in text[: longest + 1])
    return line if len(line) <= longest else line[: longest - 1] + "…"


def spans(text: str, longest: int = LONGEST) -> Iterator[tuple[bool, str]]:
    """A hint cut at its backticks, inert: whether each part is a command, and its text. With an odd backtick nothing is a command."""
    parts = inert(text, longest).split("`")
    if len(parts) % 2 == 0:
        yield False, "`".join(parts)
        return
    for index, part in enumerate(parts):
        if part:
            yield bool(index % 2), part


def quoted(report: Report) -> str:
    """The host of a report, to be pasted into a shell."""
    return shlex.quote(inert(report.host, LONGEST_NAME))


def pasteable(report: Report) -> Report:
    """The report with hints whose commands name the host that was observed; of a file nobody knows the host."""
    if report.elapsed_s is None:
        return report
    named = (each._replace(hint=re.sub(r"\bHOST\b", lambda _: quoted(report), each.hint)) for each in report.findings)
    return replace(report, findings=tuple(named))


def broken(lead: str, text: str, width: int | None, indent: int | None = None) -> Iterator[str]:
    """A text behind its lead, in lines of a width, or in one line where there is none. A command stays in one line, to be pasted.

    `indent` is how wide the lead is without its style.
    """
    shift = len(lead) if indent is None else indent
    parts = [text]
    if width is not None:
        whole = _COMMAND.sub(lambda command: command[0].replace(" ", _NO_BREAK), text)
        lines = textwrap.wrap(whole, max(width - shift, _NARROWEST), break_on_hyphens=False, break_long_words=False)
        parts = [line.replace(_NO_BREAK, " ") for line in lines] or [""]
    yield (lead + parts[0]).rstrip()
    yield from (" " * shift + part for part in parts[1:])


def tally(summary: Mapping[Outcome, int]) -> str:
    """Such as `28 pass, 1 fail`: the outcomes that occur, in their order."""
    return ", ".join(f"{summary[outcome]} {outcome}" for outcome in OUTCOMES if summary[outcome])


def uneven_checks(reports: Sequence[Report]) -> list[tuple[str, list[Outcome | None]]]:
    """Each check that some host does not pass, with its outcome on every host; None where it was not made.

    A check that does not apply to some host is not listed for that alone.
    """
    columns = [{finding.check: finding.outcome for finding in report.findings} for report in reports]
    checks = dict.fromkeys(finding.check for report in reports for finding in report.findings)
    rows = [(check, [column.get(check) for column in columns]) for check in checks]
    return [(check, outcomes) for check, outcomes in rows if not set(outcomes) <= {"pass", "not-applicable", None}]


def observed_at(report: Report) -> dt.datetime | None:
    """When the facts were gathered, in UTC; None where the host's clock gave no valid time."""
    try:
        observed = dt.datetime.fromisoformat(report.observed_at)
    except ValueError:
        return None
    try:
        return observed.replace(tzinfo=dt.UTC) if observed.tzinfo is None else observed.astimezone(dt.UTC)
    except OverflowError:  # the first or last possible day, in another time zone
        return None
