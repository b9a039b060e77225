"""`gpuprov up`."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import click

from provision.cli import options

if TYPE_CHECKING:
    from provision.errors import GpuprovError
    from provision.verify.finding import Report
    from provision.workflow.up import Run


@click.command("up")
@options.required_profile
@click.option("--name", metavar="NAME", help="What to call the instance; the profile's name by default.")
@click.option(
    "--count", type=click.IntRange(1, 100), default=1, show_default=True, metavar="N", help="How many machines: NAME-1 to NAME-N."
)
@click.option(
    "--min",
    "minimum",
    type=click.IntRange(1, 100),
    metavar="M",
    help="How many are enough, from several zones.  [default: all, from one zone]",
)
@click.option("--wait-capacity", metavar="TIME", help="Go through all places again and again for as long as this, such as 30m.")
@click.option(
    "--rehearse",
    is_flag=False,
    flag_value="aws",
    type=click.Choice(["aws", "gcp"]),
    help="Use the embedded cloud: no account, no cost, real hosts on this machine; only places on this cloud are tried.  [alone: aws]",
)
@click.option("--all", "all_roles", is_flag=True, help="Run every role, not only those whose checks do not pass.")
@options.without_gpu
@options.strict
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    *,
    profile: str,
    name: str | None,
    count: int,
    minimum: int | None,
    wait_capacity: str | None,
    rehearse: str | None,
    all_roles: bool,
    without_gpu: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Launch, set up and prove a GPU host from a profile.

    Run again with the same name it adopts the instance, runs what does not pass, and proves the result.
    """
    from provision.cli.progress import narrator  # noqa: PLC0415 - heavy, and --help must be light
    from provision.errors import GpuprovError  # noqa: PLC0415
    from provision.launch.journal import check_name  # noqa: PLC0415
    from provision.profile import load  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415
    from provision.workflow.up import Run, up  # noqa: PLC0415

    if minimum is not None and minimum > count:
        msg = f"--min {minimum} is more than --count {count}"
        raise click.UsageError(msg)
    asked = load.load(path := load.find(profile))
    session = Session.open()
    locked = session.lock(path, asked, options.today(), rehearsal=rehearse is not None)
    name = check_name(name or asked.name)
    with narrator().speaking() as tell:
        run = Run(
            session=session,
            profile=asked,
            name=name,
            rehearsal=rehearse is not None,
            only=rehearse,
            count=count,
            minimum=minimum or count,
            wait_s=options.seconds(wait_capacity) if wait_capacity else 0.0,
            say=tell.say,
            on_task=tell.task,
            lock=locked,
            without_gpu=without_gpu,
            all_roles=all_roles,
        )
        try:
            up(run)
        except GpuprovError as error:
            tell.pause()
            _tell_attempts(run, as_json=as_json, error=error)
            raise
    found = [host.report for host in run.hosts if host.report is not None]
    if as_json:
        options.print_json(_as_data(run, locked.digest, strict=strict))
    else:
        _tell_attempts(run)
        _tell_hosts(run, found, strict=strict)
    ctx.exit(max(report.exit_code(strict=strict) for report in found))


def _tell_attempts(run: Run, *, as_json: bool = False, error: GpuprovError | None = None) -> None:
    """What was tried: on standard error when it failed or took more than one; as data with the error, where data is asked for."""
    from provision.cli.tables import attempts  # noqa: PLC0415 - heavy, and --help must be light

    if as_json and error is not None:
        said = {"code": error.code, "message": error.message, "hint": error.hint}
        options.print_json({"error": said, "attempts": [attempt.as_dict() for attempt in run.attempts]})
    elif not as_json and (len(run.attempts) > 1 or (error is not None and run.attempts)):
        click.echo(f"{attempts(run.attempts)}\n(also in {run.session.journal.log_of(run.name)})", err=True)


def _tell_hosts(run: Run, found: list[Report], *, strict: bool) -> None:
    from provision.report import text  # noqa: PLC0415 - heavy, and --help must be light

    click.echo(text.render(*found, strict=strict, color=sys.stdout.isatty()))
    for host in run.hosts:
        assert host.instance is not None  # noqa: S101 - the first step sets it
        click.echo(f"\n{host.name}: {host.instance.id} at {host.instance.address} ({host.instance.zone}), ends {host.instance.deadline}")
        click.echo(f"  ssh gpuprov-{host.name}    gpuprov verify {host.name}    gpuprov down {run.name}")


def _as_data(run: Run, digest: str, *, strict: bool) -> dict[str, Any]:
    hosts = [
        {
            "instance": dataclasses.asdict(host.instance) if host.instance else None,
            "roles": host.roles,
            "artefacts": str(host.artefacts) if host.artefacts else None,
            "report": host.report.as_dict(strict=strict) if host.report else None,
        }
        for host in run.hosts
    ]
    return {**hosts[0], "hosts": hosts, "attempts": [attempt.as_dict() for attempt in run.attempts], "lock": digest}
