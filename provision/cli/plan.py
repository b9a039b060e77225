"""`gpuprov plan`."""

from __future__ import annotations

import dataclasses

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.report.plan import as_dict, as_text
from provision.review.where import Organisation
from provision.workflow.plan import plan_profile


@click.command("plan")
@options.required_profile
@click.option("--name", metavar="NAME", help="The name of the instance.  [default: the profile's name]")
@click.option("--ask", is_flag=True, help="Ask the clouds about each place: enabled, offered, quota, image, and a dry run.")
@click.option("--rehearse", is_flag=True, help="With --ask: ask the embedded cloud instead.")
@options.organisation_rules
@options.as_json
def command(*, profile: str, name: str | None, ask: bool, rehearse: bool, organisation: Organisation, as_json: bool) -> None:
    """Show what `up` would do: the places, prices, permissions and doors. Nothing is launched.

    No cloud is contacted unless --ask is given.
    """
    with narration() as narrator:
        checked = plan_profile(profile, name, organisation, ask=ask, rehearsal=rehearse, say=narrator.say)
    policy = checked.policy
    if as_json:
        violations = [dataclasses.asdict(violation) for violation in policy.violations] if policy else None
        options.print_json({**as_dict(checked.plan, checked.answers), "violations": violations})
        return
    demand = policy.rules.policy.signatures if policy else None
    text = as_text(
        checked.plan,
        checked.answers,
        signatures=demand.required if demand else None,
        rules=policy.rules.policy.name if policy else "",
        violations=[str(violation) for violation in policy.violations] if policy else [],
    )
    click.echo(text)
