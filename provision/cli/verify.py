"""`gpuprov verify`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from provision.cli import options


@click.command("verify")
@options.named_host(required=False)
@options.optional_profile
@click.option("--facts", type=click.Path(dir_okay=False, allow_dash=True), help="Judge facts from `gpuprov probe` instead of a host.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(1, 3600), default=120, show_default=True, help="Seconds for the observation.")
@options.without_gpu
@options.strict
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    *,
    host: str | None,
    profile: str | None,
    facts: str | None,
    timeout_s: float,
    without_gpu: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Prove that a profile holds on HOST: an instance's name, `localhost`, or anything ssh knows."""
    from provision import report as reports  # noqa: PLC0415 - heavy, and --help must be light
    from provision.cli.progress import narrator  # noqa: PLC0415
    from provision.profile.lock import pin  # noqa: PLC0415
    from provision.verify.facts import load as load_facts  # noqa: PLC0415
    from provision.verify.judge import judge  # noqa: PLC0415
    from provision.verify.run import verify  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    if (host is None) == (facts is None):
        msg = "give either a HOST or --facts FILE"
        raise click.UsageError(msg)
    session = Session.open()
    asked = session.profile_for(host, profile)
    locked = session.lock_for(host, profile, asked)
    asked = pin(asked, locked) if locked is not None else asked
    if facts is not None:
        report = judge(load_facts(Path(facts)), asked, without_gpu=without_gpu)
    else:
        assert host is not None  # noqa: S101 - one of the two is given
        with narrator().speaking() as tell:
            tell.say(f"observing {host}")
            report = asyncio.run(verify(session.target(host), asked, without_gpu=without_gpu, timeout_s=timeout_s))
    if as_json:
        click.echo(reports.json.render(report))
    else:
        click.echo(reports.text.render(report, color=sys.stdout.isatty()))
    ctx.exit(report.exit_code(strict=strict))
