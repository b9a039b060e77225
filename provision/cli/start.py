"""`gpuprov start`."""

from __future__ import annotations

import click

from provision.cli import options


@click.command("start")
@options.named_host()
@options.in_rehearsal
@options.as_json
def command(*, host: str, rehearse: bool, as_json: bool) -> None:
    """Power on the machines of HOST, wait until they let us in, and note their new addresses.

    Host keys that are known stay the only ones that are accepted: the same machine does not change them.
    """
    import dataclasses  # noqa: PLC0415 - --help must be light

    from provision.cli.progress import narrator  # noqa: PLC0415
    from provision.launch.journal import check_name  # noqa: PLC0415
    from provision.workflow.power import start  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    session = Session.open()
    with narrator().speaking() as tell:
        started = start(session, check_name(host), rehearsal=rehearse, say=tell.say)
    if as_json:
        options.print_json({"name": host, "started": [dataclasses.asdict(i) for i in started]})
        return
    record = session.journal.of(host)
    data = ((record.profile if record else {}).get("disks") or {}).get("data") or {}
    for instance in started:
        click.echo(f"started {instance.name} ({instance.id}) at {instance.address}: ssh gpuprov-{instance.name}")
    if data.get("source") == "instance-store":
        click.echo(f"{data.get('mount')} was inside the machine and is empty after a stop; `gpuprov apply {host}` makes it again")
