"""`gpuprov lock`."""

import shlex
from pathlib import Path

import click

from provision.cli import echo, options
from provision.errors import LockInvalidError, LockStaleError, counted
from provision.paths import write_whole
from provision.profile import load, lockfile
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.own import as_in, from_file
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

    The lock is written beside the profile as NAME.lock.yml. It comes from the catalog, and no cloud is contacted; only a
    file of `stack.python` is resolved against the package index. `gpuprov explain`
    says why it is what it is.
    """
    source = load.find(profile)
    asked = load.load(source)
    path = Path(output) if output else lockfile.path_for(source)
    if check:
        lock = lockfile.read(path)
        # The index is not asked: whether its newest releases are others than those of the lock does not make the lock stale.
        _refuse_stale(lock, build(asked, today(), own=as_in(lock, source)), path, profile)
        if as_json:
            options.print_json({"path": str(path), "sha256": lock.digest})
        else:
            echo(f"{path}: valid (sha256:{lock.digest})")
        return
    fresh = build(asked, today(), own=from_file(asked, source))
    if output == "-" and not as_json:
        echo(lockfile.dump(fresh), nl=False)
        return
    changes = _write(path, fresh) if output != "-" else []
    if as_json:
        options.print_json({"path": str(path), "sha256": fresh.digest, "lock": fresh.as_dict()})
        return
    echo(f"{path}: sha256:{fresh.digest}")
    for line in changes:
        echo(f"  {line}")
    for title, lines in (("against advice", fresh.warnings), ("not known", fresh.unresolved)):
        for line in lines:
            echo(f"  {title}: {line}", err=True)


def _refuse_stale(lock: Lock, fresh: Lock, path: Path, name: str) -> None:
    """Refuse a lock that is not what would be locked today."""
    if differences := lockfile.stale(lock, fresh):
        msg = "\n  ".join([f"{path} is stale ({counted(len(differences), 'difference')})", *differences])
        raise LockStaleError(msg, hint=f"`gpuprov lock {shlex.quote(name)}` writes it again")


def _write(path: Path, fresh: Lock) -> list[str]:
    """Write the file, and return what changed in it: nothing where there was no lock that could be read."""
    try:
        changes = list(lockfile.changes(lockfile.read(path), fresh))
    except LockInvalidError:
        changes = []
    try:
        write = Path.write_text if path.exists() and not path.is_file() else write_whole  # such as /dev/stdout
        write(path.resolve(), lockfile.dump(fresh))
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}"
        raise LockInvalidError(msg, hint="name another file with --output") from error
    return changes
