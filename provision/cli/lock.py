"""`gpuprov lock`."""

from __future__ import annotations

from pathlib import Path

import click

from provision.cli import options
from provision.profile import lockfile
from provision.workflow.lock import check_lock, resolve_lock, write_lock


@click.command("lock")
@click.argument("profile", metavar="NAME|FILE")
@click.option(
    "--check", is_flag=True, help="Write nothing. Fail if the lock is missing, was edited by hand, or would come out differently today."
)
@click.option("-o", "--output", metavar="FILE", help="The file to write, or - for standard output.  [default: beside the profile]")
@options.as_json
def command(*, profile: str, check: bool, output: str | None, as_json: bool) -> None:
    """Resolve a profile into the exact stack that is signed, launched, set up and checked.

    The lock is written beside the profile as NAME.lock.yml. It comes from the catalogue alone, and no cloud is contacted. `gpuprov explain`
    says why it is what it is.
    """
    fresh = resolve_lock(profile, Path(output) if output else None)
    if check:
        lock = check_lock(fresh)
        if as_json:
            options.print_json({"path": str(fresh.path), "sha256": lock.digest})
        else:
            click.echo(f"{fresh.path}: holds (sha256:{lock.digest})")
        return
    if output == "-":
        click.echo(lockfile.dump(fresh.lock), nl=False)
        return
    changes = write_lock(fresh)
    if as_json:
        options.print_json({"path": str(fresh.path), "sha256": fresh.lock.digest, "lock": fresh.lock.as_dict()})
        return
    click.echo(f"{fresh.path}: sha256:{fresh.lock.digest}")
    for line in changes:
        click.echo(f"  {line}")
    for title, lines in (("against advice", fresh.lock.warnings), ("not known", fresh.lock.unresolved)):
        for line in lines:
            click.echo(f"  {title}: {line}", err=True)
