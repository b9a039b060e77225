"""`gpuprov stop`."""

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.launch.journal import check_name
from provision.structs import asdict
from provision.workflow import audited, power
from provision.workflow.interrupted import still_runs
from provision.workflow.power import EmptiedDisk
from provision.workflow.session import Session


@click.command("stop")
@options.host_argument()
@click.option("--at-full-price", is_flag=True, help="Stop even where a stopped machine is billed at the full rate.")
@options.in_rehearsal
@options.assume_yes
@options.as_json
def command(*, host: str, at_full_price: bool, rehearse: bool, yes: bool, as_json: bool) -> None:
    """Power off the machines of HOST and wait until they are off. Network disks stay, and are billed.

    DATA ON DISKS INSIDE THE MACHINE (instance storage, local SSD) IS LOST. It shows what is on them and asks for confirmation. Without
    a terminal it needs --yes then.
    """
    lost: list[EmptiedDisk] = []
    session = Session.open()
    with (
        audited.changing(session, "stop", check_name(host), rehearsal=rehearse) as ending,
        narration(lambda: still_runs(session, host, certain=False)) as narrator,
    ):

        def confirm(disks: list[EmptiedDisk]) -> bool:
            narrator.pause()
            lost[:] = disks if options.agreed_to_empty(f"stop {host}", disks, yes=yes) else []
            return bool(lost)

        instances = power.stop(session, host, rehearsal=rehearse, say=narrator.say, confirm=confirm, at_full_price=at_full_price)
        ending.results = {"machines": [instance.id for instance in instances]}
    verbs = [(i, "stopped before:" if i.state in power.OFF else "stopped") for i in instances]
    lines = [f"{verb} {i.name} ({i.id}); `gpuprov start {i.group}` starts it again, before {i.deadline}" for i, verb in verbs]
    data = {"name": host, "stopped": [i.id for i in instances], "emptied": [asdict(disk) for disk in lost]}
    options.show(data, *(lines or ["nothing was stopped"]), as_json=as_json)
