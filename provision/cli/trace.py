"""`gpuprov trace`."""

from __future__ import annotations

from pathlib import Path

import click

from provision.cli import echo, options, traced
from provision.errors import EXIT_OK, EXIT_UNKNOWN, UsageError, counted
from provision.paths import text_of
from provision.report.base import inert
from provision.watch.trace import compare, evidence, ncu, page
from provision.watch.trace.document import TraceDocument, json_schema, plain, to_json
from provision.watch.trace.model import Cut, Trace
from provision.watch.trace.read import is_report, read
from provision.watch.trace.remote import TraceOptions, remarks
from provision.workflow import trace
from provision.workflow.session import Session

_FILE = click.Path(dir_okay=False, path_type=Path)
_MOST_TABLE = 64 << 20
_READS = "Explain this trace: .sqlite of nsys, or JSON of torch.profiler (.gz too)."


@click.command("trace")
@options.host_argument(required=False)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND…]")
@click.option("--read", "read_from", type=_FILE, metavar="FILE", help=_READS)
@click.option("--compare", "compared", nargs=2, type=_FILE, metavar="BEFORE AFTER", help="Say what got better between two traces.")
@click.option("--delay", default="0", metavar="TIME", help="Let the program run this long first.")
@click.option("--duration", default="30s", show_default=True, metavar="TIME", help="End the program after this much of trace; 0: never.")
@click.option("--capture", default="", metavar="NAME", help="Trace this NVTX range alone, or what `cudaProfilerApi` starts.")
@click.option("--graph-nodes", is_flag=True, help="Show the kernels inside CUDA graphs one by one, which costs time.")
@click.option(
    "--ncu", "kernel", default="", metavar="KERNEL", help="Measure one kernel of this name (a regular expression) with ncu instead."
)
@click.option("--save", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER", help="Where the trace is kept here.")
@click.option("--stop", is_flag=True, help="End the trace that runs on HOST, and remove what it left.")
@click.option("--range", "range_name", default="", metavar="NAME", help="Look at the first range of this name alone.")
@click.option("--step", default="", metavar="NAME", help="The range that is one step.  [default: the one that repeats and covers most]")
@click.option("--html", type=_FILE, metavar="FILE", help="Also write it as a page with a timeline.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of --json, and end.")
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    *,
    host: str | None,
    words: tuple[str, ...],
    read_from: Path | None,
    compared: tuple[Path, Path] | None,
    delay: str,
    duration: str,
    capture: str,
    graph_nodes: bool,
    kernel: str,
    save: Path | None,
    stop: bool,
    range_name: str,
    step: str,
    html: Path | None,
    schema: bool,
    as_json: bool,
) -> None:
    """Run COMMAND on HOST under a profiler, and say why it is slow: in words, with the evidence and what to do.

    Without COMMAND: fetch the trace that runs there, or say what prevents one. A lost connection loses nothing. The exit code
    is 3 where the trace does not say it.
    """
    if schema:
        options.print_json(json_schema())
        return
    if sum((read_from is not None, compared is not None, stop, bool(words))) > 1:
        msg = "a command, --read, --compare and --stop do different things"
        raise UsageError(msg, hint="give one of them")
    if read_from is None and compared is None and host is None:
        msg = "give a HOST, --read FILE or --compare BEFORE AFTER"
        raise UsageError(msg, hint="`gpuprov trace HOST -- python train.py` traces a program there")
    files = [read_from] if read_from else list(compared or ())
    if host is not None and not files:
        asked = TraceOptions(options.seconds(delay), options.seconds(duration), capture, graph_nodes, kernel)
        if stop:
            _stop(host)
            return
        found = _on_host(host, words, asked, save)
        if found is None:
            return
        files = [found]
    if files[0].name == "ncu.csv":
        _show_kernels(files[0], as_json=as_json)
        return
    ctx.exit(_explain(host, files, Cut(range_name), step, html, ran=not (read_from or compared), as_json=as_json))


def _stop(host: str) -> None:
    """End what runs there."""
    target = Session.open().target(host)
    folders = trace.look(target).folders
    for folder in folders:
        trace.end(target, folder)
    echo(f"ended and removed {counted(len(folders), 'trace')} on {target.name}" if folders else f"there is no trace on {target.name}")


def _on_host(host: str, words: tuple[str, ...], asked: TraceOptions, save: Path | None) -> Path | None:
    """Trace there; returns the file to explain, or None where nothing was to be traced."""
    target = (session := Session.open()).target(host)
    there = trace.look(target)
    shown = remarks(there, target.name)
    if not words and not there.folders:
        for each in shown:
            echo(f"{'-' if each.fix else '+'} {inert(each.text)}" + (f": {inert(each.fix)}" if each.fix else ""))
        return None
    if words:
        for each in shown if not there.folders else ():
            if each.fix:
                echo(f"! {inert(each.text)}: {inert(each.fix)}", err=True)
        folder = trace.begin(target, there, words, asked, session.in_environment(host))
        echo(f"it runs on {target.name} in {inert(folder)}, whatever happens to this connection", err=True)
    else:
        folder = there.folders[0]
        echo(f"going on with the trace in {inert(folder)} of {target.name}", err=True)
    ended = trace.wait(target, folder, lambda text: echo(inert(text), err=True))
    fetched = trace.fetch(target, folder, ended, save)
    echo(f"the trace is in {fetched.folder}", err=True)
    if fetched.status:
        echo(f"the program ended with {fetched.status}{f': {inert(fetched.last)}' if fetched.last else ''}", err=True)
    return fetched.files[0]


def _explain(host: str | None, files: list[Path], cut: Cut, step: str, html: Path | None, *, ran: bool, as_json: bool) -> int:
    """Read traces and print what they say; returns the exit code."""
    if host is not None:
        target = Session.open().target(host)
        files = [trace.exported(target, file) if is_report(file) else file for file in files]
    parts = [_explained(file, cut, step, ran=ran) for file in files]
    both = compare.compare(parts[0][0], parts[1][0]) if len(parts) > 1 else None
    if html:
        options.write(html, page.render(parts, both.said if both else ()))
    if as_json:
        echo(to_json(both or parts[0][0]))
    else:
        echo("\n".join(traced.compared(both) if both else traced.told(parts[0][0])))
    return EXIT_UNKNOWN if any(document.label == "unknown" for document, _ in parts) else EXIT_OK


def _explained(file: Path, cut: Cut, step: str, *, ran: bool) -> tuple[TraceDocument, Trace]:
    found = read(file, cut)
    return evidence.document(found, str(file), step, ran=ran), found


def _show_kernels(file: Path, *, as_json: bool) -> None:
    found = ncu.measures(text_of(file, _MOST_TABLE, errors="replace").splitlines(), str(file))
    lines = [line for each in found for line in traced.measured(each)]
    options.show(plain(found), *lines, as_json=as_json)
