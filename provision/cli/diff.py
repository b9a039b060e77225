"""`gpuprov diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from provision.cli import options


@click.command("diff")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@options.as_json
@click.pass_context
def command(ctx: click.Context, *, old: str, new: str, as_json: bool) -> None:
    """Compare two locks, value by value. Each is a lock file, or a profile, which stands for what would be locked now.

    Exits with 1 when they differ, as diff does.
    """
    from provision.profile import lockfile  # noqa: PLC0415 - heavy, and --help must be light

    lines = lockfile.changes(_lock(old), _lock(new))
    if as_json:
        options.print_json({"changes": lines})
    else:
        click.echo("\n".join(lines) if lines else "no difference")
    ctx.exit(1 if lines else 0)


def _lock(name: str) -> Any:
    from provision.profile import load, lockfile  # noqa: PLC0415
    from provision.profile.lock import build  # noqa: PLC0415

    if name.endswith((".lock.yml", ".lock.yaml")):
        return lockfile.read(Path(name))
    return build(load.load(load.find(name)), options.today())
