"""`gpuprov ls`."""

from __future__ import annotations

import dataclasses
import sys

import click

from provision.cli import options


@click.command("ls")
@click.option("--rehearse", is_flag=True, help="The embedded cloud only.")
@options.as_json
def command(*, rehearse: bool, as_json: bool) -> None:
    """List the instances that gpuprov launched, found by their tags, and launches whose outcome is not known yet."""
    from provision.cli.progress import narrator  # noqa: PLC0415 - heavy, and --help must be light
    from provision.workflow.inventory import inventory  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    with narrator().speaking() as tell:
        found = inventory(Session.open(), rehearsal_only=rehearse, say=tell.say)
    if as_json:
        options.print_json(dataclasses.asdict(found))
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    if found.rows:
        table = Table(box=None, pad_edge=False)
        for title in ("NAME", "STATE", "CLOUD", "REGION", "TYPE", "ADDRESS", "PROFILE", "OWNER", "ENDS"):
            table.add_column(title, no_wrap=True)
        for row in found.rows:
            table.add_row(
                *(
                    Text(value)
                    for value in (row.name, row.state, row.cloud, row.region, row.type, row.address, row.profile, row.owner, row.deadline)
                )
            )
        Console(width=None if sys.stdout.isatty() else 200).print(table)
    else:
        click.echo("no instances")
    for problem in found.problems:
        click.echo(f"not asked: {problem}", err=True)
