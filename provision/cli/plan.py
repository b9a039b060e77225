"""`gpuprov plan`."""

from __future__ import annotations

import dataclasses
import datetime as dt

import click

from provision.cli import options
from provision.cli.progress import narrator
from provision.launch import ask as asking
from provision.launch.journal import check_name
from provision.launch.ours import Ours
from provision.launch.plan import plan
from provision.profile import load, lockfile
from provision.report.plan import as_dict, as_text
from provision.review import approval
from provision.review.where import Organisation
from provision.workflow.session import Session


@click.command("plan")
@options.required_profile
@click.option("--name", metavar="NAME", help="What the instance would be called; the profile's name by default.")
@click.option("--ask", is_flag=True, help="Ask the clouds about each place: enabled, offered, quota, image, a dry run. Makes nothing.")
@click.option("--rehearse", is_flag=True, help="With --ask: ask the embedded cloud.")
@options.organisation_rules
@options.as_json
def command(*, profile: str, name: str | None, ask: bool, rehearse: bool, organisation: Organisation, as_json: bool) -> None:
    """Show what `up` would make, where, at what price and with which permissions. No cloud is contacted unless --ask is given."""
    path = load.find(profile)
    source = load.load(path)
    lock = lockfile.find_or_build(path, source, options.today())
    rules = approval.rules_for(organisation)
    violations = approval.violations(rules, source, lock, path.read_bytes(), dt.datetime.now(dt.UTC)) if rules else []
    planned = plan(source, lock, check_name(name or source.name))
    answers = {}
    if ask:
        with narrator().speaking() as tell:
            answers = asking.answers(planned, Ours(Session.open().connect(rehearsal=rehearse, start=True, say=tell.say), tell.say))
    if as_json:
        broken = [dataclasses.asdict(violation) for violation in violations] if rules else None
        options.print_json({**as_dict(planned, answers), "violations": broken})
        return
    required = rules.policy.signatures.required if rules and rules.policy.signatures else None
    name_of_rules = rules.policy.name if rules else ""
    click.echo(as_text(planned, answers, signatures=required, rules=name_of_rules, violations=[str(violation) for violation in violations]))
