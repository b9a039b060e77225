"""`gpuprov probe`."""

from __future__ import annotations

import asyncio

import click

from provision.cli import options


@click.command("probe")
@options.named_host()
@click.option("--timeout", "timeout_s", type=click.FloatRange(1, 3600), default=120, show_default=True, help="Seconds for the observation.")
@options.tier
def command(*, host: str, timeout_s: float, tier: str | None) -> None:
    """Gather the facts of HOST as JSON, without judging them.

    `gpuprov verify --facts FILE --profile …` judges them anywhere, with the same verdict.
    """
    from provision.cli.progress import narrator  # noqa: PLC0415 - heavy, and --help must be light
    from provision.verify.facts import dump  # noqa: PLC0415
    from provision.verify.observe import observe  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    with narrator().speaking() as tell:
        tell.say(f"observing {host}")
        facts = asyncio.run(observe(Session.open().target(host), timeout_s=timeout_s, tier=tier or "standard"))
    click.echo(dump(facts), nl=False)
