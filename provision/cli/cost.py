"""`gpuprov cost`."""

import sys

import click

from provision.cli import echo, options, tables
from provision.cli.progress import narration
from provision.errors import EXIT_OK, EXIT_UNKNOWN, counted
from provision.report.base import inert
from provision.structs import asdict
from provision.workflow.cost import OF_TAG, CostSum, report
from provision.workflow.ls import InventoryRow, inventory
from provision.workflow.session import Session

_TITLES = ("NAME", "STATE", "CLOUD", "TYPE", "OWNER", "USD/H", "SO FAR", "TO DEADLINE", "PRICE OF")
_SPARE = ("CLOUD", "STATE", "TYPE", "OWNER")
_KEYS = ("owner", "profile", "cloud", "fleet")


def _by(_ctx: click.Context, _param: click.Parameter, word: str) -> str:
    if word in _KEYS or (word.startswith(OF_TAG) and word != OF_TAG):
        return word
    msg = f"{word!a} is none of {', '.join(_KEYS)} and tag:KEY"
    raise click.BadParameter(msg)


@click.command("cost")
@click.option(
    "--by", default="owner", callback=_by, metavar="KEY", help="Sum up by owner, profile, cloud, fleet or tag:KEY.  [default: owner]"
)
@click.option("--rehearse", is_flag=True, help="Say what the machines of the embedded cloud would cost.")
@options.tags
@options.as_json
@click.pass_context
def command(ctx: click.Context, *, by: str, rehearse: bool, tags: dict[str, str], as_json: bool) -> None:
    """Say what the instances that gpuprov launched have cost so far, and what they may cost until their deadlines.

    All figures are list prices from the catalog, each as old as the day beside it. They are upper bounds: a machine that was stopped in
    between cost less. Traffic is not in them. The exit code is 3 when a cloud or region that you use did not answer.
    """
    with narration() as narrator:
        found = inventory(Session.open(), rehearsal_only=rehearse, tags=tags, say=narrator.say)
    result = report(found, by=by, rehearsal=rehearse)
    if as_json:
        options.print_json(asdict(result))
        ctx.exit(EXIT_UNKNOWN if found.unknown else EXIT_OK)
    if result.rows:
        cells = [_cells(row) for row in result.rows]
        titles, shown, width = tables.chosen(list(_TITLES), cells, spare=list(_SPARE), width=tables.width_of(sys.stdout))
        echo(tables.table(titles, shown, width=width))
        for each in result.sums if len(result.sums) > 1 else ():
            echo(f"{inert(each.of) or f'no {by.removeprefix(OF_TAG)}'}: {_words(each)}")
    if found.unknown:
        echo(f"in all: not known{f'; of those that were found: {_words(result.total)}' if result.rows else ''}")
    else:
        echo(f"in all: {_words(result.total)}")
    options.show_gaps(result.problems)
    ctx.exit(EXIT_UNKNOWN if found.unknown else EXIT_OK)


def _cells(row: InventoryRow) -> tuple[str, ...]:
    figures = (row.usd_per_hour, row.cost_usd, row.to_deadline_usd)
    least = "at least " if row.unpriced else ""
    amounts = [
        f"{least}{figure:.{digits}f}" if figure is not None else "unknown" for figure, digits in zip(figures, (3, 2, 2), strict=True)
    ]
    return (row.name, row.state, row.cloud, row.type, row.owner, *amounts, row.priced_on)


def _words(total: CostSum) -> str:
    """A sum for people."""
    known = f"{total.so_far_usd:.2f} USD so far, {total.to_deadline_usd:.2f} USD more to the deadline"
    return f"{counted(total.machines, 'machine')}, {known}" + (f"; not known for {total.unpriced}" if total.unpriced else "")
