"""`gpuprov log`."""

import datetime as dt
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from provision.cli import echo, options, tables
from provision.errors import EXIT_FAILED_CHECK, EXIT_OK, counted
from provision.launch.chain import TORN, Entry
from provision.report.base import inert
from provision.workflow.session import Session

_TITLES: Final = ("LINE", "TIME", "WHO", "DID", "NAME", "APPROVED BY", "OUTCOME", "ID AT THE CLOUD")
_SPARE: Final = ("LINE", "ID AT THE CLOUD", "APPROVED BY")


@click.command("log")
@click.option("--name", metavar="NAME", help="Only what was done to the launch, host or bundle of this name.")
@click.option("--since", metavar="TIME", help="Only what is younger: 90m, 24h, or a day such as 2026-11-22.")
@click.option("--head", "kept", metavar="DIGEST", help="A head that was stored elsewhere. Fail if no line has it any more.")
@options.as_json
@click.pass_context
def command(ctx: click.Context, *, name: str | None, since: str | None, kept: str | None, as_json: bool) -> None:
    """Show who changed what on whose approval, with the ids of the calls in the clouds' own trails, and check the log.

    Each line has the SHA-256 of the one before it. The exit code is 1 if a line does not fit. A truncated
    end cannot be detected from the file: store the head (printed last) elsewhere, and name it with --head.
    """
    log = Session.open().audit
    reading = log.read()
    shown = _chosen(reading.entries, name, _start(since))
    problem = f"line {reading.line} does not fit: {reading.why}" if reading.line else ""
    if (
        not problem
        and kept is not None
        and kept.lower().removeprefix("sha256:") not in {reading.head, *(e["prev"] for e in reading.entries)}
    ):
        problem = "no line has the head that was kept: the end was cut off, or the log was rewritten"
    if as_json:
        holds = {"holds": not problem, **({"problem": problem} if problem else {}), **({"line": reading.line} if reading.line else {})}
        options.print_json({"entries": shown, "lines": len(reading.entries), "head": reading.head, **holds})
    else:
        echo(_table(shown) if shown else "nothing")
        echo(f"{counted(len(reading.entries), 'line')} in {log.path}, head sha256:{reading.head}")
        if problem:
            echo(f"the log is damaged: {problem}", err=True)
    ctx.exit(EXIT_FAILED_CHECK if problem else EXIT_OK)


def _start(since: str | None) -> dt.datetime | None:
    if since is None:
        return None
    try:
        return dt.datetime.combine(dt.date.fromisoformat(since), dt.time(), dt.UTC)
    except ValueError:
        return dt.datetime.now(dt.UTC) - dt.timedelta(seconds=options.seconds(since))


def _chosen(entries: Sequence[Entry], name: str | None, start: dt.datetime | None) -> list[Entry]:
    """The lines of the runs with that name, and those since that time. What closes a torn line is of no run, and always shown."""
    runs = {entry.get("run") for entry in entries if name is None or entry.get("name") == name or name in _launches(entry)}
    return [
        entry
        for entry in entries
        if entry.get("event") == TORN or (entry.get("run") in runs and (start is None or str(entry.get("at", "")) >= start.isoformat()))
    ]


def _launches(entry: Entry) -> Sequence[Any]:
    """The launches that a `sweep` removes from."""
    arguments = entry.get("arguments")
    launches = arguments.get("launches") if isinstance(arguments, dict) else None
    return launches if isinstance(launches, list) else ()


def _table(entries: Sequence[Entry]) -> str:
    cells = [tuple(inert(cell, 200) for cell in _cells(entry)) for entry in entries]
    titles, rows, width = tables.chosen(_TITLES, cells, spare=_SPARE, width=tables.width_of(sys.stdout), flows="DID")
    return tables.table(titles, rows, width=width, flows="DID")


def _cells(entry: Entry) -> tuple[str, ...]:
    event, at = str(entry.get("event", "")), str(entry.get("at", ""))[:19].replace("T", " ")
    who = f"{entry.get('user', '')}@{entry.get('client', '')}" if event != TORN else ""
    if entry.get("sudo_user"):
        who = f"{entry['sudo_user']} as {who}"
    did = {
        "intent": f"{'rehearses ' if entry.get('rehearsal') else ''}{entry.get('command', '')}",
        "call": f"  {entry.get('call', '')} in {entry.get('where', '')}",
        "outcome": "  ended",
        TORN: "a line was torn: its writer was killed",
    }.get(event, event)
    outcome = {"call": str(entry.get("answer", "")), "outcome": f"{entry.get('exit', '')} {entry.get('error', '')}".strip()}.get(event, "")
    trail = " ".join(str(entry[key]) for key in ("request_id", "operation") if entry.get(key))
    return str(entry["seq"]), at, who, did, str(entry.get("name", "")), _approval(entry), outcome, trail


def _approval(entry: Entry) -> str:
    """The signers of an intent, and what their signatures were worth where that was less than `valid`."""
    given = entry.get("approvals")
    signers = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    worth = {str(one.get("name")): str(one.get("signature")) for one in signers}
    return ", ".join(name if signature in {"valid", "holds"} else f"{name} ({signature})" for name, signature in worth.items())
