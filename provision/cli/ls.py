"""`gpuprov ls`."""

from __future__ import annotations

import dataclasses

import click

from provision.cli import options


@click.command("ls")
@click.option("--rehearse", is_flag=True, help="The embedded cloud only.")
@options.as_json
def command(*, rehearse: bool, as_json: bool) -> None:
    """List the instances that gpuprov launched, in every region, found by their tags, and launches whose outcome is not known yet.

    The cost is what the catalogue's price makes of the time since the launch: at most, if a machine was stopped in between.
    """
    from provision.cli.progress import narrator  # noqa: PLC0415 - heavy, and --help must be light
    from provision.workflow.inventory import inventory  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    with narrator().speaking() as tell:
        found = inventory(Session.open(), rehearsal_only=rehearse, say=tell.say)
    if as_json:
        options.print_json(dataclasses.asdict(found))
        return
    from provision.cli.tables import table  # noqa: PLC0415

    titles = ("NAME", "STATE", "CLOUD", "ZONE", "TYPE", "MARKET", "ADDRESS", "AGE", "COST", "ENDS", "OWNER", "NOTICES")
    rows = [
        (
            row.name,
            row.state,
            row.cloud,
            row.zone or row.region,
            row.type,
            row.market,
            f"{row.address} {row.way}".strip(),
            f"{row.age_h:.1f} h" if row.age_h is not None else "",
            f"{row.cost_usd:.2f} USD" if row.cost_usd is not None else "unknown",
            row.deadline,
            row.owner,
            "; ".join(row.notices),
        )
        for row in found.rows
    ]
    click.echo(table(titles, rows) if rows else "no instances")
    for problem in found.problems:
        click.echo(f"not asked: {problem}", err=True)
