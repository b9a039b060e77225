"""`gpuprov up`."""

from __future__ import annotations

import dataclasses
import datetime as dt
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from provision.cli import options

if TYPE_CHECKING:
    from provision.review.where import Organisation
    from provision.workflow.up import Run


@click.command("up")
@options.profile_to_run
@options.bundle
@click.option("--name", metavar="NAME", help="What to call the instance; the profile's name by default.")
@click.option("--rehearse", is_flag=True, help="Use the embedded cloud: no account, no cost, real Linux hosts on this machine.")
@click.option("--all", "all_roles", is_flag=True, help="Run every role, not only those whose checks do not pass.")
@options.organisation
@options.without_gpu
@options.strict
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    *,
    profile: str | None,
    bundle: Path | None,
    name: str | None,
    rehearse: bool,
    all_roles: bool,
    organisation: Organisation,
    without_gpu: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Launch, set up and prove a GPU host from a profile.

    Run again with the same name it adopts the instance, runs what does not pass, and proves the result. Where the organisation's rules
    demand signatures, only a signed bundle is run.
    """
    from provision.cli.progress import narrator  # noqa: PLC0415
    from provision.launch.journal import check_name  # noqa: PLC0415
    from provision.profile import load  # noqa: PLC0415 - heavy, and --help must be light
    from provision.review.approval import Asked, admit  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415
    from provision.workflow.up import Run, up  # noqa: PLC0415

    if profile is None and bundle is None:
        msg = "what to run is not said: give --profile or --bundle"
        raise click.UsageError(msg)
    path = load.find(profile) if profile is not None else None
    given = Asked.read(path, options.today()) if path else None
    admitted = admit(given, bundle, organisation, dt.datetime.now(dt.UTC))
    asked = admitted.profile
    session = Session.open()
    locked = session.lock(path, asked, options.today(), rehearsal=rehearse, signed=admitted.lock)
    name = check_name(name or asked.name)
    with narrator().speaking() as tell:
        run = Run(
            session=session,
            profile=asked,
            name=name,
            rehearsal=rehearse,
            say=tell.say,
            on_task=tell.task,
            lock=locked,
            without_gpu=without_gpu,
            all_roles=all_roles,
        )
        up(run)
    assert run.report is not None  # noqa: S101 - the last step sets it
    _show(run, admitted.bundle, strict=strict, as_json=as_json)
    ctx.exit(run.report.exit_code(strict=strict))


def _show(run: Run, bundle: str | None, *, strict: bool, as_json: bool) -> None:
    from provision.report import text  # noqa: PLC0415 - heavy, and --help must be light

    assert run.report is not None and run.instance is not None  # noqa: S101, PT018 - the last step sets the report, the first the instance
    if as_json:
        options.print_json(
            {
                "instance": dataclasses.asdict(run.instance),
                "attempts": [dataclasses.asdict(attempt) for attempt in run.attempts],
                "roles": run.roles,
                "lock": run.lock.digest if run.lock else None,
                "bundle": bundle,
                "artefacts": str(run.artefacts) if run.artefacts else None,
                "report": run.report.as_dict(strict=strict),
            }
        )
    else:
        click.echo(text.render(run.report, strict=strict, color=sys.stdout.isatty()))
        click.echo(f"\n{run.name}: {run.instance.id} at {run.instance.address} ({run.instance.region}), ends {run.instance.deadline}")
        click.echo(f"  ssh gpuprov-{run.name}    gpuprov verify {run.name}    gpuprov down {run.name}")
