"""`gpuprov monitor`."""

import contextlib
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from provision.cli import echo, options, tables
from provision.cli.screen import Screen, table
from provision.errors import EXIT_OK, EXIT_UNKNOWN, UsageError
from provision.watch import page, recording, rows
from provision.watch.idle import IdleVerdict, Occupation
from provision.watch.run import replay
from provision.watch.sample import Sample
from provision.watch.state import Watched
from provision.watch.stream import Lost
from provision.workflow.monitor import Listener, MonitorRequest, hosts_of, run
from provision.workflow.session import Session

_LOOK_S: Final = 0.05
_ADDRESS: Final = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:]+\]|[0-9.]+|localhost):)?(?P<port>[0-9]{1,5})")


@click.command("monitor")
@click.argument("hosts", nargs=-1, metavar="[HOST]…")
@click.option("-p", "--profile", default="", metavar="NAME", help="Watch the machines that were launched from this profile.")
@click.option("--interval", "interval_s", type=click.FloatRange(0.5, 3600), default=2.0, metavar="S", help="Between samples.  [default: 2]")
@click.option("--once", is_flag=True, help="Print one table and end.")
@click.option("--for", "for_text", default="", metavar="TIME", help="End after this long, such as 90s or 10m.")
@click.option("--until", type=click.Choice(["idle"]), help="End when every host has been idle for --idle-for. Missing data counts as busy.")
@click.option("--idle-for", default="15m", metavar="TIME", show_default=True, help="How long nothing must have happened, for --until idle.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a row for each GPU and sample.")
@click.option("--record", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write all samples to this new file.")
@click.option("--replay", "replayed", type=click.Path(path_type=Path), metavar="FILE", help="Show a recording instead of hosts.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="With --replay: write its report as a page.")
@click.option("--prometheus", default="", metavar="[ADDRESS:]PORT", help="Serve the samples to Prometheus, on loopback by default.")
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    *,
    hosts: tuple[str, ...],
    profile: str,
    interval_s: float,
    once: bool,
    for_text: str,
    until: str | None,
    idle_for: str,
    as_csv: bool,
    record: Path | None,
    replayed: Path | None,
    html: Path | None,
    prometheus: str,
    as_json: bool,
) -> None:
    """Watch the GPUs of each HOST: an instance's name, `localhost`, or anything ssh knows. Without HOST: of all that you launched.

    Nothing is installed there: one connection carries one process, which ends with it. The exit code is 3 if a host did not answer, or is
    not idle in the end.
    """
    if html and not replayed:
        msg = "--html needs a recording"
        raise UsageError(msg, hint="record with --record FILE, then `gpuprov monitor --replay FILE --html PAGE`")
    if as_csv and as_json:
        msg = "--csv and --json are two forms of the same"
        raise UsageError(msg, hint="choose one of them")
    if replayed:
        ctx.exit(_replay(replayed, html, as_csv=as_csv, as_json=as_json))
    request = MonitorRequest(
        hosts_of(Session.open(), hosts, profile=profile),
        interval_s=1.0 if once else interval_s,
        once=once,
        for_s=options.seconds(for_text) if for_text else None,
        idle_s=options.seconds(idle_for) if until else None,
        prometheus=_address(prometheus) if prometheus else None,
    )
    ctx.exit(_watch(request, record, as_csv=as_csv, as_json=as_json))


def _watch(request: MonitorRequest, record: Path | None, *, as_csv: bool, as_json: bool) -> int:
    watched = Watched(request.hosts, request.interval_s)
    listeners: list[Listener] = []
    printed = as_csv or as_json or request.once or not sys.stdout.isatty()
    with contextlib.ExitStack() as stack:
        if record:
            listeners.append(stack.enter_context(_recorder(record, request)).take)
        if as_csv or as_json:
            listeners.append(_printer(watched, as_csv=as_csv))
        if printed:
            result = run(request, watched, listeners, lambda: False)
        else:
            screen = stack.enter_context(Screen(watched))
            result = run(request, watched, listeners, screen.refresh)
    if not (as_csv or as_json) and (request.once or printed):
        echo(_table(watched, time.time()))
    for name, verdict in result.idle.items():
        echo(f"{name}: {_occupation(verdict)}", err=True)
    return result.exit_code


def _occupation(verdict: IdleVerdict) -> str:
    """A verdict of `--until idle` in words."""
    if verdict.occupation is Occupation.PARKED:
        holders = ", ".join(f"{user or '?'} {pid}" for user, pid in verdict.holders)
        return f"parked: nothing runs, and memory is held by {holders}"
    return f"busy ({', '.join(verdict.signs)})" if verdict.signs else verdict.occupation


@contextlib.contextmanager
def _recorder(path: Path, request: MonitorRequest) -> Iterator[recording.Recorder]:
    try:
        out = path.open("x", encoding="utf-8")
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}"
        raise UsageError(msg, hint="--record writes a new file, in a folder that exists") from error
    with out:
        yield recording.Recorder(out, request.hosts, request.interval_s)


def _printer(watched: Watched, *, as_csv: bool) -> Listener:
    """Prints what comes, a line each."""
    if as_csv:
        echo(rows.csv_head())

    def take(name: str, item: Sample | Lost, now: float) -> None:
        if not as_csv:
            echo(json.dumps(rows.as_json(name, item, watched.hosts[name].between, now)))
        elif isinstance(item, Sample):
            for row in rows.csv_rows(name, item, now):
                echo(row)

    return take


def _replay(path: Path, html: Path | None, *, as_csv: bool, as_json: bool) -> int:
    recorded = recording.read(path)
    watched = Watched(recorded.hosts, recorded.interval_s)
    printer = _printer(watched, as_csv=as_csv) if as_csv or as_json else None

    def take(name: str, item: Sample | Lost, now: float) -> None:
        watched.take(name, item, now)
        if printer:
            printer(name, item, now)

    last = replay(recorded, take)
    if recorded.cut:
        echo("the last line of the recording is cut off, and left out", err=True)
    if html:
        options.write(html, page.render(recorded))
    if printer is None and html is None and sys.stdin.isatty() and sys.stdout.isatty():
        with Screen(watched, lambda: last, " of a recording") as screen:
            while not screen.refresh():
                time.sleep(_LOOK_S)
    elif printer is None:
        echo(_table(watched, last))
    return EXIT_UNKNOWN if any(state.sample is None for state in watched.hosts.values()) else EXIT_OK


def _table(watched: Watched, now: float) -> str:
    """The GPUs as a table for this terminal, and below it what happened."""
    happened = [f"{notice.host}: {rows.notice_line(notice)}" for notice in watched.notices]
    return "\n".join([*table(rows.rows(watched, now), tables.width_of(sys.stdout)), *happened])


def _address(text: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 <= int(match["port"]) <= 65535:  # noqa: PLR2004 - the last port
        msg = f"{text!a} is not an address and port"
        raise UsageError(msg, hint="write a port, such as 9400, or an address of this machine and a port, such as 10.0.0.5:9400")
    return (match["host"] or "127.0.0.1").strip("[]"), int(match["port"])
