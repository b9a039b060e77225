"""`gpuprov down`."""

from __future__ import annotations

import click

from provision.cli import options


@click.command("down")
@options.named_host()
@click.option("--rehearse", is_flag=True, help="In the embedded cloud; an instance launched from here knows where it is.")
@options.as_json
def command(*, host: str, rehearse: bool, as_json: bool) -> None:
    """Remove the instance called HOST and everything made for it, found by tag."""
    from provision.cli.progress import narrator  # noqa: PLC0415 - heavy, and --help must be light
    from provision.launch.journal import check_name  # noqa: PLC0415
    from provision.workflow.inventory import remove  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    with narrator().speaking() as tell:
        removed = remove(Session.open(), check_name(host), rehearsal=rehearse, say=tell.say)
    if as_json:
        options.print_json({"name": host, "removed": removed})
        return
    for what in removed or ["nothing was left at the cloud"]:
        click.echo(f"removed {what}" if removed else what)
