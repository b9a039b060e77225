"""`gpuprov lock`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from provision.cli import options

if TYPE_CHECKING:
    from provision.profile.locked import Lock


@click.command("lock")
@click.argument("profile", metavar="NAME|FILE")
@click.option(
    "--check", is_flag=True, help="Write nothing; fail when the lock is missing, changed by hand, or would come out otherwise now."
)
@click.option("-o", "--output", metavar="FILE", help="Where to write; beside the profile by default, - for standard output.")
@options.as_json
def command(*, profile: str, check: bool, output: str | None, as_json: bool) -> None:
    """Resolve a profile into the exact stack that is signed, launched, set up and checked.

    The lock lies beside the profile as NAME.lock.yml. Asks nobody: the catalogue decides, and `gpuprov explain` says why.
    """
    from provision.errors import LockInvalidError, LockStaleError  # noqa: PLC0415 - heavy, and --help must be light
    from provision.profile import load, lockfile  # noqa: PLC0415
    from provision.profile.lock import build  # noqa: PLC0415

    path = load.find(profile)
    asked = load.load(path)
    target = Path(output) if output else lockfile.path_for(path)
    fresh = build(asked, options.today())
    if check:
        old = lockfile.read(target)
        differs = lockfile.stale(old, fresh)
        if differs:
            msg = "\n  ".join([f"{target} is stale ({len(differs)} differences)", *differs])
            raise LockStaleError(msg, hint=f"`gpuprov lock {profile}` writes it again")
        if as_json:
            options.print_json({"path": str(target), "sha256": old.digest})
        else:
            click.echo(f"{target}: holds (sha256:{old.digest})")
        return
    text = lockfile.dump(fresh)
    if output == "-":
        click.echo(text, nl=False)
        return
    before = _old(target)
    try:
        target.write_text(text)
    except OSError as error:
        msg = f"cannot write {target}: {error.strerror}"
        raise LockInvalidError(msg, hint="say where with --output") from error
    if as_json:
        options.print_json({"path": str(target), "sha256": fresh.digest, "lock": fresh.as_dict()})
        return
    click.echo(f"{target}: sha256:{fresh.digest}")
    for line in lockfile.changes(before, fresh) if before else ():
        click.echo(f"  {line}")
    for title, lines in (("against advice", fresh.warnings), ("not known", fresh.unresolved)):
        for line in lines:
            click.echo(f"  {title}: {line}", err=True)


def _old(target: Path) -> Lock | None:
    from provision.errors import LockInvalidError  # noqa: PLC0415
    from provision.profile import lockfile  # noqa: PLC0415

    try:
        return lockfile.read(target)
    except LockInvalidError:
        return None
