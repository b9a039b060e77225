"""`gpuprov explain`."""

from __future__ import annotations

import dataclasses

import click

from provision.cli import options


@click.command("explain")
@click.argument("profile", metavar="NAME|FILE")
@click.argument("what", metavar="[PART]", required=False)
@options.as_json
def command(*, profile: str, what: str | None, as_json: bool) -> None:
    """Say why the stack of a profile is what it is; with PART (cuda, driver, pytorch …) with everything that was passed over."""
    import difflib  # noqa: PLC0415 - heavy, and --help must be light

    from provision.catalog.resolve import resolve  # noqa: PLC0415
    from provision.profile import load  # noqa: PLC0415
    from provision.profile.lock import asked_of  # noqa: PLC0415

    asked = load.load(load.find(profile))
    resolution = resolve(asked_of(asked), options.today())
    parts = [choice.variable for choice in resolution.choices]
    if what is not None and what not in parts:
        near = difflib.get_close_matches(what, parts, n=1)
        msg = f"there is no part {what!a}"
        hint = f"; did you mean {near[0]}?" if near else f"; write one of: {', '.join(parts)}"
        raise click.UsageError(msg + hint)
    choices = [choice for choice in resolution.choices if what in {None, choice.variable}]
    if as_json:
        options.print_json({"choices": [dataclasses.asdict(choice) for choice in choices], "warnings": resolution.warnings})
        return
    width = max(len(choice.title) for choice in choices)
    for choice in choices:
        click.echo(f"{choice.title:<{width}}  {choice.value}")
        if choice.because:
            click.echo(f"{'':<{width}}    {choice.because}")
        for value, why in reversed(choice.passed_over) if what else ():
            click.echo(f"{'':<{width}}    not {value}: {why}")
    for warning in resolution.warnings:
        click.echo(f"against advice: {warning}")
