"""`gpuprov rehearse`."""

from __future__ import annotations

import click

from provision.cli import options


@click.group("rehearse")
def command() -> None:
    """Start, stop and inspect the embedded clouds: EC2 and Compute Engine on loopback, whose instances are Linux hosts on this machine."""


@command.command("start")
@options.as_json
def start(*, as_json: bool) -> None:
    """Start the embedded cloud; does nothing when it runs. The first start builds the hosts' root file system (about a minute)."""
    from provision.cli.progress import narrator  # noqa: PLC0415 - heavy, and --help must be light
    from provision.rehearsal import control  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    with narrator().speaking() as tell:
        running = control.start(Session.open().rehearsal_folder, progress=tell.say)
    _show({**running.addresses(), "pid": running.pid}, as_json=as_json)


@command.command("stop")
@options.as_json
def stop(*, as_json: bool) -> None:
    """End the embedded cloud with all its hosts, and sweep what a killed one left."""
    from provision.rehearsal import control  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    session = Session.open()
    stopped = control.stop(session.rehearsal_folder)
    for record in session.journal.all():
        if record.rehearsal:
            session.journal.drop(record.name)
            if session.ssh.knows(record.name):
                session.ssh.remove(record.name)
    _show({"stopped": stopped}, as_json=as_json)


@command.command("status")
@options.as_json
def status(*, as_json: bool) -> None:
    """Say whether the embedded cloud runs, and what is in it."""
    from provision.rehearsal import control  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    _show(control.status(Session.open().rehearsal_folder), as_json=as_json)


def _show(data: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        options.print_json(data)
        return
    for key, value in data.items():
        click.echo(f"{key}: {value}")
