"""`gpuprov up`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from provision.cli import echo, options, tables
from provision.cli.progress import narration
from provision.clouds import CLOUDS
from provision.errors import GpuprovError
from provision.launch.journal import check_name
from provision.launch.place import Attempt
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.review.where import Organisation
from provision.structs import asdict, replace
from provision.verify.finding import Report
from provision.workflow import audited
from provision.workflow.interrupted import still_runs
from provision.workflow.session import Session
from provision.workflow.several import HostsFailedError, worst
from provision.workflow.up import ProvenHost, UpRequest, request_for, up


@click.command("up")
@options.profile_to_run
@options.bundle
@click.option("--name", metavar="NAME", help="The name of the instance.  [default: the profile's name]")
@click.option(
    "--count",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    metavar="N",
    help="How many machines to launch, called NAME-1 to NAME-N.",
)
@click.option(
    "--min",
    "minimum",
    type=click.IntRange(1, 100),
    metavar="M",
    help="How many of them are enough; they may then come from several zones.  [default: all, from one zone]",
)
@click.option("--wait-capacity", metavar="TIME", help="How long to keep trying all places while there is no capacity, such as 30m.")
@click.option(
    "--rehearse",
    is_flag=False,
    flag_value=CLOUDS[0],
    type=click.Choice(CLOUDS),
    help=f"Use the embedded cloud: no account, no cost, hosts on this machine. Only places on this cloud are tried.  [alone: {CLOUDS[0]}]",
)
@options.cheapest
@options.all_roles
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
    cheapest: bool,
    all_roles: bool,
    organisation: Organisation,
    without_gpu: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Launch a GPU host from a profile, set it up, and prove that it matches the profile.

    If an instance of this name exists already, it is adopted: only what does not pass is set up again. If the organisation's rules demand
    signatures, only a signed bundle can be launched.
    """
    if minimum is not None and minimum > count:
        msg = f"--min {minimum} is more than --count {count}"
        raise click.UsageError(msg)
    session, attempts = Session.open(), list[Attempt]()
    request = request_for(session, profile, bundle, organisation, rehearsal=rehearse)
    request = replace(
        request,
        name=check_name(name or request.name),
        count=count,
        minimum=minimum or count,
        wait_s=options.seconds(wait_capacity) if wait_capacity else 0.0,
        without_gpu=without_gpu,
        all_roles=all_roles,
        cheapest=cheapest,
    )
    with audited.launching(session, request) as ending, narration(lambda: still_runs(session, request.name)) as narrator:
        try:
            hosts = up(
                session, request, attempts, say=narrator.say, on_task=narrator.task, on_host=narrator.machine, on_expected=narrator.expect
            )
        except GpuprovError as error:
            narrator.pause()
            ctx.obj["beside"] = {"attempts": [attempt.as_dict() for attempt in attempts]}
            if isinstance(error, HostsFailedError):
                error.weigh(host.result.report.exit_code(strict=strict) for host in error.proven)
                _tell_the_others(ctx, error, attempts, request, strict=strict, as_json=as_json)
            if attempts and not as_json:
                _print_attempts(attempts, session.journal.log_of(request.name))
            raise
        ending.code = worst(host.result.report.exit_code(strict=strict) for host in hosts)
        ending.results = {"machines": [host.instance.id for host in hosts], "launch": hosts[0].instance.launch_id}
    if as_json:
        options.print_json(_as_data(hosts, attempts, request, strict=strict))
    else:
        if len(attempts) > 1:
            _print_attempts(attempts, session.journal.log_of(request.name))
        _print_hosts(hosts, request, strict=strict)
    ctx.exit(ending.code)


def _tell_the_others(
    ctx: click.Context, error: HostsFailedError, attempts: Sequence[Attempt], request: UpRequest, *, strict: bool, as_json: bool
) -> None:
    """What was proven of the machines that are set up, before the error names those that are not."""
    proven = _as_data(error.proven, attempts, request, strict=strict)["hosts"] if error.proven else []
    ctx.obj["beside"] |= {"hosts": proven, "failed": error.failed()}
    if error.proven and not as_json:
        _print_hosts(error.proven, request, strict=strict)


def _print_attempts(attempts: Sequence[Attempt], log: Path) -> None:
    echo(f"{tables.attempts(attempts)}\n(also in {log})", err=True)


def _print_hosts(hosts: Sequence[ProvenHost], request: UpRequest, *, strict: bool) -> None:
    echo(options.report_text(*(host.result.report for host in hosts), strict=strict), styled=True)
    for host in hosts:
        instance = host.instance
        echo(f"\n{instance.name}: {instance.id} at {instance.address} ({instance.zone}), ends {instance.deadline}")
        echo(f"  ssh gpuprov-{instance.name}    gpuprov verify {instance.name}    gpuprov down {request.name}")
        for line in what_is_there(request.profile, request.lock, host.result.report):
            echo(f"  {line}")


def what_is_there(profile: Profile, lock: Lock, report: Report) -> Iterator[str]:
    """How to start each framework that was proven to be there, and what becomes of the data disk."""
    proven = {finding.check for finding in report.findings if finding.outcome == "pass"}
    for name, framework in lock.frameworks.items():
        if f"{name}-installed" in proven:
            yield f"on it: with-{name} python train.py    ({name} {framework.version})"
    if data := profile.disks.data:
        own = data.source == "instance-store"
        yield f"{data.mount}: {'inside the machine, and empty after each stop' if own else 'a volume: a stop keeps it, `down` removes it'}"


def _as_data(hosts: Sequence[ProvenHost], attempts: Sequence[Attempt], request: UpRequest, *, strict: bool) -> dict[str, Any]:
    """All hosts, and the first one once more at the top, for launches of one."""
    data = [
        {
            "instance": asdict(host.instance),
            "roles": host.result.roles,
            "artefacts": str(host.result.artefacts) if host.result.artefacts else None,
            "warnings": host.result.warnings,
            "report": host.result.report.as_dict(strict=strict),
        }
        for host in hosts
    ]
    rows = [attempt.as_dict() for attempt in attempts]
    return {**data[0], "hosts": data, "attempts": rows, "lock": request.lock.digest, "bundle": request.bundle}
