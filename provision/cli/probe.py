"""`gpuprov probe`."""

import asyncio

import click

from provision.cli import echo, options
from provision.cli.progress import narration
from provision.verify.facts import dump
from provision.verify.observe import Asked, observe
from provision.verify.script import script
from provision.workflow.session import Session


@click.command("probe")
@options.host_argument(required=False)
@click.option("--script", "as_script", is_flag=True, help="Print the probe as one Python file, to read it and to run it on a host by hand.")
@options.tier
@options.timeout
def command(*, host: str | None, as_script: bool, timeout_s: float, tier: str | None) -> None:
    """Gather the facts of HOST as JSON, without judging them.

    `gpuprov verify --facts FILE --profile …` judges them on any machine, with the same verdict.
    """
    if as_script == (host is not None):
        msg = "give either a HOST to observe, or --script"
        raise click.UsageError(msg)
    if host is None:
        echo(script(), nl=False)
        return
    with narration() as narrator:
        narrator.say(f"observing {host}")
        facts = asyncio.run(observe(Session.open().target(host), timeout_s=timeout_s, asked=Asked(tier or "standard")))
    echo(dump(facts), nl=False)
