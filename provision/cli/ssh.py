"""`gpuprov ssh`."""

import os
import re
import shlex

import click

from provision.cli import options
from provision.workflow.session import Session

_MOST = 65_535
_OF_ENVIRONMENTS = re.compile(r"(python|pip)[0-9.]*|torchrun")
_MISSING = "gpuprov: no {} on this host, nor in an environment of a framework: `gpuprov apply {}` sets up those of its profile"


def _forwards(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """PORT[:PORT] as ssh takes it: from this port of this machine's loopback to that port of the host's own."""
    forwards = []
    for text in texts:
        match = re.fullmatch(r"([0-9]{1,5})(?::([0-9]{1,5}))?", text)
        ports = [int(port or match[1]) for port in match.groups()] if match else []
        if not ports or not all(1 <= port <= _MOST for port in ports):
            msg = f"{text!a} is not PORT or PORT:PORT of 1 to {_MOST}"
            raise click.BadParameter(msg)
        forwards.append(f"127.0.0.1:{ports[0]}:localhost:{ports[1]}")
    return tuple(forwards)


# Everything after HOST belongs to the command on the host, options included.
@click.command("ssh", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "-L",
    "--forward",
    "forwards",
    multiple=True,
    metavar="PORT[:PORT]",
    callback=_forwards,
    help="Make a port of HOST, such as a notebook's, available on this port of localhost, and only there. May be repeated.",
)
@options.host_argument(required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND]…")
def command(*, host: str | None, forwards: tuple[str, ...], arguments: tuple[str, ...]) -> None:
    """Open a shell, or run COMMAND, on the instance called HOST. `ssh gpuprov-HOST` does the same.

    COMMAND runs in the environment of the profile's framework: its `python` is the one of `with-pytorch python`. HOST may be left out if
    there is only one machine.

    Options come before HOST: after `gpuprov ssh -L 8888 HOST`, the notebook on HOST is at http://localhost:8888.
    """
    if arguments[:1] == ("--",):
        arguments = arguments[1:]
    elif arguments and re.match(r"-L|--forward", arguments[0]):
        msg = f"{arguments[0]} must come before HOST: gpuprov ssh -L PORT {host}"
        raise click.UsageError(msg)
    session = Session.open()
    host = host or session.only_instance()
    target = session.instance_target(host)
    if arguments and not arguments[0].startswith("-"):
        program, inside = arguments[0].partition(" ")[0], session.in_environment(host)
        if _OF_ENVIRONMENTS.fullmatch(program):
            inside += f"; command -v {program} >/dev/null || {{ echo {shlex.quote(_MISSING.format(program, host))} >&2; exit 127; }}"
        arguments = (f"{inside};", *arguments)
    tunnels = [word for forward in forwards for word in ("-L", forward)]
    # A connection of its own: on a shared one the ports would stay open after the session, and a port in use would not be an error. Nor
    # would a login show its message, which sshd gives to the first session of a connection alone.
    own = [*(["-S", "none"] if tunnels or not arguments else []), *(["-o", "ExitOnForwardFailure=yes"] if tunnels else [])]
    os.execvp("ssh", ["ssh", "-F", str(target.config), *own, *tunnels, target.destination, *arguments])  # noqa: S606 - becoming ssh is the point
