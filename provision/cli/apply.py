"""`gpuprov apply`."""

import dataclasses
import sys
from pathlib import Path

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.converge.roles import in_order
from provision.report import text
from provision.review.where import Organisation
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
    with narration(lambda: still_runs(session, host)) as narrator:
        result = set_up(session, request, say=narrator.say, on_task=narrator.task)
    if as_json:
        artefacts = str(result.artefacts) if result.artefacts else None
        report = result.report.as_dict(strict=strict)
        options.print_json({"roles": result.roles, "artefacts": artefacts, "warnings": result.warnings, "report": report})
    else:
        click.echo(text.render(result.report, strict=strict, color=options.coloured(sys.stdout)))
    ctx.exit(result.report.exit_code(strict=strict))
