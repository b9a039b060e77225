"""`gpuprov bench`."""

import json
import sys
from pathlib import Path

import click

from provision.cli import echo, options, tables
from provision.cli.progress import Narrator
from provision.errors import UsageError
from provision.report.base import inert
from provision.verify.bench.plan import RECIPES, chosen
from provision.watch.bench import page, report
from provision.watch.bench.report import COLUMNS, BenchReport
from provision.watch.bench.run import BenchMoment
from provision.workflow.bench import BenchRequest, bench
from provision.workflow.session import Session


@click.command("bench")
@click.argument("hosts", nargs=-1, metavar="HOST…", shell_complete=options.complete_instances)
@click.option(
    "--full", is_flag=True, help="All recipes with more precisions, sizes and a soak: 15 minutes at most.  [default: 2 minutes at most]"
)
@click.option("--quick", is_flag=True, help="The default.")
@click.option(
    "--only",
    "only_text",
    default="",
    metavar="RECIPE,…",
    shell_complete=options.completing("provision.verify.bench.plan", "RECIPES"),
    help=f"Only these: {', '.join(RECIPES)}.",
)
@click.option(
    "--python", "interpreter", default="", metavar="FILE", help="The python there that has PyTorch.  [default: the profile's, or gpuprov's]"
)
@click.option("--force", is_flag=True, help="Measure although a GPU is in use. Every figure is then unknown: busy.")
@click.option("--all", "every", is_flag=True, help="Print the figures that are not judged as well.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of --json, and end.")
@options.file_option("--html", text="Write a page with plots to this file.")
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    *,
    hosts: tuple[str, ...],
    full: bool,
    quick: bool,
    only_text: str,
    interpreter: str,
    force: bool,
    every: bool,
    schema: bool,
    html: Path | None,
    as_json: bool,
) -> None:
    """Benchmark the GPUs of each HOST (an instance's name, `localhost`, or anything ssh knows) and compare them with sourced figures.

    Nothing is installed there and no setting is changed. A GPU in use is not measured. The exit code is 1 if a figure is too
    low, 3 if one is unknown or a host was not measured.
    """
    if schema:
        echo(json.dumps(report.json_schema(), indent=1))
        return
    request = _request(hosts, full=full, quick=quick, only_text=only_text, interpreter=interpreter, force=force)
    narrator = Narrator()

    def told(host: str, moment: BenchMoment) -> None:
        gpus = "all GPUs" if len(moment.ranks) > 1 else f"GPU {moment.ranks[0]}" if moment.ranks else "no GPU"
        narrator.say(f"{host}: {moment.recipe} on {gpus}, about {moment.left_s:.0f} s left")

    result = bench(request, Session.open().measurements, told)
    narrator.pause()
    if html:
        options.write(html, page.render(result))
    echo(report.as_json(result) if as_json else _text(result, every=every))
    ctx.exit(result.exit_code)


def _request(hosts: tuple[str, ...], *, full: bool, quick: bool, only_text: str, interpreter: str, force: bool) -> BenchRequest:
    if not hosts:
        msg = "no host is named"
        raise UsageError(msg, hint="`gpuprov bench HOST…`; `localhost` is this machine")
    if full and quick:
        msg = "--quick and --full are two plans"
        raise UsageError(msg, hint="choose one of them")
    only = [word.strip() for word in only_text.split(",") if word.strip()]
    strange = [word for word in only if word not in RECIPES]
    if strange:
        msg = f"there is no recipe {strange[0]!a}"
        raise UsageError(msg, hint=f"--only takes {', '.join(RECIPES)}")
    session = Session.open()
    targets = tuple(session.target(host) for host in dict.fromkeys(hosts))
    own = (interpreter or f"{session.environments(host)[0]}/python" for host in dict.fromkeys(hosts))
    pythons = dict(zip((target.name for target in targets), own, strict=True))
    return BenchRequest(targets, chosen(full=full, only=only), "full" if full else "quick", pythons, force)


def _text(result: BenchReport, *, every: bool) -> str:
    parts = []
    for host in result.hosts:
        title = f"{host.host}: {report.tally(host) or 'nothing was measured'}; {host.seconds:.0f} s"
        shown = report.rows(host, every=every)
        lines = [title]
        if host.error:
            lines += [f"  {inert(host.error)}", *([f"  hint: {host.hint}"] if host.hint else [])]
        if shown:
            columns, cells, width = tables.chosen(
                COLUMNS, shown, spare=("REFERENCE", "SHARE"), width=tables.width_of(sys.stdout), flows="WHY"
            )
            lines.append(tables.table(columns, cells, width=width, flows="WHY"))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
