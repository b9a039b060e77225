"""A certificate as a page for screen and paper, without a script, and as Markdown; the worst comes first in both."""

from collections.abc import Iterator
from typing import Any, Final

from provision.errors import EXIT_FAILED_CHECK, EXIT_OK, EXIT_UNKNOWN
from provision.report.base import GLYPHS
from provision.review import page
from provision.review.accept import VERDICTS, Certificate
from provision.review.markdown import template as markdown_template
from provision.review.sign import Validity
from provision.verify.finding import Outcome

_VERDICT_TONES: Final[dict[int, Outcome]] = {EXIT_OK: "pass", EXIT_FAILED_CHECK: "fail", EXIT_UNKNOWN: "unknown"}
_SIGNATURE_TONES: Final[dict[Validity, Outcome]] = {"valid": "pass", "lapsed": "warn", "refused": "fail", "unchecked": "unknown"}


def html(certificate: Certificate) -> str:
    """One self-contained page, without the end of its last line."""
    style = page.style("review.css", "certificate.css")
    return page.template("certificate.html").render(**_shared(certificate), policy=page.policy(style), style=style)


def markdown(certificate: Certificate) -> str:
    """The same for issues and mail, without the end of its last line."""
    return markdown_template("certificate.md").render(**_shared(certificate)).rstrip("\n")


def _shared(certificate: Certificate) -> dict[str, Any]:
    """What both templates show."""
    return {
        "certificate": certificate,
        "tone": _tone(certificate),
        "counts": list(_counts(certificate)),
        "notes": list(_notes(certificate)),
        "OUTCOME_GLYPHS": GLYPHS,
        "VERDICTS": VERDICTS,
        "VERDICT_TONES": _VERDICT_TONES,
        "SIGNATURE_TONES": _SIGNATURE_TONES,
    }


def _tone(certificate: Certificate) -> Outcome:
    """Green only where nothing was excused or left out, and somebody signed."""
    in_part = certificate.left_out or not certificate.counted or any(host.excused for host in certificate.parts)
    return "waived" if certificate.verdict == EXIT_OK and in_part else _VERDICT_TONES[certificate.verdict]


def _counts(certificate: Certificate) -> Iterator[tuple[str, Outcome, int]]:
    """Label, colour and count, the worst first; a count of zero is left out."""
    kinds: tuple[tuple[str, Outcome, str], ...] = (
        ("fail", "fail", "fails"),
        ("unknown", "unknown", "unknown"),
        ("warn", "warn", "warns"),
        ("waived", "waived", "waived"),
        ("excused", "waived", "excused"),
        ("pass", "pass", "holds"),
        ("not applicable", "not-applicable", "idle"),
    )
    for label, tone, name in kinds:
        if count := sum(len(getattr(host, name)) for host in certificate.parts):
            yield label, tone, count
    if certificate.left_out:
        yield "left out", "unknown", len(certificate.left_out)


def _notes(certificate: Certificate) -> Iterator[str]:
    """What to read first: the notes of the reports, and what weakens the certificate."""
    yield from dict.fromkeys(note for host in certificate.parts for note in host.notes)
    if certificate.below_tier:
        yield f"a tier below the profile's was used, so these checks were not made: {', '.join(certificate.below_tier)}"
    if not certificate.counted:
        yield "this review has no verified signature that counts"
    if not all(host.again for host in certificate.parts):
        yield "not every host was judged again: one could not be observed"
    if certificate.evidence_by != certificate.made_by:
        own = f"its facts were judged again by {certificate.made_by}, and its own findings do not count"
        yield f"the evidence is by {certificate.evidence_by}: {own}"
