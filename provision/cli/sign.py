"""`gpuprov sign`."""

import shlex
from pathlib import Path

import click

from provision.cli import echo, options
from provision.review.bundle import read
from provision.workflow import audited
from provision.workflow.session import Session
from provision.workflow.sign import approve


@click.command("sign")
@click.argument("bundle", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option(
    "--key", required=True, metavar="FILE", type=click.Path(path_type=Path), help="A private key, or the .pub of a key in your agent."
)
@click.option("--as", "principal", required=True, metavar="NAME", help="Your name in the allowed_signers file.")
@click.option("--days", type=click.IntRange(1, 3650), default=30, metavar="N", help="How many days the approval counts.  [default: 30]")
@click.option("--pages-differ", is_flag=True, help="Sign even though the pages are not what this machine makes of the profile.")
@options.as_json
def command(*, bundle: Path, key: Path, principal: str, days: int, pages_differ: bool, as_json: bool) -> None:
    """Approve a review bundle with an SSH key.

    You sign the bundle's statement, which covers profile, lock, rules and every page. ssh-keygen makes the signature, so agents and
    hardware keys work. First the pages are made again from the profile: a bundle whose pages say something else is not signed.
    """
    reviewed = read(bundle)
    with audited.approving(Session.open(), reviewed, principal, days) as ending:
        approval = approve(
            reviewed, key=key, principal=principal, days=days, pages_differ=pages_differ, warn=lambda line: echo(line, err=True)
        )
        ending.results = {"until": approval.expires}
    statement = reviewed.statement
    options.show(
        {"bundle": str(bundle), **approval.model_dump(by_alias=True)},
        f"{bundle}: signed by {principal} until {approval.expires}",
        f"  profile {statement.profile.name} sha256:{statement.profile.sha256}",
        f"  lock    sha256:{statement.lock.sha256}",
        f"  bundle  sha256:{reviewed.digest}",
        f"next: `gpuprov verify-signature {shlex.quote(str(bundle))}` says whether that is enough",
        as_json=as_json,
    )
