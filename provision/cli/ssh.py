"""`gpuprov ssh`."""

from __future__ import annotations

import os
import re

import click

from provision.cli import options

_MOST = 65_535


def _forward(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """PORT[:PORT] as ssh takes it: from this port of this machine's loopback to that port of the host's own."""
    made = []
    for text in given:
        found = re.fullmatch(r"([0-9]{1,5})(?::([0-9]{1,5}))?", text)
        ports = [int(port or found[1]) for port in found.groups()] if found else []
        if not ports or not all(1 <= port <= _MOST for port in ports):
            msg = f"{text!a} is no PORT or PORT:PORT of 1 to {_MOST}"
            raise click.BadParameter(msg)
        made.append(f"127.0.0.1:{ports[0]}:localhost:{ports[1]}")
    return tuple(made)


# What stands after HOST is the command's, its options as well.
@click.command("ssh", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "-L",
    "--forward",
    "forwards",
    multiple=True,
    metavar="PORT[:PORT]",
    callback=_forward,
    help="Reach a port of HOST, such as a notebook's, under this port of localhost (and of nowhere else); may be repeated.",
)
@options.named_host()
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND]…")
def command(*, host: str, forwards: tuple[str, ...], arguments: tuple[str, ...]) -> None:
    """Open a shell, or run COMMAND, on the instance called HOST. `ssh gpuprov-HOST` does the same.

    Options stand before HOST: `gpuprov ssh -L 8888 HOST` makes http://localhost:8888 the notebook that runs on HOST.
    """
    from provision.errors import InstanceNotFoundError  # noqa: PLC0415 - --help must be light
    from provision.workflow.session import Session  # noqa: PLC0415

    if arguments[:1] == ("--",):
        arguments = arguments[1:]
    elif arguments and re.match(r"-L|--forward", arguments[0]):
        msg = f"{arguments[0]} stands before HOST: gpuprov ssh -L PORT {host}"
        raise click.UsageError(msg)
    session = Session.open()
    if not session.ssh.knows(host):
        msg = f"no instance called {host!a} was launched from here"
        raise InstanceNotFoundError(msg, hint="`gpuprov ls` shows what there is")
    target = session.ssh.target(host)
    tunnels = [word for forward in forwards for word in ("-L", forward)]
    # On a connection of its own: over a shared one the ports would stay taken after the session, and a taken one would be no error.
    own = ["-S", "none", "-o", "ExitOnForwardFailure=yes"] if tunnels else []
    os.execvp("ssh", ["ssh", "-F", str(target.config), *own, *tunnels, target.destination, *arguments])  # noqa: S606 - becoming ssh is the point
