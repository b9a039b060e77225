"""`gpuprov verify-signature`."""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import click

from provision.cli import options

if TYPE_CHECKING:
    from provision.review.where import Organisation


@click.command("verify-signature")
@click.argument("bundle", metavar="BUNDLE", type=click.Path(path_type=Path))
@options.organisation
@options.as_json
def command(*, bundle: Path, organisation: Organisation, as_json: bool) -> None:
    """Say who signed a review bundle, and until when; fail unless as many have as the rules demand.

    Without rules one signature is enough. Every digest of the bundle is checked first.
    """
    from provision.review import approval, sign  # noqa: PLC0415 - heavy, and --help must be light
    from provision.review import bundle as bundles  # noqa: PLC0415

    now = dt.datetime.now(dt.UTC)
    reviewed = bundles.read(bundle)
    loaded = approval.rules_for(organisation, reviewed)
    rule = loaded.policy.signatures if loaded else None
    signatures = sign.judge(reviewed, organisation, now, rule)
    needed = rule.required if rule else 1
    if as_json:
        options.print_json(
            {
                "bundle": str(bundle),
                "statement": reviewed.digest,
                "profile": reviewed.statement.profile.model_dump(),
                "lock": reviewed.statement.lock.sha256,
                "required": needed,
                "counted": sign.counted(signatures),
                "signatures": [dataclasses.asdict(signature) for signature in signatures],
            }
        )
    else:
        click.echo(f"{bundle}: {reviewed.profile.name} sha256:{reviewed.digest}")
        for s in signatures:
            click.echo(f"  {s.outcome:<7} {s.principal}: " + (s.why or f"signed {s.signed_at}, until {s.expires}, with {s.key}"))
        click.echo(f"  {sign.counted(signatures)} of {needed} signatures")
    sign.require(reviewed, organisation, now, rule)
