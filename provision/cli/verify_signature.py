"""`gpuprov verify-signature`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from provision.cli import options
from provision.review.where import Organisation
from provision.workflow.sign import check_signatures


@click.command("verify-signature")
@click.argument("bundle", metavar="BUNDLE", type=click.Path(path_type=Path))
@options.organisation
@options.as_json
def command(*, bundle: Path, organisation: Organisation, as_json: bool) -> None:
    """Say who signed a review bundle, and until when. Fail unless as many people signed it as the rules demand.

    Without rules one signature is enough. Every digest of the bundle is checked first.
    """
    check = check_signatures(bundle, organisation)
    reviewed = check.bundle
    if as_json:
        options.print_json(
            {
                "bundle": str(bundle),
                "statement": reviewed.digest,
                "profile": reviewed.statement.profile.model_dump(),
                "lock": reviewed.statement.lock.sha256,
                "required": check.required,
                "counted": check.counted,
                "signatures": [dataclasses.asdict(signature) for signature in check.signatures],
            }
        )
    else:
        click.echo(f"{bundle}: {reviewed.profile.name} sha256:{reviewed.digest}")
        for s in check.signatures:
            click.echo(f"  {s.outcome:<7} {s.principal}: " + (s.why or f"signed {s.signed_at}, until {s.expires}, with {s.key}"))
        click.echo(f"  {check.counted} of {check.required} signatures")
    check.require()
