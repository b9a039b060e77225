"""`gpuprov start`."""

import dataclasses

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.launch.journal import check_name
from provision.workflow import power
from provision.workflow.interrupted import still_runs
from provision.workflow.session import Session


@click.command("start")
@options.host_argument()
@options.in_rehearsal
@options.as_json
def command(*, host: str, rehearse: bool, as_json: bool) -> None:
    """Power on the machines of HOST, wait until they can be reached, and note their new addresses.

    Only the host keys that are already known are accepted, because the same machine keeps its keys.
    """
    with narration(lambda: still_runs(Session.open(), host)) as narrator:
        result = power.start(Session.open(), check_name(host), rehearsal=rehearse, say=narrator.say)
    lines = [f"started {i.name} ({i.id}) at {i.address}: ssh gpuprov-{i.name}" for i in result.instances]
    if result.empty_disk:
        lines.append(f"{result.empty_disk} was inside the machine and is empty after a stop; `gpuprov apply {host}` sets it up again")
    options.show({"name": host, "started": [dataclasses.asdict(i) for i in result.instances]}, *lines, as_json=as_json)
