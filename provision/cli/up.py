"""`gpuprov up`."""

from __future__ import annotations

import dataclasses
import sys

import click

from provision.cli import options


@click.command("up")
@options.required_profile
@click.option("--name", metavar="NAME", help="What to call the instance; the profile's name by default.")
@click.option("--rehearse", is_flag=True, help="Use the embedded cloud: no account, no cost, real Linux hosts on this machine.")
@click.option("--all", "all_roles", is_flag=True, help="Run every role, not only those whose checks do not pass.")
@options.without_gpu
@options.strict
@options.as_json
@click.pass_context
def command(
    ctx: click.Context, *, profile: str, name: str | None, rehearse: bool, all_roles: bool, without_gpu: bool, strict: bool, as_json: bool
) -> None:
    """Launch, set up and prove a GPU host from a profile.

    Run again with the same name it adopts the instance, runs what does not pass, and proves the result.
    """
    from provision.cli.progress import narrator  # noqa: PLC0415
    from provision.launch.journal import check_name  # noqa: PLC0415
    from provision.profile import load  # noqa: PLC0415
    from provision.report import text  # noqa: PLC0415 - heavy, and --help must be light
    from provision.workflow.session import Session  # noqa: PLC0415
    from provision.workflow.up import Run, up  # noqa: PLC0415

    path = load.find(profile)
    asked = load.load(path)
    session = Session.open()
    locked = session.lock(path, asked, options.today(), rehearsal=rehearse)
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
    assert run.report is not None and run.instance is not None  # noqa: S101, PT018 - the last step sets the report, the first the instance
    if as_json:
        options.print_json(
            {
                "instance": dataclasses.asdict(run.instance),
                "attempts": [dataclasses.asdict(attempt) for attempt in run.attempts],
                "roles": run.roles,
                "lock": locked.digest,
                "artefacts": str(run.artefacts) if run.artefacts else None,
                "report": run.report.as_dict(strict=strict),
            }
        )
    else:
        click.echo(text.render(run.report, strict=strict, color=sys.stdout.isatty()))
        click.echo(f"\n{name}: {run.instance.id} at {run.instance.address} ({run.instance.region}), ends {run.instance.deadline}")
        click.echo(f"  ssh gpuprov-{name}    gpuprov verify {name}    gpuprov down {name}")
    ctx.exit(run.report.exit_code(strict=strict))
