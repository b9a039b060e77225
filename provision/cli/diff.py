"""`gpuprov diff`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from provision.cli import options

if TYPE_CHECKING:
    from provision.cli.progress import Narrator
    from provision.verify.facts import Facts


@click.command("diff")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@options.as_json
@click.pass_context
def command(ctx: click.Context, *, old: str, new: str, as_json: bool) -> None:
    """Compare two locks, or two hosts, value by value.

    A lock is a lock file, or a profile, which stands for what would be locked now. A host is a facts file (.json) from `gpuprov probe`,
    or a HOST, which is observed now. Exits with 1 when they differ, as diff does.
    """
    hosts = [_is_host(name) for name in (old, new)]
    if hosts[0] != hosts[1]:
        msg = f"{old} and {new} are of two kinds: compare two locks or profiles, or two hosts or facts files"
        raise click.UsageError(msg)
    lines = _hosts(old, new) if hosts[0] else _locks(old, new)
    if as_json:
        options.print_json({"changes": lines})
    else:
        click.echo("\n".join(lines) if lines else "no difference")
    ctx.exit(1 if lines else 0)


def _is_host(name: str) -> bool:
    """Whether it is facts or a host: neither a lock nor a YAML file nor the name of a profile."""
    from provision.profile import load  # noqa: PLC0415 - heavy, and --help must be light

    return not name.endswith((".yml", ".yaml")) and name not in {listed.name for listed in load.list_profiles()}


def _locks(old: str, new: str) -> list[str]:
    from provision.profile import lockfile  # noqa: PLC0415

    return list(lockfile.changes(_lock(old), _lock(new)))


def _hosts(old: str, new: str) -> list[str]:
    from provision.cli.progress import narrator  # noqa: PLC0415
    from provision.verify.compare import changes  # noqa: PLC0415

    with narrator().speaking() as tell:
        return changes(_facts(old, tell), _facts(new, tell))


def _facts(name: str, tell: Narrator) -> Facts:
    from provision.verify.facts import load  # noqa: PLC0415
    from provision.verify.observe import observe  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    if name.endswith(".json"):
        return load(Path(name))
    tell.say(f"observing {name}")
    return asyncio.run(observe(Session.open().target(name)))


def _lock(name: str) -> Any:
    from provision.profile import load, lockfile  # noqa: PLC0415
    from provision.profile.lock import build  # noqa: PLC0415

    if name.endswith((".lock.yml", ".lock.yaml")):
        return lockfile.read(Path(name))
    return build(load.load(load.find(name)), options.today())
