"""A certificate as a page for screen and paper, without a script, and as Markdown; the worst first in both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from provision.errors import EXIT_FAILED_CHECK, EXIT_OK, EXIT_UNKNOWN
from provision.report.base import GLYPHS
from provision.report.markdown import code, prose
from provision.review import page
from provision.review.accept import VERDICTS, Certificate, Part
from provision.review.sign import Outcome as Signed
from provision.verify.finding import Finding, Outcome

__all__ = ["html", "markdown"]

_VERDICT_TONES: Final[dict[int, Outcome]] = {EXIT_OK: "pass", EXIT_FAILED_CHECK: "fail", EXIT_UNKNOWN: "unknown"}
_SIGNATURE_TONES: Final[dict[Signed, Outcome]] = {"holds": "pass", "lapsed": "warn", "refused": "fail", "unchecked": "unknown"}
_IN_TABLE: Final = 300


def html(found: Certificate) -> str:
    """One self-contained page, without the end of its last line."""
    style = page.style("review.css", "certificate.css")
    return page.template("certificate.html").render(
        it=found,
        tone=_tone(found),
        counts=list(_counts(found)),
        notes=_notes(found),
        policy=page.policy(style),
        style=style,
        OUTCOME_GLYPHS=GLYPHS,
        VERDICTS=VERDICTS,
        VERDICT_TONES=_VERDICT_TONES,
        SIGNATURE_TONES=_SIGNATURE_TONES,
    )


def _tone(found: Certificate) -> Outcome:
    """Green only where nothing was excused or left out."""
    in_part = found.left_out or any(part.excused for part in found.parts)
    return "waived" if found.verdict == EXIT_OK and in_part else _VERDICT_TONES[found.verdict]


def _counts(found: Certificate) -> Iterator[tuple[str, Outcome, int]]:
    """Label, colour and count, the worst first; what there is none of is left out."""
    kinds: tuple[tuple[str, Outcome, str], ...] = (
        ("fail", "fail", "fails"),
        ("unknown", "unknown", "unknown"),
        ("warn", "warn", "warns"),
        ("waived", "waived", "waived"),
        ("excused", "waived", "excused"),
        ("hold", "pass", "holds"),
        ("not asked for", "not-applicable", "idle"),
    )
    for label, tone, name in kinds:
        if count := sum(len(getattr(part, name)) for part in found.parts):
            yield label, tone, count
    if found.left_out:
        yield "left out", "unknown", len(found.left_out)


def _notes(found: Certificate) -> list[str]:
    notes = list(dict.fromkeys(note for part in found.parts for note in part.notes))
    said = " ".join(notes).replace(",", " ").split()
    if unsaid := [check for check in found.left_out if check not in said]:
        notes.append(f"nobody made these checks, by a tier below the profile's: {', '.join(unsaid)}")
    if not found.counted:
        notes.append("no signature of this review was checked and held")
    if not all(part.again for part in found.parts):
        notes.append(f"not every host was judged again: the evidence is by {found.evidence_by}, or a host was not observed")
    return notes


def markdown(found: Certificate) -> str:
    """The same for issues and mail, without the end of its last line."""
    lines = [f"# {GLYPHS[_tone(found)]} {prose(found.sentence)}", "", f"**{found.word}**: {prose(found.purpose)}", ""]
    lines += [f"- {count} {label}" for label, _, count in _counts(found)] + [""]
    for note in _notes(found):
        lines += [f"> **{prose(note)}**", ""]
    for part in found.parts:
        lines += _of_host(part)
    lines += ["## Approvals", ""]
    if found.approvals:
        lines += _table(
            ["signature", "principal", "signed", "until", "key, or what is wrong"],
            [[each.outcome, each.principal, each.signed_at, each.expires, each.why or each.key] for each in found.approvals],
        )
    else:
        lines += ["Nobody signed this review.", ""]
    lines += ["## Digests (SHA-256)", ""]
    lines += [f"- {name}: `{value}`" for name, value in found.digests.items()]
    for part in found.parts:
        lines += [f"- {name} of {code(part.host)}: `{part.digests[name]}`" for name in ("facts", "report")]
    lines += ["", f"Made {found.made_at} by {prose(found.made_by)} from evidence by {prose(found.evidence_by)}."]
    return "\n".join(lines)


def _of_host(part: Part) -> list[str]:
    again = "judged again for this certificate, with the same findings" if part.again else "not judged again for this certificate"
    lines = [f"## {code(part.host)}: {VERDICTS[part.verdict]}", "", f"Observed {code(part.observed_at)}; {again}.", ""]
    for title, findings in (
        ("Does not hold", part.fails),
        ("Unknown", part.unknown),
        ("Holds now and may not later", part.warns),
        ("Holds", part.holds),
    ):
        if title == "Holds":
            lines += _waived(part)
        if findings:
            rows = [[each.check, each.expected, each.observed] for each in findings]
            lines += [f"### {title}", "", *_table(["check", "expected", "observed"], rows)]
    if part.idle:
        lines += ["### Not asked for", "", _names(part.idle), ""]
    return lines


def _waived(part: Part) -> list[str]:
    lines = []
    if part.waived:
        rows = [[w.finding.check, str(w.waiver.expires), w.waiver.owner, w.waiver.reason, w.finding.observed] for w in part.waived]
        lines += ["### Waived: somebody took responsibility", "", *_table(["check", "until", "by", "why", "observed"], rows)]
    if part.excused:
        lines += [f"### Excused by `--without-gpu`: {len(part.excused)} checks, of which nothing is proven", "", _names(part.excused), ""]
    return lines


def _names(findings: Sequence[Finding]) -> str:
    return ", ".join(code(each.check) for each in findings)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [" | ".join(code(cell, _IN_TABLE).replace("|", "\\|") for cell in row) for row in rows]
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {row} |" for row in cells), ""]
