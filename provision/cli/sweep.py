"""`gpuprov sweep`."""

from __future__ import annotations

import dataclasses

import click

from provision.cli import options


@click.command("sweep")
@click.option("--rehearse", is_flag=True, help="In the embedded cloud.")
@click.option("--all-owners", is_flag=True, help="Also what people launched whose profiles are not known here.")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@options.assume_yes
@options.as_json
def command(*, rehearse: bool, all_owners: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove what is of no use any more: things whose launch has no living machine, and machines over their deadline.

    Looks in every region that need not be enabled first and in those of profiles and journal. Only things that gpuprov tagged, and only
    of owners that a profile or the journal here names, are looked at.
    """
    from provision.cli.progress import narrator  # noqa: PLC0415 - heavy, and --help must be light
    from provision.cli.tables import table  # noqa: PLC0415
    from provision.workflow.inventory import left_over, sweep  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    options.need_terminal(yes=yes or dry_run, what="`gpuprov sweep`")
    session = Session.open()
    removed: list[str] = []
    with narrator().speaking() as tell:
        ours, left, problems = left_over(session, rehearsal=rehearse, all_owners=all_owners, say=tell.say)
        tell.pause()
        rows = [(i.thing.group, i.thing.kind, i.thing.id, i.cloud, i.thing.where, i.thing.owner, i.why) for i in left]
        if left and not as_json:
            click.echo(table(("NAME", "KIND", "ID", "CLOUD", "WHERE", "OWNER", "WHY"), rows))
        if left and not dry_run and options.confirmed(f"remove these {len(left)}?", (), yes=yes):
            removed = sweep(session, ours, left)
    if as_json:
        found = [{**dataclasses.asdict(i.thing), "cloud": i.cloud, "why": i.why} for i in left]
        options.print_json({"left": found, "removed": removed, "problems": problems})
        return
    if not left:
        click.echo("nothing is left over")
    for what in removed:
        click.echo(f"removed {what}")
    for problem in problems:
        click.echo(f"not asked: {problem}", err=True)
