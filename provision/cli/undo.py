"""`gpuprov undo`."""

from __future__ import annotations

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.converge.roles import ROLES, in_order
from provision.workflow.apply import undo
from provision.workflow.session import Session


@click.command("undo")
@options.host_argument()
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="Undo only what this role changed. May be repeated.")
@click.option("--check", is_flag=True, help="Show what would be put back, and change nothing.")
@options.as_json
def command(*, host: str, roles: tuple[str, ...], check: bool, as_json: bool) -> None:
    """Put HOST back to what it was before gpuprov's roles changed it: files, links, units and packages.

    The host keeps what was there before in /var/lib/gpuprov/changes. Logins and the data on disks are not touched.
    """
    selection = in_order(roles) if roles else ROLES
    with narration() as narrator:
        changes = undo(Session.open(), host, selection, check=check, say=narrator.say)
    if as_json:
        options.print_json({"host": host, "roles": selection, "check": check, "changes": changes})
        return
    for line in changes:
        click.echo(line)
    verb = "would be put back" if check else "put back"
    click.echo(f"{len(changes)} changes {verb}" if changes else "nothing to put back: gpuprov changed nothing here")
