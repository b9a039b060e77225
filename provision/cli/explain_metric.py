"""`gpuprov explain-metric`."""

import click

from provision.cli import echo, options, tables
from provision.structs import asdict
from provision.watch.trace import metrics


@click.command("explain-metric")
@click.argument("names", nargs=-1, metavar="[OLD]…")
@click.option("--gpu", type=click.Choice(sorted(metrics.cards()), case_sensitive=False), help="One card.  [default: all that are known]")
@options.as_json
def command(*, names: tuple[str, ...], gpu: str | None, as_json: bool) -> None:
    """Name the metric of ncu that replaced each OLD one of nvprof; without OLD list those that are known.

    nvprof takes no metrics on cards of compute capability 7.5 and later, of which T4 is the first.
    """
    cards = [gpu] if gpu else list(metrics.cards())
    found = [metrics.replacement(name, card) for name in names or metrics.known() for card in cards]
    if as_json:
        options.print_json([asdict(each) for each in found])
        return
    rows = [(each.old, each.card, each.compute_capability, each.metric or "none", each.note) for each in found]
    echo(tables.table(("NVPROF", "GPU", "CC", "NCU", "NOTE"), rows, flows="NOTE"))
