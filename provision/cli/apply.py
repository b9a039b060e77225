"""`gpuprov apply`."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from provision.cli import options

if TYPE_CHECKING:
    from provision.review.where import Organisation


@click.command("apply")
@options.named_host()
@options.optional_profile
@options.bundle
@options.organisation
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="Run this role and no other; may be repeated.")
@click.option("--all", "all_roles", is_flag=True, help="Run every role, not only those whose checks do not pass.")
@click.option("--check", is_flag=True, help="Predict, change nothing.")
@click.option("--diff", is_flag=True, help="Show what changes in files.")
@options.without_gpu
@options.strict
@options.as_json
@click.pass_context
def command(  # noqa: PLR0917 - click passes by name
    ctx: click.Context,
    host: str,
    profile: str | None,
    bundle: Path | None,
    organisation: Organisation,
    roles: tuple[str, ...],
    all_roles: bool,  # noqa: FBT001 - as above
    check: bool,  # noqa: FBT001
    diff: bool,  # noqa: FBT001
    without_gpu: bool,  # noqa: FBT001
    strict: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
) -> None:
    """Set up HOST, which exists: observe it, run the roles whose checks do not pass, prove the result."""
    from provision.cli.progress import narrator  # noqa: PLC0415
    from provision.converge.roles import ROLES  # noqa: PLC0415
    from provision.errors import RoleUnknownError  # noqa: PLC0415
    from provision.profile import load  # noqa: PLC0415
    from provision.profile.lock import build  # noqa: PLC0415
    from provision.report import text  # noqa: PLC0415 - heavy, and --help must be light
    from provision.review.approval import Submission, admit  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415
    from provision.workflow.up import Run, apply  # noqa: PLC0415

    for role in roles:
        if role not in ROLES:
            msg = f"no role called {role!a}"
            raise RoleUnknownError(msg, hint=f"write one of: {', '.join(ROLES)}")
    session = Session.open()
    given = None
    if bundle is None or profile is not None:
        named, path = session.profile_for(host, profile), load.find(profile) if profile is not None else None
        given = Submission(named, lambda: session.lock_for(host, profile, named) or build(named, options.today()), path)
    admitted = admit(given, bundle, organisation, dt.datetime.now(dt.UTC))
    asked = admitted.profile
    # Versions are exact even where nobody wrote a lock: what is set up is what would be locked today.
    locked = session.lock_for(host, profile, asked, signed=admitted.lock) or build(asked, options.today())
    with narrator().speaking() as tell:
        run = Run(
            session=session,
            profile=asked,
            lock=locked,
            name=host,
            rehearsal=False,
            say=tell.say,
            on_task=tell.task,
            without_gpu=without_gpu,
            all_roles=all_roles,
            target=session.target(host),
        )
        apply(run, roles=roles or None, check=check, diff=diff)
    assert run.report is not None  # noqa: S101 - the observation sets it
    if as_json:
        artefacts = str(run.artefacts) if run.artefacts else None
        options.print_json({"roles": run.roles, "artefacts": artefacts, "report": run.report.as_dict(strict=strict)})
    else:
        click.echo(text.render(run.report, strict=strict, color=sys.stdout.isatty()))
    ctx.exit(run.report.exit_code(strict=strict))
