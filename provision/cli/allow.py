"""`gpuprov allow`."""

import click
import pydantic

from provision.cli import options
from provision.cli.progress import narration
from provision.launch.journal import check_name
from provision.workflow import audited, power
from provision.workflow.session import Session


@click.command("allow")
@options.host_argument()
@click.option(
    "--from",
    "networks",
    multiple=True,
    metavar="NETWORK",
    help="Open to this network, or to `caller`, your own address. May be repeated.  [default: the profile's networks]",
)
@options.in_rehearsal
@options.as_json
def command(*, host: str, networks: tuple[str, ...], rehearse: bool, as_json: bool) -> None:
    """Open port 22 of HOST to exactly the networks of its profile, or to the ones you name.

    Use it when your own address has changed.
    """
    session = Session.open()
    with audited.changing(session, "allow", check_name(host), rehearsal=rehearse) as ending, narration() as narrator:
        try:
            doors = power.allow(session, host, networks, rehearsal=rehearse, say=narrator.say)
        except pydantic.ValidationError as error:
            said = (str(problem.get("ctx", {}).get("error", "write a network such as 192.0.2.0/24")) for problem in error.errors())
            raise click.UsageError("; ".join(said)) from error
        ending.results = {"open_to": sorted({network for opens in doors.values() for network in opens})}
    lines = (
        f"{host} in {region}: port 22 is open to {', '.join(opens) + ' and to nobody else' if opens else 'nobody'}"
        for region, opens in doors.items()
    )
    options.show({"name": host, "open": doors}, *lines, as_json=as_json)
