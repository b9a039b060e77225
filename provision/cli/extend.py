"""`gpuprov extend`."""

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.launch.journal import check_name
from provision.structs import asdict
from provision.workflow import audited, power
from provision.workflow.interrupted import still_runs
from provision.workflow.session import Session


@click.command("extend")
@options.host_argument()
@click.argument("time", metavar="TIME")
@options.in_rehearsal
@options.as_json
def command(*, host: str, time: str, rehearse: bool, as_json: bool) -> None:
    """Move the deadline of HOST by TIME, such as 6h or 1d, or to the `max` of its profile.

    It is moved at the cloud, in its tags and in the timer on each machine.
    The new deadline is at most limits.deadline_h of the profile away, because that is what was signed. You can extend again later.
    """
    more = options.extension(time)
    session = Session.open()
    with (
        audited.changing(session, "extend", check_name(host), rehearsal=rehearse, seconds=more.total_seconds() if more else time) as ending,
        narration(lambda: still_runs(session, host)) as narrator,
    ):
        extension = power.extend(session, host, more, rehearsal=rehearse, say=narrator.say)
        ending.results = {"machines": extension.machines, "deadline": extension.deadline}
    cost = extension.cost_usd
    price = f"{cost:.2f} USD from now until then" if cost is not None else "the catalog has no price for it"
    options.show(asdict(extension), f"{extension.name} ends {extension.deadline}: {price}", as_json=as_json)
