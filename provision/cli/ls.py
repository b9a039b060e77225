"""`gpuprov ls`."""

import sys
from collections.abc import Sequence
from typing import Final

import click

from provision.cli import echo, options, tables
from provision.cli.progress import narration
from provision.clouds.base import parsed_deadline
from provision.errors import EXIT_OK, EXIT_UNKNOWN
from provision.report.base import inert
from provision.structs import asdict
from provision.workflow.ls import InventoryRow, inventory
from provision.workflow.session import Session

_TITLES: Final = ("NAME", "STATE", "CLOUD", "ZONE", "TYPE", "MARKET", "ADDRESS", "WAY", "AGE", "COST", "ENDS", "OWNER", "TAGS")
# What a narrow terminal leaves out, the first to go first. The name, the state, the address and the end always stay.
_SPARE: Final = ("TAGS", "MARKET", "OWNER", "AGE", "CLOUD", "WAY", "ZONE", "TYPE", "COST")


@click.command("ls")
@click.option("--rehearse", is_flag=True, help="List only what is in the embedded cloud.")
@click.option("--wide", is_flag=True, help="Show all columns, however wide the terminal is.")
@options.tags
@options.as_json
@click.pass_context
def command(ctx: click.Context, *, rehearse: bool, wide: bool, tags: dict[str, str], as_json: bool) -> None:
    """List the instances that gpuprov launched, in every region, and launches whose outcome is not known yet.

    Instances are found by their tags. The exit code is 3 when a cloud or region that you use did not answer. The cost is the
    catalog's price times the age: less, if a machine was stopped in between.
    """
    with narration() as narrator:
        result = inventory(Session.open(), rehearsal_only=rehearse, tags=tags, say=narrator.say)
    if as_json:
        options.print_json(asdict(result))
        ctx.exit(EXIT_UNKNOWN if result.unknown else EXIT_OK)
    echo(_table(result.rows, wide=wide) if result.rows else options.none_of("instances", result.problems, unknown=result.unknown))
    for row in result.rows:
        for notice in row.notices:
            echo(f"{inert(row.name)}: {inert(notice)}")
    options.show_gaps(result.problems)
    ctx.exit(EXIT_UNKNOWN if result.unknown else EXIT_OK)


def _table(rows: Sequence[InventoryRow], *, wide: bool) -> str:
    """The columns for which there is room, and a word about the others."""
    cells = [_cells(row) for row in rows]
    used = [title for number, title in enumerate(_TITLES) if title not in {"WAY", "TAGS"} or any(row[number] for row in cells)]
    cells = [tuple(cell for title, cell in zip(_TITLES, row, strict=True) if title in used) for row in cells]
    spare = () if wide else _SPARE
    titles, shown, width = tables.chosen(used, cells, spare=[title for title in spare if title in used], width=tables.width_of(sys.stdout))
    missing = [title for title in used if title not in titles]
    if missing:
        echo(f"not shown: {', '.join(missing)}; `gpuprov ls --wide` shows all", err=True)
    return tables.table(titles, shown, width=width)


def _cells(row: InventoryRow) -> tuple[str, ...]:
    return (
        row.name,
        row.state,
        row.cloud,
        row.zone or row.region,
        row.type,
        row.market,
        row.address,
        row.way,
        f"{row.age_h:.1f} h" if row.age_h is not None else "",
        f"{row.cost_usd:.2f} USD" if row.cost_usd is not None else "unknown",
        _ends(row.deadline),
        row.owner,
        ", ".join(f"{key}={value}" for key, value in row.tags.items()),
    )


def _ends(deadline: str) -> str:
    """The deadline to the minute, in UTC."""
    moment = parsed_deadline(deadline)
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else deadline
