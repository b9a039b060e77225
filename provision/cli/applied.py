"""`gpuprov apply` after its connections are on their way: what it asks for, and how the results are printed."""

from collections.abc import Sequence
from typing import Any

import click

from provision.cli import echo, options
from provision.cli.apply import ApplyWords
from provision.cli.progress import narration
from provision.converge.roles import in_order
from provision.mirror.folder import check_folder
from provision.report import text
from provision.structs import replace
from provision.verify.ahead import EarlyObservations
from provision.workflow.apply import apply, request_for
from provision.workflow.interrupted import still_runs
from provision.workflow.session import Session
from provision.workflow.setup import SetupRequest, SetupResult
from provision.workflow.several import HostsFailedError, worst


def set_up_hosts(ctx: click.Context, words: ApplyWords, ahead: EarlyObservations) -> int:
    """Set up the hosts, whose first observations are `ahead`, and print the reports. Returns the exit code."""
    selection = in_order(words.roles) or None
    session = Session.open()

    def request(host: str) -> SetupRequest:
        wish = replace(
            request_for(session, host, words.profile, words.bundle, words.organisation),
            without_gpu=words.without_gpu,
            all_roles=words.all_roles,
            roles=selection,
            check=words.check,
            diff=words.diff,
        )
        return wish if words.source is None else replace(wish, carried=check_folder(words.source, wish.lock))

    strict = words.strict
    requests = {host: request(host) for host in dict.fromkeys(words.hosts)}  # all of them are allowed before the first is changed
    with narration(lambda: "; ".join(dict.fromkeys(filter(None, (still_runs(session, host) for host in requests))))) as narrator:
        try:
            results = apply(
                session, requests, strict=strict, say=narrator.say, on_task=narrator.task, on_host=narrator.machine, ahead=ahead
            )
        except HostsFailedError as error:
            narrator.pause()
            error.weigh(result.report.exit_code(strict=strict) for result in error.proven)
            ctx.obj["beside"] = {"hosts": [_as_data(result, strict=strict) for result in error.proven], "failed": error.failed()}
            if error.proven and not words.as_json:
                _print(error.proven, strict=strict)
            raise
    if words.as_json:
        rows = [_as_data(result, strict=strict) for result in results]
        options.print_json(rows[0] if len(rows) == 1 else {"hosts": rows})
    else:
        _print(results, strict=strict)
    return worst(result.report.exit_code(strict=strict) for result in results)


def _print(results: Sequence[SetupResult], *, strict: bool) -> None:
    echo(text.render(*(result.report for result in results), strict=strict, styled=options.styled), styled=True)


def _as_data(result: SetupResult, *, strict: bool) -> dict[str, Any]:
    artefacts = str(result.artefacts) if result.artefacts else None
    return {"roles": result.roles, "artefacts": artefacts, "warnings": result.warnings, "report": result.report.as_dict(strict=strict)}
