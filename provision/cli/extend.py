"""`gpuprov extend`."""

from __future__ import annotations

import click

from provision.cli import options


@click.command("extend")
@options.named_host()
@click.argument("time", metavar="TIME")
@options.in_rehearsal
@options.as_json
def command(*, host: str, time: str, rehearse: bool, as_json: bool) -> None:
    """Move the deadline of HOST by TIME, such as 6h: at the cloud, in its tags and in the timer on each machine.

    Never is more time left than limits.deadline_h of its profile: what was signed is not exceeded, and who needs more asks again later.
    """
    import dataclasses  # noqa: PLC0415 - --help must be light
    import datetime as dt  # noqa: PLC0415

    from provision.cli.progress import narrator  # noqa: PLC0415
    from provision.launch.journal import check_name  # noqa: PLC0415
    from provision.workflow.power import extend  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    more = dt.timedelta(seconds=options.seconds(time))
    if not more:
        msg = "a deadline is moved by some time"
        raise click.UsageError(msg)
    with narrator().speaking() as tell:
        moved = extend(Session.open(), check_name(host), more, rehearsal=rehearse, say=tell.say)
    if as_json:
        options.print_json(dataclasses.asdict(moved))
        return
    price = f"{moved.cost_usd:.2f} USD from now until then" if moved.cost_usd is not None else "the catalogue has no price for it"
    click.echo(f"{moved.name} ends {moved.deadline}: {price}")
