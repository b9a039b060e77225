"""`gpuprov rehearse`."""

import click

from provision import paths
from provision.cli import options
from provision.cli.progress import narration
from provision.errors import EXIT_OK, RehearsalUnavailableError
from provision.rehearsal import control, requirements
from provision.structs import asdict
from provision.workflow.down import stop_rehearsal
from provision.workflow.session import Session, rehearsal_folder


@click.group("rehearse")
def command() -> None:
    """Check for, start, stop and inspect the embedded clouds: APIs on loopback, with Linux hosts on this machine as instances."""


@command.command("start")
@options.as_json
def start(*, as_json: bool) -> None:
    """Start the embedded cloud, if it is not running. The first start builds the hosts' root file system, which takes about a minute."""
    with narration() as narrator:
        running = control.start(Session.open().rehearsal_folder, progress=narrator.say)
    _print({**running.addresses(), "pid": running.pid}, as_json=as_json)


@command.command("check")
@options.as_json
@click.pass_context
def check(ctx: click.Context, *, as_json: bool) -> None:
    """Say what this machine needs to run rehearsal hosts, and how to get it. It tries everything for real, and leaves nothing behind."""
    lacks = requirements.gaps(rehearsal_folder(paths.state_path()), hosts=True)
    lines = [line for gap in lacks for line in (f"missing: {gap.what}", f"  how: {gap.how}")]
    data = {"ready": not lacks, "gaps": [asdict(gap) for gap in lacks]}
    options.show(data, *(lines or ["this machine can run rehearsal hosts"]), as_json=as_json)
    ctx.exit(RehearsalUnavailableError.exit_code if lacks else EXIT_OK)


@command.command("stop")
@options.as_json
def stop(*, as_json: bool) -> None:
    """Stop the embedded cloud with all its hosts, and clean up after one that was killed."""
    stopped = stop_rehearsal(Session.open())
    line = "stopped the embedded cloud and its hosts" if stopped else "no embedded cloud was running"
    options.show({"stopped": stopped}, line, as_json=as_json)


@command.command("status")
@options.as_json
def status(*, as_json: bool) -> None:
    """Say whether the embedded cloud is running, and what is in it."""
    _print(control.status(Session.open().rehearsal_folder), as_json=as_json)


def _print(data: dict[str, object], *, as_json: bool) -> None:
    options.show(data, *(f"{key}: {value}" for key, value in data.items()), as_json=as_json)
