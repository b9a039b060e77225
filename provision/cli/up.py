"""`gpuprov up`."""

from __future__ import annotations

import dataclasses
import datetime as dt
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from provision.cli import options

if TYPE_CHECKING:
    from provision.errors import GpuprovError
    from provision.review.approval import Admission
    from provision.review.where import Organisation
    from provision.workflow.up import Run


@click.command("up")
@options.profile_to_run
@options.bundle
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
    count: int,
    minimum: int | None,
    wait_capacity: str | None,
    rehearse: str | None,
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
    from provision.cli.progress import narrator  # noqa: PLC0415 - heavy, and --help must be light
    from provision.errors import GpuprovError  # noqa: PLC0415
    from provision.launch.journal import check_name  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415
    from provision.workflow.up import Run, up  # noqa: PLC0415

    _refuse_contradictions(profile, bundle, count=count, minimum=minimum)
    path, admitted = _admitted(profile, bundle, organisation)
    asked = admitted.profile
    session = Session.open()
    locked = session.lock(path, asked, options.today(), rehearsal=rehearse is not None, signed=admitted.lock)
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
    if as_json:
        options.print_json({**_as_data(run, locked.digest, strict=strict), "bundle": admitted.bundle})
    else:
        _tell_attempts(run)
        _tell_hosts(run, strict=strict)
    ctx.exit(max(host.report.exit_code(strict=strict) for host in run.hosts if host.report is not None))


def _refuse_contradictions(profile: str | None, bundle: Path | None, *, count: int, minimum: int | None) -> None:
    if profile is None and bundle is None:
        msg = "what to run is not said: give --profile or --bundle"
        raise click.UsageError(msg)
    if minimum is not None and minimum > count:
        msg = f"--min {minimum} is more than --count {count}"
        raise click.UsageError(msg)


def _admitted(profile: str | None, bundle: Path | None, organisation: Organisation) -> tuple[Path | None, Admission]:
    """The profile's file, where one was named, and what may run."""
    from provision.profile import load  # noqa: PLC0415 - heavy, and --help must be light
    from provision.review.approval import Submission, admit  # noqa: PLC0415

    path = load.find(profile) if profile is not None else None
    given = Submission.read(path, options.today()) if path else None
    return path, admit(given, bundle, organisation, dt.datetime.now(dt.UTC))


def _tell_attempts(run: Run, *, as_json: bool = False, error: GpuprovError | None = None) -> None:
    """What was tried: on standard error when it failed or took more than one; as data with the error, where data is asked for."""
    from provision.cli.tables import attempts  # noqa: PLC0415 - heavy, and --help must be light

    if as_json and error is not None:
        said = {"code": error.code, "message": error.message, "hint": error.hint}
        options.print_json({"error": said, "attempts": [attempt.as_dict() for attempt in run.attempts]})
    elif not as_json and (len(run.attempts) > 1 or (error is not None and run.attempts)):
        click.echo(f"{attempts(run.attempts)}\n(also in {run.session.journal.log_of(run.name)})", err=True)


def _tell_hosts(run: Run, *, strict: bool) -> None:
    from provision.report import text  # noqa: PLC0415 - heavy, and --help must be light

    found = [host.report for host in run.hosts if host.report is not None]
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
