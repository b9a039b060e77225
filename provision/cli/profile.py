"""`gpuprov profile`."""

from __future__ import annotations

import click

from provision.cli import options


@click.group("profile")
def command() -> None:
    """List, show and check profiles."""


@command.command("list")
@options.as_json
def list_(*, as_json: bool) -> None:
    """List the profiles that a name finds: those in ./profiles, then those that ship with gpuprov."""
    from provision.profile import load  # noqa: PLC0415 - heavy, and --help must be light

    found = load.list_profiles()
    if as_json:
        options.print_json([{"name": p.name, "path": str(p.path), "purpose": p.purpose, "problem": p.problem} for p in found])
        return
    width = max((len(p.name) for p in found), default=0)
    for p in found:
        click.echo(f"{p.name:<{width}}  {p.purpose or 'does not hold: ' + p.problem}")


@command.command("show")
@click.argument("profile", metavar="NAME|FILE")
@options.as_json
def show(*, profile: str, as_json: bool) -> None:
    """Print a profile: its file with the comments, or with --json all values, defaults filled in."""
    from provision.profile import load  # noqa: PLC0415

    path = load.find(profile)
    loaded = load.load(path)
    if as_json:
        options.print_json({"path": str(path), "sha256": load.digest(loaded), "profile": loaded.dump()})
    else:
        click.echo(path.read_text(encoding="utf-8"), nl=False)


@command.command("check")
@click.argument("profiles", metavar="NAME|FILE…", nargs=-1, required=True)
@options.as_json
def check(*, profiles: tuple[str, ...], as_json: bool) -> None:
    """Say whether files hold profiles; all complaints of a file at once."""
    from provision.profile import load  # noqa: PLC0415

    for profile in profiles:
        path = load.find(profile)
        loaded = load.load(path)
        if as_json:
            options.print_json({"path": str(path), "name": loaded.name, "sha256": load.digest(loaded)})
        else:
            click.echo(f"{path}: holds (sha256:{load.digest(loaded)})")


@command.command("schema")
def schema() -> None:
    """Print the JSON Schema of a profile, for editors."""
    from provision.profile import load  # noqa: PLC0415

    options.print_json(load.schema())
