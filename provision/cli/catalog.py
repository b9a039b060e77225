"""`gpuprov catalog`: what exists, as tables; each of them also as --json and --csv."""

import datetime as dt
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from provision.catalog import overlay, wheels
from provision.cli import echo, options, tables
from provision.cli.progress import narration
from provision.clouds import CLOUDS, refreshes, search
from provision.errors import EXIT_UNKNOWN, counted
from provision.report import picture
from provision.structs import asdict
from provision.workflow import catalog
from provision.workflow.catalog import CatalogTable, FromMemory
from provision.workflow.systems import system_table


@click.group("catalog")
def command() -> None:
    """Browse and refresh what exists: GPUs, instance types, stacks. A figure without a source is marked with ~."""


as_csv = click.option("--csv", "as_csv", is_flag=True, help="Print CSV on standard output.")


def _formats(function: Callable[..., Any]) -> Callable[..., Any]:
    return options.as_json(as_csv(function))


def _prints_table(function: Callable[..., CatalogTable]) -> Callable[..., Any]:
    """A command that prints the table that its function returns, in the form that the user chooses."""

    @functools.wraps(function)
    def run(*, as_json: bool, as_csv: bool, **arguments: Any) -> None:
        _print(function(**arguments), as_json=as_json, as_csv=as_csv)

    return _formats(run)


def _print(result: CatalogTable, *, as_json: bool, as_csv: bool) -> None:
    """Print a table in one form. Only the text for people has marks and the note."""
    if as_json:
        options.print_json(result.data)
    elif as_csv:
        plain = [[cell.value if isinstance(cell, FromMemory) else cell for cell in row] for row in result.rows]
        echo(tables.as_csv(result.columns, plain), nl=False)
    else:
        _print_text(result)
        if result.note:
            echo(result.note, err=True)


def _print_text(result: CatalogTable) -> None:
    """As many columns as the terminal has room for, the first ones always, and the names of the others."""
    cells = [[_word(title, value) for title, value in zip(result.columns, row, strict=True)] for row in result.rows]
    columns = dict(zip(result.columns, zip(*result.rows, strict=True), strict=False))  # none where there is no row
    numbers = [title for title, values in columns.items() if all(map(_is_number, values))]
    blank = [title for title, values in columns.items() if not any(value not in {None, "", "-"} for value in values)]
    spare = [title for title in (*blank, *result.spare, *reversed(result.columns)) if title != result.columns[0]]
    flows = "" if result.columns[-1] in numbers else result.columns[-1]
    titles, shown, width = tables.chosen(
        result.columns, cells, spare=list(dict.fromkeys(spare)), width=tables.width_of(sys.stdout), flows=flows
    )
    echo(tables.table(titles, shown, width=width, flows=flows, numbers=numbers))
    missing = [title for title in result.columns if title not in titles]
    if missing:
        echo(f"not shown for want of room: {', '.join(missing)}; --csv and --json have all", err=True)


def _word(title: str, cell: object) -> str:
    """A cell for people: a price has three digits, `~` marks what is from memory, `?` what is not known."""
    mark, value = ("~", cell.value) if isinstance(cell, FromMemory) else ("", cell)
    if value is None:
        return "?"
    digits = ".3f" if title.startswith("USD") else "g"
    return mark + (f"{value:{digits}}" if isinstance(value, float) else str(value))


def _is_number(cell: object) -> bool:
    return isinstance(cell.value if isinstance(cell, FromMemory) else cell, int | float | None) or cell == ""


@command.command("gpus")
@_prints_table
def gpus() -> CatalogTable:
    """List the GPUs: cores, memory, bandwidth, dense peaks, clocks, power, NVENC."""
    return catalog.gpu_table()


@command.command("precision")
@_prints_table
def precision() -> CatalogTable:
    """Show for each generation which number formats its tensor cores take, and how fast its CUDA cores compute them."""
    return catalog.precision_table()


@command.command("instances")
@click.option("--gpu", metavar="MODEL", shell_complete=options.complete_models, help="Only types with this GPU.")
@click.option("--cloud", type=click.Choice(CLOUDS), help="Only types of this cloud.")
@click.option("--region", metavar="REGION", shell_complete=options.complete_regions, help="Only types that this region offers.")
@click.option("--max-price", type=click.FloatRange(min=0, min_open=True), metavar="USD", help="Only types that cost at most this an hour.")
@click.option("--sort", type=click.Choice(catalog.SORTS), default="name", show_default=True, help="What to sort by.")
@_prints_table
def instances(*, gpu: str | None, cloud: str | None, region: str | None, max_price: float | None, sort: str) -> CatalogTable:
    """List the instance types with GPUs, with prices and caveats."""
    if region is not None:
        options.check_word(region, search.regions(), "region")
    models = catalog.find_gpus(gpu) if gpu else []
    return catalog.instance_table(models, cloud=cloud, region=region, max_price=max_price, sort=sort)


@command.command("where")
@click.argument("instance_type", metavar="TYPE|GPU")
@click.option(
    "--gpu", metavar="MODEL", shell_complete=options.complete_models, help="The attached GPU, for a type that has none of its own."
)
@_formats
@click.pass_context
def where(ctx: click.Context, *, instance_type: str, gpu: str | None, as_json: bool, as_csv: bool) -> None:
    """List the regions and zones that offer an instance type, or each type with a GPU.

    If there are none, say why and exit with 1; if it is not known where they are, say where to look and exit with 3.
    """
    result = catalog.region_table(instance_type, gpu)
    if isinstance(result, CatalogTable):
        _print(result, as_json=as_json, as_csv=as_csv)
        return
    if as_json:
        options.print_json({"type": instance_type, "regions": {} if result.known else None, "why": result.reason})
    else:
        echo(result.reason)
    ctx.exit(1 if result.known else EXIT_UNKNOWN)


