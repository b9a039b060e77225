"""`gpuprov plan`."""

from __future__ import annotations

import dataclasses

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.launch.plan import Offer
from provision.review.where import Organisation
from provision.workflow.plan import CheckedPlan, plan_profile


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
    if as_json:
        violations = [dataclasses.asdict(violation) for violation in checked.policy.violations] if checked.policy else None
        options.print_json({**checked.plan.as_dict(), "violations": violations})
    else:
        _print(checked)


def _print(checked: CheckedPlan) -> None:
    plan, policy = checked.plan, checked.policy
    click.echo(f"{plan.name}: {plan.purpose}\nowner: {plan.owner}\nprofile: {plan.profile} sha256:{plan.profile_digest[:16]}…\n")
    click.echo(f"places, in this order (limit {plan.limit_per_hour_usd:.2f} USD an hour, ended after {plan.deadline_h} h):")
    for offer in plan.offers:
        _print_offer(offer)
    demand = policy.rules.policy.signatures if policy else None
    for title, lines in (
        ("no longer offered", plan.gone),
        ("stack (sha256:" + plan.lock_digest[:16] + "…)", plan.stack),
        ("against advice", plan.warnings),
        ("not known", plan.unresolved),
        ("image", (plan.image,)),
        ("disks", plan.disks),
        ("reached", plan.reached),
        ("opens", plan.opens),
        ("secured", plan.secured),
        ("gives up", plan.gives_up),
        ("signatures needed", (str(demand.required),) if demand else ()),
        (f"against the rules {policy.rules.policy.name}: `up` will refuse" if policy else "", policy.violations if policy else ()),
        *((f"permissions needed on {cloud}", permissions) for cloud, permissions in plan.permissions.items()),
    ):
        if lines:
            click.echo(f"{title}:\n" + "\n".join(f"  {line}" for line in lines))


def _print_offer(offer: Offer) -> None:
    price = f"{offer.price_per_hour_usd:.3f} USD/h" if offer.price_per_hour_usd is not None else "price unknown"
    if offer.price_to_deadline_usd is not None:
        price += f", {offer.price_to_deadline_usd:.2f} USD to the deadline"
    enabled = ", opt-in region: must be enabled in the account once" if offer.opt_in else ""
    click.echo(f"  {offer.cloud} {offer.zone or offer.region} {offer.instance_type} ({offer.market}{enabled}): {offer.note or price}")
    if not offer.note:
        click.echo(f"      {offer.price_note}")
    elif offer.elsewhere:
        click.echo(f"      it is in {', '.join(offer.elsewhere)}")
    for answer in offer.answers:
        mark = {True: "yes", False: "NO", None: "unknown"}[answer.holds]
        click.echo(f"      {answer.about}: {mark}: {answer.said}")
