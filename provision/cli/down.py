"""`gpuprov down`."""

from __future__ import annotations

import click

from provision.cli import options


@click.command("down")
@options.named_host()
@options.in_rehearsal
@options.assume_yes
@options.as_json
def command(*, host: str, rehearse: bool, yes: bool, as_json: bool) -> None:
    """Remove the launch called HOST, all its machines and everything made for them, found by tag.

    Shows what it would remove and asks. Where nobody can answer it needs --yes.
    """
    from provision.cli.progress import narrator  # noqa: PLC0415 - heavy, and --help must be light
    from provision.launch.journal import check_name  # noqa: PLC0415
    from provision.workflow.inventory import remove  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    name = check_name(host)
    options.need_terminal(yes=yes, what="`gpuprov down`")
    refused = False
    with narrator().speaking() as tell:

        def agreed(lines: list[str]) -> bool:
            nonlocal refused
            tell.pause()
            refused = not options.confirmed(f"remove these {len(lines)}?", lines, yes=yes)
            return not refused

        removed = remove(Session.open(), name, rehearsal=rehearse, say=tell.say, agreed=agreed)
    if as_json:
        options.print_json({"name": host, "removed": removed})
        return
    nothing = "nothing was removed" if refused else "nothing was left at the cloud"
    for what in removed or [nothing]:
        click.echo(f"removed {what}" if removed else what)
