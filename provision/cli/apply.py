"""`gpuprov apply`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from provision.cli import echo, options
from provision.cli.progress import narration
from provision.converge.roles import in_order
from provision.mirror.folder import check_folder
from provision.review.where import Organisation
from provision.structs import replace
from provision.workflow.apply import apply, request_for
from provision.workflow.interrupted import still_runs
from provision.workflow.session import Session
from provision.workflow.setup import SetupRequest, SetupResult
from provision.workflow.several import HostsFailedError, worst


@click.command("apply")
@click.argument("hosts", metavar="HOST…", nargs=-1, required=True, shell_complete=options.complete_instances)
@options.optional_profile
@options.bundle
@options.organisation
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="ROLE",
    shell_complete=options.complete_roles,
    help="Run only this role. May be repeated.",
)
@options.all_roles
@click.option("--check", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--diff", is_flag=True, help="Show what changes in files.")
@click.option(
    "--from",
    "source",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Take everything from a folder that `gpuprov mirror` filled; the host needs no network.",
)
@options.without_gpu
@options.strict
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    *,
    hosts: tuple[str, ...],
    profile: str | None,
    bundle: Path | None,
    organisation: Organisation,
    roles: tuple[str, ...],
    all_roles: bool,
    check: bool,
    diff: bool,
    source: Path | None,
    without_gpu: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Set up each HOST that exists: observe it, run the roles whose checks do not pass, and prove the result.

    Several are set up at the same time; one that fails does not stop the others.
    """
    selection = in_order(roles) or None
    session = Session.open()

    def request(host: str) -> SetupRequest:
        wish = replace(
            request_for(session, host, profile, bundle, organisation),
            without_gpu=without_gpu,
            all_roles=all_roles,
            roles=selection,
            check=check,
            diff=diff,
        )
        return wish if source is None else replace(wish, carried=check_folder(source, wish.lock))

    requests = {host: request(host) for host in dict.fromkeys(hosts)}  # all of them are allowed before the first is changed
    with narration(lambda: "; ".join(dict.fromkeys(filter(None, (still_runs(session, host) for host in requests))))) as narrator:
        try:
            results = apply(session, requests, strict=strict, say=narrator.say, on_task=narrator.task, on_host=narrator.machine)
        except HostsFailedError as error:
            narrator.pause()
            error.weigh(result.report.exit_code(strict=strict) for result in error.proven)
            ctx.obj["beside"] = {"hosts": [_as_data(result, strict=strict) for result in error.proven], "failed": error.failed()}
            if error.proven and not as_json:
                _print(error.proven, strict=strict)
            raise
    if as_json:
        options.print_json({"hosts": [_as_data(result, strict=strict) for result in results]})
    else:
        _print(results, strict=strict)
    ctx.exit(worst(result.report.exit_code(strict=strict) for result in results))


def _print(results: Sequence[SetupResult], *, strict: bool) -> None:
    echo(options.report_text(*(result.report for result in results), strict=strict), styled=True)


def _as_data(result: SetupResult, *, strict: bool) -> dict[str, Any]:
    artefacts = str(result.artefacts) if result.artefacts else None
    return {"roles": result.roles, "artefacts": artefacts, "warnings": result.warnings, "report": result.report.as_dict(strict=strict)}
