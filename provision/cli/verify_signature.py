"""`gpuprov verify-signature`."""

import datetime as dt
import shlex
from pathlib import Path

import click

from provision.cli import echo, options
from provision.review import sign
from provision.review.approval import rules_for
from provision.review.bundle import read
from provision.review.where import Organisation
from provision.structs import asdict


@click.command("verify-signature")
@click.argument("bundle", metavar="BUNDLE", type=click.Path(path_type=Path))
@options.organisation
@options.as_json
def command(*, bundle: Path, organisation: Organisation, as_json: bool) -> None:
    """Say who signed a review bundle, and until when. Fail unless as many people signed it as the rules demand.

    Without rules one signature is enough. Every digest of the bundle is checked first.
    """
    now, reviewed = dt.datetime.now(dt.UTC), read(bundle)
    rules = rules_for(organisation, reviewed)
    rule = rules.policy.signatures if rules else None
    signatures = sign.judge(reviewed, organisation, now, rule)
    required, counted = rule.required if rule else 1, sign.counted(signatures)
    if as_json:
        options.print_json(
            {
                "bundle": str(bundle),
                "statement": reviewed.digest,
                "profile": reviewed.statement.profile.model_dump(),
                "lock": reviewed.statement.lock.sha256,
                "required": required,
                "counted": counted,
                "signatures": [asdict(signature) for signature in signatures],
            }
        )
    else:
        echo(f"{bundle}: {reviewed.profile.name} sha256:{reviewed.digest}")
        for s in signatures:
            echo(f"  {s.outcome:<7} {s.principal}: " + (s.why or f"signed {s.signed_at}, until {s.expires}, with {s.key}"))
        echo(f"  {counted} of {required} signatures{'' if signatures else ': unsigned'}")
    sign.require(reviewed, organisation, now, rule)
    if not as_json:
        echo(f"next: `gpuprov up --bundle {shlex.quote(str(bundle))}` launches what was signed, and nothing else")
