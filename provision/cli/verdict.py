"""`gpuprov verify` after its connections are on their way: what it asks for, and how the verdict is printed."""

import json

from provision import report
from provision.cli import echo, options
from provision.cli.progress import narration
from provision.cli.verify import VerifyWords
from provision.report.base import inert
from provision.verify.ahead import EarlyObservations
from provision.verify.checks import CHECKS
from provision.verify.judge import Selection
from provision.verify.observe import Asked
from provision.verify.points import measurement_of
from provision.workflow.hosts import HostNames
from provision.workflow.session import Session
from provision.workflow.verify import VerifyRequest, VerifyResult, agreement, verify


def print_verdict(words: VerifyWords, ahead: EarlyObservations) -> int:
    """Verify over the connections that are `ahead`, print the report and write the files. Returns the exit code."""
    for name in (*words.only, *words.skip):
        options.check_word(name, [check.id for check in CHECKS], "check")
    request = VerifyRequest(
        hosts=HostNames(words.hosts, words.launched, words.inventory),
        files=words.files,
        profile=words.profile,
        selection=Selection(frozenset(words.only), frozenset(words.skip), words.tier),
        without_gpu=words.without_gpu,
        strict=words.strict,
        timeout_s=words.timeout_s,
        jobs=words.jobs,
        wait_s=options.seconds(words.wait),
        before_reboot=words.after_reboot,
        against=words.against,
        record=words.record,
        together=words.together,
    )
    agreed = agreement(words.bundle, words.organisation) if words.bundle else None
    if agreed:
        ahead.tell(Asked.of(agreed.bundle.profile, request.selection.tier_of(agreed.bundle.profile)))
        for one in agreed.signatures:
            echo(f"{one.outcome}: {one.principal}: {one.why or f'signed {one.signed_at}, until {one.expires}'}", err=True)
    with narration() as narrator:
        verification = verify(Session.open(), request, agreed, watch=narrator.hosts, ahead=ahead)
    _print("json" if words.as_json else words.form or "text", verification, words)
    if words.html:
        options.write(words.html, _render("html", verification, strict=words.strict) + "\n")
    if words.evidence:
        options.write(words.evidence, options.to_json(verification.evidence()) + "\n")
    if words.record and verification.record:
        options.write(words.record, verification.record.dump())
        for host in verification.left_out:
            echo(f"{host} adds nothing to {words.record}: it was not measured, was in use, or failed a check under load", err=True)
    return verification.exit_code


def _print(form: str, verification: VerifyResult, words: VerifyWords) -> None:
    """Print the report. What else there is to say is part of text, and goes to standard error beside the other formats."""
    drift, reports = verification.drift, verification.reports
    if form == "text":
        document = options.report_text(*reports, strict=words.strict, everything=words.every_check)
    else:
        document = _render(form, verification, strict=words.strict)
    if form == "json" and drift is not None:
        document = json.dumps({**json.loads(document), "drift": [move.as_dict() for move in drift]}, indent=2, sort_keys=True)
    echo(document, styled=form == "text")
    for line in verification.reboot:
        echo(line, err=form != "text")
    if drift is not None and form != "json":
        lines = [inert(str(move), 1_000) for move in drift] or ["nothing moved since the evidence"]
        echo("\nsince the evidence:\n" + "\n".join(f"  {line}" for line in lines), err=form != "text")


def _render(form: str, verification: VerifyResult, *, strict: bool) -> str:
    """The reports in one format, the page with a chart of what was measured."""
    reports = verification.reports
    if form == "html" and reports:
        from provision.report import chart, html  # noqa: PLC0415 - Jinja2, which no other format needs

        points = [points for host in verification.hosts if (points := measurement_of(host.report.host, host.facts))]
        return html.render(*reports, strict=strict, charts=chart.charts(points))
    return report.render(form, reports, strict=strict)
