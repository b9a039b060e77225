"""`gpuprov plan`."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import click

from provision.cli import echo, options
from provision.cli.progress import narration
from provision.clouds.base import Answer
from provision.errors import EXIT_FAILED_CHECK, EXIT_OK, EXIT_UNKNOWN, EXIT_USAGE
from provision.launch.journal import check_name
from provision.launch.place import check_any, check_has_places
from provision.launch.place import options as places
from provision.launch.plan import Plan, PlannedPlace, plan
from provision.profile import load
from provision.profile.exact import refuse_vanished
from provision.report.plan import Shown, as_dict, as_text
from provision.review.where import Organisation
from provision.structs import asdict
from provision.workflow.session import ProfileSource, Session

if TYPE_CHECKING:
    from provision.review.policy import PolicyFile
    from provision.review.rules import Violation


@click.command("plan")
@options.profile_to_plan
@click.option("--name", metavar="NAME", help="The name of the instance.  [default: the profile's name]")
@click.option("--ask", is_flag=True, help="Ask the clouds about each place: enabled, offered, quota, image, and a dry run.")
@click.option("--rehearse", is_flag=True, help="With --ask: ask the embedded cloud instead.")
@click.option("--prices", is_flag=True, help="Also show what each price is made of, and where it was read.")
@click.option("--permissions", is_flag=True, help="Also list what whoever launches must be allowed.")
@click.option("--calls", is_flag=True, help="Also list the calls that a launch makes, in their order.")
@options.cheapest
@options.organisation_rules
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    *,
    profile: str,
    name: str | None,
    ask: bool,
    rehearse: bool,
    prices: bool,
    permissions: bool,
    calls: bool,
    cheapest: bool,
    organisation: Organisation,
    as_json: bool,
) -> None:
    """Show whether a profile can be launched: where, at what price, and what it opens. Nothing is launched.

    No cloud is contacted unless --ask is given. The exit code is 2 if nothing can be launched, with the nearest edit that helps, or if
    a rule of --policy is violated. With --ask it is 1 if an answer is no, else 3 if an answer is missing.
    """
    source = ProfileSource.read(profile)
    check_has_places(source.profile)
    refuse_vanished(source.lock)
    rules, violations = _judged(organisation, source) if organisation.policy else (None, [])
    planned = plan(source.profile, source.lock, check_name(name or source.profile.name), load.lines(source.source), cheapest=cheapest)
    answers = _asked(planned, rehearsal=rehearse) if ask else None
    held = {answer.holds for each in (answers or {}).values() for answer in each}
    code = EXIT_USAGE if violations else EXIT_FAILED_CHECK if False in held else EXIT_UNKNOWN if None in held else EXIT_OK
    if as_json:
        data = [asdict(violation) for violation in violations] if rules else None
        ctx.obj["beside"] = {**as_dict(planned, source.path, answers), "violations": data}
        check_any(planned, places(planned))
        options.print_json(ctx.obj["beside"])
        ctx.exit(code)
    demand = rules.policy.signatures if rules else None
    shown = Shown(
        asked_as=profile,
        origin=load.origin(source.path),
        answers=answers,
        signatures=demand.required if demand else None,
        rules=rules.policy.name if rules else "",
        violations=tuple(str(violation) for violation in violations),
        prices=prices,
        permissions=permissions,
        calls=calls,
        width=options.width(),
    )
    echo(as_text(planned, shown))
    check_any(planned, places(planned))
    ctx.exit(code)


def _judged(organisation: Organisation, source: ProfileSource) -> tuple[PolicyFile | None, list[Violation]]:
    """The organisation's rules, and what breaks them."""
    from provision.review import approval  # noqa: PLC0415 - 20 ms, and most plans are under no rules

    rules, now = approval.rules_for(organisation), dt.datetime.now(dt.UTC)
    return rules, approval.violations(rules, source.profile, source.lock, source.source, now) if rules else []


def _asked(planned: Plan, *, rehearsal: bool) -> dict[PlannedPlace, tuple[Answer, ...]]:
    """What the clouds say of each place."""
    from provision.launch import ask, ours  # noqa: PLC0415 - what speaks with clouds takes its time, and most plans ask nobody

    with narration() as narrator:
        connect = Session.open().connect(rehearsal=rehearsal, start=True, say=narrator.say)
        return ask.ask_clouds(planned, ours.Ours(connect, narrator.say))
