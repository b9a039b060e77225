"""`gpuprov explain`."""

import click

from provision.catalog.resolve import resolve
from provision.cli import echo, options
from provision.profile import load
from provision.profile.lock import stack_request
from provision.structs import asdict
from provision.workflow.session import today


@click.command("explain")
@click.argument("profile", metavar="NAME|FILE")
@click.argument("part", metavar="[PART]", required=False)
@options.as_json
def command(*, profile: str, part: str | None, as_json: bool) -> None:
    """Say why a profile gets the stack that it gets. With PART (cuda, driver, pytorch …) also list what was rejected, and why."""
    resolution = resolve(stack_request(load.load(load.find(profile))), today())
    if part is not None:
        options.check_word(part, [choice.variable for choice in resolution.choices], "part")
    choices = [choice for choice in resolution.choices if part in {None, choice.variable}]
    if as_json:
        options.print_json({"choices": [asdict(choice) for choice in choices], "warnings": resolution.warnings})
        return
    width = max(len(choice.title) for choice in choices)
    for choice in choices:
        echo(f"{choice.title:<{width}}  {choice.value}")
        if choice.because:
            echo(f"{'':<{width}}    {choice.because}")
        for value, why in reversed(choice.passed_over) if part else ():
            echo(f"{'':<{width}}    not {value}: {why}")
    for warning in resolution.warnings:
        echo(f"against advice: {warning}")
