"""`gpuprov profile`."""

import click

from provision.cli import options
from provision.errors import EXIT_USAGE
from provision.profile import load
from provision.profile.examine import examine
from provision.workflow.session import today


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
@options.strict
@options.as_json
@click.pass_context
def check(ctx: click.Context, *, profiles: tuple[str, ...], strict: bool, as_json: bool) -> None:
    """Say whether files hold valid profiles, with all errors and warnings about a file at once.

    The catalog is asked as well: what `lock` would refuse is an error. No cloud is contacted.
    """
    refused = False
    for name in profiles:
        result = examine(load.find(name), today())
        refused |= bool(result.errors) or (strict and bool(result.warnings))
        if as_json:
            options.print_json(result.as_dict())
        elif result.profile is not None and not result.errors:
            click.echo(f"{result.path}: holds (sha256:{load.digest(result.profile)})")
        for complaint in () if as_json else result.warnings:
            click.echo(f"  warning: {complaint.line_of(result.path).strip()}")
        if result.errors:
            error = load.invalid(result.path, result.errors)
            if not as_json:
                raise error
            click.echo(f"error[{error.code}]: {error.message}\nhint: {error.hint}", err=True)
    ctx.exit(EXIT_USAGE if refused else 0)


@command.command("schema")
def schema() -> None:
    """Print the JSON Schema of a profile, for editors."""
    options.print_json(load.schema())
