"""`gpuprov policy`."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import TYPE_CHECKING

import click

from provision.cli import options

if TYPE_CHECKING:
    from provision.review.where import Organisation


@click.group("policy")
def command() -> None:
    """Check profiles against the organisation's rules."""


@command.command("check")
@click.argument("profile", metavar="NAME|FILE")
@options.organisation_rules
@options.as_json
@click.pass_context
def check(ctx: click.Context, *, profile: str, organisation: Organisation, as_json: bool) -> None:
    """Say whether a profile keeps the rules: every violation with its line. What is not known is a violation. Asks nobody."""
    from provision.errors import EXIT_USAGE, PolicyInvalidError  # noqa: PLC0415 - heavy, and --help must be light
    from provision.profile import load, lockfile  # noqa: PLC0415
    from provision.review import approval  # noqa: PLC0415

    loaded = approval.rules_for(organisation)
    if loaded is None:
        msg = "there are no rules to check against"
        raise PolicyInvalidError(msg, hint="name a file with --policy or GPUPROV_POLICY; `gpuprov policy schema` says what it may hold")
    path = load.find(profile)
    asked = load.load(path)
    lock = lockfile.find_or_build(path, asked, options.today())
    broken = approval.violations(loaded, asked, lock, path.read_bytes(), dt.datetime.now(dt.UTC))
    if as_json:
        options.print_json(
            {
                "policy": {"name": loaded.policy.name, "path": str(loaded.path), "sha256": loaded.sha256},
                "profile": {"name": asked.name, "path": str(path), "sha256": load.digest(asked)},
                "violations": [dataclasses.asdict(violation) for violation in broken],
            }
        )
    else:
        click.echo(f"{path}: keeps the rules {loaded.policy.name}" if not broken else f"{path}: breaks the rules {loaded.policy.name}")
        for violation in broken:
            click.echo(f"  {violation}")
    ctx.exit(EXIT_USAGE if broken else 0)


@command.command("schema")
def schema() -> None:
    """Print the JSON Schema of the rules, for editors."""
    from provision.review import policy as policies  # noqa: PLC0415

    options.print_json(policies.schema())
