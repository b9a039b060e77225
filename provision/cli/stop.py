"""`gpuprov stop`."""

from __future__ import annotations

import click

from provision.cli import options


@click.command("stop")
@options.named_host()
@options.in_rehearsal
@options.as_json
def command(*, host: str, rehearse: bool, as_json: bool) -> None:
    """Power off the machines of HOST and wait until they are; their disks stay, and are paid for."""
    from provision.cli.progress import narrator  # noqa: PLC0415 - heavy, and --help must be light
    from provision.launch.journal import check_name  # noqa: PLC0415
    from provision.workflow.power import stop  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    with narrator().speaking() as tell:
        stopped = stop(Session.open(), check_name(host), rehearsal=rehearse, say=tell.say)
    if as_json:
        options.print_json({"name": host, "stopped": [i.id for i in stopped]})
        return
    for instance in stopped:
        click.echo(f"stopped {instance.name} ({instance.id}); `gpuprov start {instance.group}` goes on, before {instance.deadline}")
