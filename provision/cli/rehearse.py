"""`gpuprov rehearse`."""

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.rehearsal import control
from provision.workflow.down import stop_rehearsal
from provision.workflow.session import Session


@click.group("rehearse")
def command() -> None:
    """Start, stop and inspect the embedded clouds: their APIs on loopback, with Linux hosts on this machine as instances."""


@command.command("start")
@options.as_json
def start(*, as_json: bool) -> None:
    """Start the embedded cloud, if it is not running. The first start builds the hosts' root file system, which takes about a minute."""
    with narration() as narrator:
        running = control.start(Session.open().rehearsal_folder, progress=narrator.say)
    _print({**running.addresses(), "pid": running.pid}, as_json=as_json)


@command.command("stop")
@options.as_json
def stop(*, as_json: bool) -> None:
    """Stop the embedded cloud with all its hosts, and clean up after one that was killed."""
    _print({"stopped": stop_rehearsal(Session.open())}, as_json=as_json)


@command.command("status")
@options.as_json
def status(*, as_json: bool) -> None:
    """Say whether the embedded cloud is running, and what is in it."""
    _print(control.status(Session.open().rehearsal_folder), as_json=as_json)


def _print(data: dict[str, object], *, as_json: bool) -> None:
    options.show(data, *(f"{key}: {value}" for key, value in data.items()), as_json=as_json)
