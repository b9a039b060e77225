"""`gpuprov allow`."""

from __future__ import annotations

import click

from provision.cli import options


@click.command("allow")
@options.named_host()
@click.option(
    "--from", "networks", multiple=True, metavar="NETWORK", help="This network, or `caller`; may be repeated.  [default: the profile's]"
)
@options.in_rehearsal
@options.as_json
def command(*, host: str, networks: tuple[str, ...], rehearse: bool, as_json: bool) -> None:
    """Open port 22 of HOST to exactly the networks of its profile, or to those given: for an address of yours that has changed."""
    import pydantic  # noqa: PLC0415 - heavy, and --help must be light

    from provision.cli.progress import narrator  # noqa: PLC0415
    from provision.launch.journal import check_name  # noqa: PLC0415
    from provision.workflow.power import allow  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    with narrator().speaking() as tell:
        try:
            opened = allow(Session.open(), check_name(host), networks, rehearsal=rehearse, say=tell.say)
        except pydantic.ValidationError as error:
            raise click.UsageError("; ".join(str(problem["msg"]) for problem in error.errors())) from error
    if as_json:
        options.print_json({"name": host, "open": opened})
        return
    for region, listed in opened.items():
        click.echo(f"{host} in {region}: port 22 is open to {' and '.join([', '.join(listed), 'to nobody else']) if listed else 'nobody'}")
