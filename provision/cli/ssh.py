"""`gpuprov ssh`."""

from __future__ import annotations

import os

import click

from provision.cli import options


@click.command("ssh", context_settings={"ignore_unknown_options": True})
@options.named_host()
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND]…")
def command(*, host: str, arguments: tuple[str, ...]) -> None:
    """Open a shell, or run COMMAND, on the instance called HOST. `ssh gpuprov-HOST` does the same."""
    from provision.errors import InstanceNotFoundError  # noqa: PLC0415 - --help must be light
    from provision.workflow.session import Session  # noqa: PLC0415

    session = Session.open()
    if not session.ssh.knows(host):
        msg = f"no instance called {host!a} was launched from here"
        raise InstanceNotFoundError(msg, hint="`gpuprov ls` shows what there is")
    target = session.ssh.target(host)
    os.execvp("ssh", ["ssh", "-F", str(target.config), target.destination, *arguments])  # noqa: S606 - becoming ssh is the point
