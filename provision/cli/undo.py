"""`gpuprov undo`."""

from __future__ import annotations

import click

from provision.cli import options


@click.command("undo")
@options.named_host()
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="Put back what this role changed and no other; may be repeated.")
@click.option("--check", is_flag=True, help="Tell what would be put back, change nothing.")
@options.as_json
def command(*, host: str, roles: tuple[str, ...], check: bool, as_json: bool) -> None:
    """Put HOST back to what it was before gpuprov's roles changed it: files, links, units and packages.

    What was there before stands in /var/lib/gpuprov/changes on the host. Logins and the data on disks are left alone.
    """
    from provision.cli.progress import narrator  # noqa: PLC0415 - heavy, and --help must be light
    from provision.converge.roles import ROLES, in_order  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415
    from provision.workflow.up import undo  # noqa: PLC0415

    selected = in_order(roles) if roles else ROLES
    with narrator().speaking() as tell:
        changes = undo(Session.open(), host, selected, check=check, say=tell.say)
    if as_json:
        options.print_json({"host": host, "roles": selected, "check": check, "changes": changes})
        return
    for line in changes:
        click.echo(line)
    done = "would be put back" if check else "put back"
    click.echo(f"{len(changes)} changes {done}" if changes else "nothing to put back: gpuprov changed nothing here")
