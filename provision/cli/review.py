"""`gpuprov review`."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from provision.cli import echo, options
from provision.cli.progress import narration
from provision.errors import UsageError, counted
from provision.report.base import inert
from provision.review import markdown, page
from provision.review.against import SIGNS, Shift, by_subject, legend
from provision.review.tree import Review
from provision.review.where import Organisation
from provision.workflow.review import review_profile
from provision.workflow.session import Session

_COLOURS = {"high": "red", "medium": "yellow", "low": "blue", "note": None}
_SHIFT_COLOURS = {"wider": "yellow", "narrower": "green", "other": None}


@click.command("review")
@click.argument("profile", metavar="NAME|FILE")
@click.option(
    "-o",
    "--output",
    metavar="BUNDLE",
    type=click.Path(path_type=Path),
    help="The folder, or the file ending in .zip, to write.  [default: NAME.bundle]",
)
@click.option(
    "--against", metavar="OLD", help="Show only what changed since OLD: a bundle, a lock or a profile. Nothing is written without -o."
)
@click.option("--format", "form", type=click.Choice(["text", "markdown", "html"]), default="text", help="With --against: what to print.")
@click.option("--ask", is_flag=True, help="Ask the clouds what the machines may do there (`identity`), and grade it.")
@click.option("--rehearse", is_flag=True, help="With --ask: ask the embedded cloud instead.")
@options.organisation_rules
@options.as_json
def command(
    *,
    profile: str,
    output: Path | None,
    against: str | None,
    form: str,
    ask: bool,
    rehearse: bool,
    organisation: Organisation,
    as_json: bool,
) -> None:
    """Write the bundle on which others decide about a profile: pages, data, the profile and its lock.

    No cloud is contacted unless --ask is given. What the clouds said is part of the bundle then, with its date.

    The page shows the risks first, then what will exist, its price, who can reach it, what is installed and changed, and what will be
    proven. The same input gives the same bytes on the same day. A violation of the organisation's rules is a high risk here, not an error.
    """
    if rehearse and not ask:
        msg = "--rehearse goes with --ask"
        raise UsageError(msg, hint="add --ask, or leave --rehearse out")
    with narration() as narrator:
        connect = Session.open().connect(rehearsal=rehearse, start=True, say=narrator.say) if ask else None
        result = review_profile(profile, output, against, organisation, connect, say=narrator.say)
    if as_json:
        data: dict[str, Any] = {"bundle": str(result.bundle) if result.bundle else None, "sha256": result.digest}
        changes = result.changes
        data |= {"review": result.review.as_dict()} if changes is None else {"changes": [shift.as_dict() for shift in changes]}
        options.print_json(data)
        return
    if result.changes is None:
        _show(result.review)
    elif form == "text":
        _show_changes(against or "", result.changes)
    else:
        write = page.changes if form == "html" else markdown.changes
        echo(write(f"{result.review.profile}: what changed since {against}", result.changes))
    if result.bundle is not None:
        bundle = shlex.quote(str(result.bundle))
        echo(f"\n{result.bundle}: sha256:{result.digest}")
        echo(f"next: read review.html in it, then `gpuprov sign {bundle} --key FILE --as NAME`")


def _show(review: Review) -> None:
    """The summary on a terminal: what is to be decided, and each risk with its line."""

    def plain(text: str) -> str:
        return inert(text.replace("\n", " "), 2_000)

    echo(f"{plain(review.sentence)}\n{plain(review.purpose)}\nowner: {plain(review.owner)} <{plain(review.owner_email)}>\n")
    for risk in review.risks:
        click.secho(f"{risk.severity:<7}", fg=_COLOURS[risk.severity], bold=risk.severity == "high", nl=False)
        line = f"line {risk.line}" if risk.line else ""
        echo(f"{line:<9}{plain(risk.title)}")
        if risk.severity in {"high", "medium"}:
            echo(f"{'':<16}{plain(risk.reason)}")
            if risk.narrower:
                echo(f"{'':<16}reduce it by: {plain(risk.narrower)}")
    money = review.money
    hourly = f"{money.highest_usd_per_hour:.3f} USD" if money.highest_usd_per_hour is not None else "not known"
    echo(f"\nprice: {hourly} an hour, limit {money.limit_usd_per_hour:.2f} USD for {money.deadline_h} h")
    if review.fleet is not None:
        fleet = review.fleet
        size = f"at most {counted(fleet.largest, 'member')}" if fleet.largest else "any number of members"
        cost = f"{fleet.usd_to_deadline:.2f} USD for all" if fleet.usd_to_deadline is not None else "at a price that is not known"
        words = fleet.refusal or f"{size} of {fleet.machine} in {fleet.region}, {cost}; evidence in {fleet.store}"
        echo(f"fleet: {plain(words)}")
    echo(f"opens: {', '.join(plain(f'{d.port} from {d.network}') for d in review.doors if d.direction == 'in') or 'nothing'}")
    wheels = sum(len(e.wheels) for e in review.environments)
    software = f"{counted(len(review.packages), 'package')} and {counted(wheels, 'wheel')}"
    echo(f"installs: {software}; {counted(len(review.changes), 'declared change')} on the host")
    echo(f"proves: {counted(sum(c.applies for c in review.controls), 'check')} at tier {review.tier}")


def _show_changes(old: str, changes: Sequence[Shift]) -> None:
    for subject, shifts in by_subject(changes).items():
        echo(f"{subject}:")
        for shift in shifts:
            click.secho(f"  {SIGNS[shift.direction]} {inert(shift.text, 2_000)}", fg=_SHIFT_COLOURS[shift.direction])
            if shift.means:
                echo(f"      {inert(shift.means, 2_000)}")
    echo(f"{legend(changes)} since {old}")
