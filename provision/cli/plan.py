"""`gpuprov plan`."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import TYPE_CHECKING

import click

from provision.cli import options

if TYPE_CHECKING:
    from provision.launch.plan import Offer
    from provision.review.where import Organisation


@click.command("plan")
@options.required_profile
@click.option("--name", metavar="NAME", help="What the instance would be called; the profile's name by default.")
@click.option("--ask", is_flag=True, help="Ask the clouds about each place: enabled, offered, quota, image, a dry run. Makes nothing.")
@click.option("--rehearse", is_flag=True, help="With --ask: ask the embedded cloud.")
@options.organisation_rules
@options.as_json
def command(*, profile: str, name: str | None, ask: bool, rehearse: bool, organisation: Organisation, as_json: bool) -> None:
    """Show what `up` would make, where, at what price and with which permissions. Makes nothing, and without --ask asks nobody."""
    from provision.cli.progress import narrator  # noqa: PLC0415 - heavy, and --help must be light
    from provision.launch.journal import check_name  # noqa: PLC0415
    from provision.launch.ours import Ours  # noqa: PLC0415
    from provision.launch.plan import plan  # noqa: PLC0415
    from provision.profile import load, lockfile  # noqa: PLC0415
    from provision.review import approval  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    path = load.find(profile)
    asked = load.load(path)
    locked = lockfile.find_or_build(path, asked, options.today())
    loaded = approval.rules_for(organisation)
    broken = approval.violations(loaded, asked, locked, path.read_bytes(), dt.datetime.now(dt.UTC)) if loaded else []
    with narrator().speaking() as tell:
        ours = Ours(Session.open().connect(rehearsal=rehearse, start=True, say=tell.say), tell.say) if ask else None
        planned = plan(asked, load.digest(asked), check_name(name or asked.name), locked, ask=ours)
    if as_json:
        options.print_json({**planned.as_dict(), "violations": [dataclasses.asdict(violation) for violation in broken] if loaded else None})
        return
    click.echo(
        f"{planned.name}: {planned.purpose}\nowner: {planned.owner}\nprofile: {planned.profile} sha256:{planned.profile_digest[:16]}…\n"
    )
    click.echo(f"places, in this order (limit {planned.limit_per_hour_usd:.2f} USD an hour, ended after {planned.deadline_h} h):")
    for offer in planned.offers:
        _tell(offer)
    for title, lines in (
        ("no longer to be had", planned.gone),
        ("stack (sha256:" + planned.lock_digest[:16] + "…)", planned.stack),
        ("against advice", planned.warnings),
        ("not known", planned.unresolved),
        ("image", (planned.image,)),
        ("disks", planned.disks),
        ("reached", planned.reached),
        ("opens", planned.opens),
        ("secured", planned.secured),
        ("gives up", planned.gives_up),
        ("signatures needed", (str(loaded.policy.signatures.required),) if loaded and loaded.policy.signatures else ()),
        (f"against the rules {loaded.policy.name}: `up` will refuse" if loaded else "", [str(violation) for violation in broken]),
        *((f"permissions needed on {cloud}", needed) for cloud, needed in planned.permissions.items()),
    ):
        if lines:
            click.echo(f"{title}:\n" + "\n".join(f"  {line}" for line in lines))


def _tell(offer: Offer) -> None:
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
