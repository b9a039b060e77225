"""`gpuprov ls`."""

import dataclasses

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.cli.tables import table
from provision.workflow.ls import InventoryRow, inventory
from provision.workflow.session import Session

_TITLES = ("NAME", "STATE", "CLOUD", "ZONE", "TYPE", "MARKET", "ADDRESS", "AGE", "COST", "ENDS", "OWNER", "NOTICES")


@click.command("ls")
@click.option("--rehearse", is_flag=True, help="List only what is in the embedded cloud.")
@options.as_json
def command(*, rehearse: bool, as_json: bool) -> None:
    """List the instances that gpuprov launched, in every region, and launches whose outcome is not known yet.

    Instances are found by their tags. The cost is the catalog's price times the age: less, if a machine was stopped in between.
    """
    with narration() as narrator:
        result = inventory(Session.open(), rehearsal_only=rehearse, say=narrator.say)
    if as_json:
        options.print_json(dataclasses.asdict(result))
        return
    click.echo(table(_TITLES, map(_cells, result.rows)) if result.rows else "no instances")
    for problem in result.problems:
        click.echo(f"not asked: {problem}", err=True)


def _cells(row: InventoryRow) -> tuple[str, ...]:
    return (
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
