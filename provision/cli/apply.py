"""`gpuprov apply`: its words, and the connections that open before the rest of the program is loaded."""

from pathlib import Path
from typing import Any, Final

import click

from provision import paths
from provision.cli import options
from provision.host.sshconfig import SshHome
from provision.review.where import Organisation
from provision.structs import Struct
from provision.verify.ahead import EarlyObservations
from provision.verify.observe import SET_UP_S

_MOST_AHEAD: Final = 32


class ApplyWords(Struct):
    """The words of the command line, by the names of the options below."""

    hosts: tuple[str, ...]
    profile: str | None
    bundle: Path | None
    organisation: Organisation
    roles: tuple[str, ...]
    all_roles: bool
    check: bool
    diff: bool
    source: Path | None
    without_gpu: bool
    strict: bool
    as_json: bool


@click.command("apply")
@click.argument("hosts", metavar="HOST…", nargs=-1, required=True, shell_complete=options.complete_instances)
@options.optional_profile
@options.bundle
@options.organisation
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="Run only this role. May be repeated.")
@options.all_roles
@click.option("--check", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--diff", is_flag=True, help="Show what changes in files.")
@click.option(
    "--from",
    "source",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Take everything from a folder that `gpuprov mirror` filled; the host needs no network.",
)
@options.without_gpu
@options.strict
@options.as_json
@click.pass_context
def command(ctx: click.Context, /, **arguments: Any) -> None:
    """Set up each HOST that exists: observe it, run the roles whose checks do not pass, and prove the result.

    Several are set up at the same time; one that fails does not stop the others.
    """
    words = ApplyWords(**arguments)
    home = SshHome(paths.state_dir() / "ssh")
    with EarlyObservations([home.reach(host) for host in dict.fromkeys(words.hosts[:_MOST_AHEAD])], timeout_s=SET_UP_S) as ahead:
        from provision.cli.applied import set_up_hosts  # noqa: PLC0415 - 0.2 s, in which the hosts gather their first facts

        ctx.exit(set_up_hosts(ctx, words, ahead))
