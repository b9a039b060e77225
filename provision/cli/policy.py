"""`gpuprov policy`."""

import datetime as dt

import click

from provision.cli import echo, options
from provision.errors import EXIT_USAGE, PolicyInvalidError
from provision.profile.load import digest
from provision.review import approval, policy
from provision.review.where import Organisation
from provision.structs import asdict
from provision.workflow.session import ProfileSource


@click.group("policy")
def command() -> None:
    """Check profiles against the organisation's rules."""


@command.command("check")
@click.argument("profile", metavar="NAME|FILE")
@options.organisation_rules
@options.as_json
@click.pass_context
def check(ctx: click.Context, *, profile: str, organisation: Organisation, as_json: bool) -> None:
    """Say whether a profile follows the rules, and list every violation with its line.

    What cannot be decided counts as a violation. No cloud is contacted.
    """
    subject = ProfileSource.read(profile)
    rules = approval.rules_for(organisation)
    if rules is None:
        msg = "there are no rules to check against"
        raise PolicyInvalidError(msg, hint="name a file with --policy or GPUPROV_POLICY; `gpuprov policy schema` describes every rule")
    violations = approval.violations(rules, subject.profile, subject.lock, subject.source, dt.datetime.now(dt.UTC))
    if as_json:
        options.print_json(
            {
                "policy": {"name": rules.policy.name, "path": str(rules.path), "sha256": rules.sha256},
                "profile": {"name": subject.profile.name, "path": str(subject.path), "sha256": digest(subject.profile)},
                "violations": [asdict(violation) for violation in violations],
            }
        )
    else:
        echo(f"{subject.path}: {'violates' if violations else 'follows'} the rules {rules.policy.name}")
        for violation in violations:
            echo(f"  {violation}")
    ctx.exit(EXIT_USAGE if violations else 0)


@command.command("schema")
def schema() -> None:
    """Print the JSON Schema of the rules, for editors."""
    options.print_json(policy.schema())
