"""`gpuprov probe`."""

from __future__ import annotations

import asyncio

import click

from provision.cli import options


@click.command("probe")
@options.named_host(required=False)
@click.option("--script", "as_script", is_flag=True, help="Print the probe as one Python file, to be read and run on the host by hand.")
@options.tier
@click.option("--timeout", "timeout_s", type=click.FloatRange(1, 3600), default=120, show_default=True, help="Seconds for the observation.")
def command(*, host: str | None, as_script: bool, timeout_s: float, tier: str | None) -> None:
    """Gather the facts of HOST as JSON, without judging them.

    `gpuprov verify --facts FILE --profile …` judges them anywhere, with the same verdict.
    """
    from provision.cli.progress import narrator  # noqa: PLC0415 - heavy, and --help must be light
    from provision.verify.facts import dump  # noqa: PLC0415
    from provision.verify.observe import observe  # noqa: PLC0415
    from provision.verify.script import script  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    if as_script == (host is not None):
        msg = "say which HOST to observe, or --script for what observes a host by hand"
        raise click.UsageError(msg)
    if host is None:
        click.echo(script(), nl=False)
        return
    with narrator().speaking() as tell:
        tell.say(f"observing {host}")
        facts = asyncio.run(observe(Session.open().target(host), timeout_s=timeout_s, tier=tier or "standard"))
    click.echo(dump(facts), nl=False)
