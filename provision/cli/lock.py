"""`gpuprov lock`."""

from __future__ import annotations

from pathlib import Path

import click

from provision.cli import options
from provision.profile import load, lockfile
from provision.profile.lock import build
from provision.workflow.lock import check_lock, write_lock
from provision.workflow.session import today


@click.command("lock")
@click.argument("profile", metavar="NAME|FILE")
@click.option(
    "--check", is_flag=True, help="Write nothing. Fail if the lock is missing, was edited by hand, or would come out differently today."
)
@click.option("-o", "--output", metavar="FILE", help="The file to write, or - for standard output.  [default: beside the profile]")
@options.as_json
def command(*, profile: str, check: bool, output: str | None, as_json: bool) -> None:
    """Resolve a profile into the exact stack that is signed, launched, set up and checked.

    The lock is written beside the profile as NAME.lock.yml. It comes from the catalog alone, and no cloud is contacted. `gpuprov explain`
    says why it is what it is.
    """
    source = load.find(profile)
    fresh = build(load.load(source), today())
    path = Path(output) if output else lockfile.path_for(source)
    if check:
        lock = check_lock(path, fresh, profile)
        if as_json:
            options.print_json({"path": str(path), "sha256": lock.digest})
        else:
            click.echo(f"{path}: holds (sha256:{lock.digest})")
        return
    if output == "-":
        click.echo(lockfile.dump(fresh), nl=False)
        return
    changes = write_lock(path, fresh)
    if as_json:
        options.print_json({"path": str(path), "sha256": fresh.digest, "lock": fresh.as_dict()})
        return
    click.echo(f"{path}: sha256:{fresh.digest}")
    for line in changes:
        click.echo(f"  {line}")
    for title, lines in (("against advice", fresh.warnings), ("not known", fresh.unresolved)):
        for line in lines:
            click.echo(f"  {title}: {line}", err=True)
