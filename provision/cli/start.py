"""`gpuprov start`."""

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.launch.journal import check_name
from provision.structs import asdict
from provision.workflow import audited, power
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
    session = Session.open()
    with (
        audited.changing(session, "start", check_name(host), rehearsal=rehearse) as ending,
        narration(lambda: still_runs(session, host)) as narrator,
    ):
        result = power.start(session, host, rehearsal=rehearse, say=narrator.say)
        ending.results = {"machines": [instance.id for instance in result.instances]}
    verbs = {True: "started", False: "running before:"}
    lines = [f"{verbs[i.id in result.were_off]} {i.name} ({i.id}) at {i.address}: ssh gpuprov-{i.name}" for i in result.instances]
    if result.empty_disk:
        lines.append(f"{result.empty_disk} was inside the machine and is empty after a stop; `gpuprov apply {host}` sets it up again")
    data = {"name": host, "started": [asdict(i) for i in result.instances], "empty_disk": result.empty_disk}
    options.show(data, *lines, as_json=as_json)
