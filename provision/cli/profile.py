"""`gpuprov profile`."""

import click

from provision.cli import options
from provision.profile import load


@click.group("profile")
def command() -> None:
    """List, show and check profiles."""


@command.command("list")
@options.as_json
def list_(*, as_json: bool) -> None:
    """List the profiles that can be used by name: those in ./profiles, then those that ship with gpuprov."""
    entries = load.list_profiles()
    width = max((len(entry.name) for entry in entries), default=0)
    lines = (f"{entry.name:<{width}}  {entry.purpose or 'does not hold: ' + entry.problem}" for entry in entries)
    data = [{"name": e.name, "path": str(e.path), "purpose": e.purpose, "problem": e.problem} for e in entries]
    options.show(data, *lines, as_json=as_json)


@command.command("show")
@click.argument("profile", metavar="NAME|FILE")
@options.as_json
def show(*, profile: str, as_json: bool) -> None:
    """Print a profile: its file with the comments, or with --json all values including defaults."""
    path = load.find(profile)
    model = load.load(path)
    if as_json:
        options.print_json({"path": str(path), "sha256": load.digest(model), "profile": model.dump()})
    else:
        click.echo(path.read_text(encoding="utf-8"), nl=False)


@command.command("check")
@click.argument("profiles", metavar="NAME|FILE…", nargs=-1, required=True)
@options.as_json
def check(*, profiles: tuple[str, ...], as_json: bool) -> None:
    """Say whether files hold valid profiles, with all complaints about a file at once."""
    for name in profiles:
        path = load.find(name)
        model = load.load(path)
        options.show(
            {"path": str(path), "name": model.name, "sha256": load.digest(model)},
            f"{path}: holds (sha256:{load.digest(model)})",
            as_json=as_json,
        )


@command.command("schema")
def schema() -> None:
    """Print the JSON Schema of a profile, for editors."""
    options.print_json(load.schema())