@command.command("systems")
@_prints_table
def systems() -> CatalogTable:
    """List the systems: with which images each cloud starts them, and which are not launched and why."""
    return system_table()


@command.command("stacks")
@click.option("--gpu", required=True, metavar="MODEL", shell_complete=options.complete_models, help="The GPU.")
@click.option("--os", "system", default="ubuntu 24.04", show_default=True, metavar="SYSTEM", help="The system, such as 'rocky 9'.")
@_prints_table
def stacks(*, gpu: str, system: str) -> CatalogTable:
    """List every toolkit and framework release for a GPU: what works with which driver, and what does not work and why."""
    return catalog.stack_table(catalog.find_gpus(gpu), system, dt.datetime.now(dt.UTC).date())


@command.command("roofline")
@click.argument("models", metavar="MODEL…", nargs=-1, shell_complete=options.complete_models)
@click.option("--precision", "precisions", multiple=True, metavar="KIND", help="Only this precision. May be repeated.  [default: all]")
@click.option("-o", "--output", metavar="FILE", help="Draw into an .svg or .png file.")
@click.option("--plot", is_flag=True, help="Draw into the terminal.")
@click.option(
    "--facts",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Add what was measured on a host, from `gpuprov probe --tier perf`. MODEL is then the host's GPU, if you leave it out.",
)
@_formats
def roofline(
    *,
    models: tuple[str, ...],
    precisions: tuple[str, ...],
    output: str | None,
    plot: bool,
    facts: Path | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Show how many operations per byte a kernel needs before arithmetic, not memory, limits it, for each precision."""
    view = catalog.roofline_of(models, precisions, catalog.measured_on(facts) if facts else None)
    if output:
        picture.draw(view.roofs, Path(output), view.points)
        echo(f"wrote {output}", err=True)
    _print(view.table, as_json=as_json, as_csv=as_csv)
    if plot:
        echo(picture.in_terminal(view.roofs, view.points), styled=True)


@command.command("refresh")
@click.option("--only", "parts", type=click.Choice(list(refreshes())), multiple=True, help="Refresh only this part. May be repeated.")
@click.option(
    "--region",
    "regions",
    multiple=True,
    metavar="REGION",
    shell_complete=options.complete_regions,
    help="Ask only this region. May be repeated.",
)
@click.option(
    "--set", "sets", multiple=True, metavar="NAME", help="Resolve only this wheel set, such as torch-2.10.0-cp312. May be repeated."
)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="NAME|FILE",
    shell_complete=options.complete_profiles,
    help="Read only the package repositories of this profile, its mirror included. May be repeated.",
)
@options.as_json
@click.pass_context
def refresh_command(
    ctx: click.Context, *, parts: tuple[str, ...], regions: tuple[str, ...], sets: tuple[str, ...], profiles: tuple[str, ...], as_json: bool
) -> None:
    """Ask the clouds, the package repositories and the package index for their current data, and use it instead of the shipped data.

    A part that does not answer keeps its old data. It is named, and the exit code is then 3.
    """
    from provision.workflow import refresh  # noqa: PLC0415 - loads the models of a profile, half the time of a table, which needs none

    for region in regions:
        options.check_word(region, search.regions(), "region")
    for name in sets:
        options.check_word(name, [wheel_set.name for wheel_set in wheels.all_sets()], "wheel set")
    with narration() as narrator:
        repositories = [refresh.repositories_named(name) for name in profiles]
        result = refresh.refresh(parts, regions, sets, access={}, say=narrator.say, repositories=repositories)
    if as_json:
        options.print_json({**asdict(result), "path": str(overlay.path())})
    else:
        echo(f"refreshed {', '.join(result.refreshed)}: {counted(len(result.changed), 'change')}, in {overlay.path()}")
        for line in result.changed:
            echo(f"  {line}")
    for line in result.failed:
        echo(f"not refreshed: {line}", err=True)
    ctx.exit(EXIT_UNKNOWN if result.failed else 0)


@command.command("age")
@options.as_json
def age(*, as_json: bool) -> None:
    """Show how old each part of the catalog is by the sources that it cites, the oldest first, and whether refreshed data is used."""
    parts, problem = catalog.ages(dt.datetime.now(dt.UTC).date()), overlay.problem()
    if as_json:
        options.print_json({"parts": [asdict(part) for part in parts], "overlay": str(overlay.path()), "problem": problem})
        return
    for part in parts:
        span = f"{part.date}" if part.date == part.newest else f"{part.date} to {part.newest}"
        days = "today" if part.days == 0 else f"{part.days} day{'s' * (part.days > 1)} ago" if part.days > 0 else "after today"
        renewed = f"`gpuprov catalog refresh --only {part.refresh}`" if part.refresh else "a newer gpuprov may have newer data"
        echo(f"{part.part}: {span}, {days} ({part.origin})" + (f"  warning: old; {renewed}" if part.old else ""))
    if problem:
        echo(f"warning: {overlay.path()} {problem}; the shipped data is used. `gpuprov catalog refresh` writes it again", err=True)
