"""`gpuprov apply`."""

import contextlib
import dataclasses
import sys
from pathlib import Path

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.converge.roles import in_order
from provision.launch.audit import Ending
from provision.mirror.folder import check_folder
from provision.report import text
from provision.review.where import Organisation
from provision.workflow import audited
from provision.workflow.apply import request_for
from provision.workflow.interrupted import still_runs
from provision.workflow.session import Session
from provision.workflow.setup import set_up


@click.command("apply")
@options.host_argument()
@options.optional_profile
@options.bundle
@options.organisation
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="Run only this role. May be repeated.")
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
    host: str,
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
    """Set up a HOST that exists: observe it, run the roles whose checks do not pass, and prove the result."""
    selection = in_order(roles) or None
    session = Session.open()
    request = dataclasses.replace(
        request_for(session, host, profile, bundle, organisation),
        without_gpu=without_gpu,
        all_roles=all_roles,
        roles=selection,
        check=check,
        diff=diff,
    )
    if source is not None:
        request = dataclasses.replace(request, carried=check_folder(source, request.lock))
    logged = contextlib.nullcontext(Ending()) if check else audited.applying(session, host, request)
    with logged as ending, narration(lambda: still_runs(session, host)) as narrator:
        result = set_up(session, request, say=narrator.say, on_task=narrator.task)
        ending.code, ending.results = result.report.exit_code(strict=strict), {"roles": result.roles}
    if as_json:
        artefacts = str(result.artefacts) if result.artefacts else None
        report = result.report.as_dict(strict=strict)
        options.print_json({"roles": result.roles, "artefacts": artefacts, "warnings": result.warnings, "report": report})
    else:
        click.echo(text.render(result.report, strict=strict, color=options.coloured(sys.stdout)))
    ctx.exit(ending.code)
