"""`gpuprov sign`."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import click

from provision.cli import options


@click.command("sign")
@click.argument("bundle", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option("--key", required=True, metavar="FILE", type=click.Path(path_type=Path), help="A private key, or the .pub of an agent's.")
@click.option("--as", "principal", required=True, metavar="NAME", help="Your name as the allowed_signers file has it.")
@click.option("--days", type=click.IntRange(1, 3650), default=30, show_default=True, help="How long the approval counts.")
@click.option("--pages-differ", is_flag=True, help="Sign although the pages are not what this machine makes of the profile.")
@options.as_json
def command(*, bundle: Path, key: Path, principal: str, days: int, pages_differ: bool, as_json: bool) -> None:
    """Approve a review bundle with an SSH key.

    The signature is over the bundle's statement: profile, lock, rules and every page. ssh-keygen makes it, so that agents and hardware
    keys work. The pages are made again first: one that says something else than the profile is not signed.
    """
    from provision.errors import SignatureRefusedError  # noqa: PLC0415 - heavy, and --help must be light
    from provision.review import bundle as bundles  # noqa: PLC0415
    from provision.review import pages, sign  # noqa: PLC0415

    reviewed = bundles.read(bundle)
    differing = pages.differs(reviewed.profile, reviewed.lock, options.today())
    for line in differing:
        click.echo(f"not what this machine would lock today: {line}", err=True)
    unlike = pages.unlike(reviewed, differing)
    if unlike and not pages_differ:
        msg = f"{bundle}: {', '.join(unlike)} is not what this machine makes of the profile and lock in it"
        raise SignatureRefusedError(
            msg,
            hint="write the pages here with `gpuprov review` and read those; --pages-differ signs all the same",
        )
    approval = sign.sign(reviewed, key=key, principal=principal, days=days, now=dt.datetime.now(dt.UTC))
    if as_json:
        options.print_json({"bundle": str(bundle), **approval.model_dump(by_alias=True)})
        return
    click.echo(f"{bundle}: signed by {principal} until {approval.expires}")
    click.echo(f"  profile {reviewed.profile.name} sha256:{reviewed.statement.profile.sha256}")
    click.echo(f"  lock    sha256:{reviewed.statement.lock.sha256}")
    click.echo(f"  bundle  sha256:{reviewed.digest}")
