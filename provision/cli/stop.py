"""`gpuprov stop`."""

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.launch.journal import check_name
from provision.workflow import audited, power
from provision.workflow.interrupted import still_runs
from provision.workflow.session import Session


@click.command("stop")
@options.host_argument()
@click.option("--at-full-price", is_flag=True, help="Stop them also where a machine that is off costs as much as one that runs.")
@options.in_rehearsal
@options.as_json
def command(*, host: str, at_full_price: bool, rehearse: bool, as_json: bool) -> None:
    """Power off the machines of HOST and wait until they are off. Their disks stay, and still cost money."""
    session = Session.open()
    with (
        audited.changing(session, "stop", check_name(host), rehearsal=rehearse) as ending,
        narration(lambda: still_runs(session, host, certain=False)) as narrator,
    ):
        instances = power.stop(session, host, rehearsal=rehearse, say=narrator.say, at_full_price=at_full_price)
        ending.results = {"machines": [instance.id for instance in instances]}
    lines = (f"stopped {i.name} ({i.id}); `gpuprov start {i.group}` starts it again, before {i.deadline}" for i in instances)
    options.show({"name": host, "stopped": [instance.id for instance in instances]}, *lines, as_json=as_json)
