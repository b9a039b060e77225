"""`gpuprov sweep`."""

import click

from provision.cli import echo, options
from provision.cli.progress import narration
from provision.cli.tables import table
from provision.errors import EXIT_OK, EXIT_UNKNOWN
from provision.structs import asdict
from provision.workflow import audited
from provision.workflow.down import find_leftovers, sweep
from provision.workflow.session import Session

_TITLES = ("NAME", "KIND", "ID", "CLOUD", "WHERE", "OWNER", "WHY")


@click.command("sweep")
@click.option("--rehearse", is_flag=True, help="Sweep the embedded cloud.")
@click.option("--all-owners", is_flag=True, help="Also remove what belongs to owners whose profiles are not on this machine.")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@options.tags
@options.assume_yes
@options.as_json
@click.pass_context
def command(ctx: click.Context, *, rehearse: bool, all_owners: bool, dry_run: bool, tags: dict[str, str], yes: bool, as_json: bool) -> None:
    """Remove leftovers: things whose launch has no living machine, and machines past their deadline.

    Only things that gpuprov tagged are considered, and only of owners in the profiles and the journal of this machine. It looks in all
    regions that need no opt-in, and in those of the profiles and the journal. The exit code is 3 when one that you use did not answer.
    """
    options.need_terminal(yes=yes or dry_run, command="sweep")
    session = Session.open()
    phrases: list[str] = []
    with narration() as narrator:
        leftovers = find_leftovers(session, rehearsal=rehearse, all_owners=all_owners, tags=tags, say=narrator.say)
        items = leftovers.items
        narrator.pause()
        if items and not as_json:
            rows = [(i.thing.group, i.thing.kind, i.thing.id, i.cloud, i.thing.where, i.thing.owner, i.why) for i in items]
            echo(table(_TITLES, rows))
        if items and not dry_run and options.confirm(f"remove these {len(items)}?", (), yes=yes):
            names = sorted({item.thing.group for item in items})
            with audited.changing(session, "sweep", "", rehearsal=rehearse, all_owners=all_owners, launches=names) as ending:
                phrases = sweep(session, leftovers)
                ending.results = {"removed": len(phrases)}
    unknown = any(leftovers.problems.values())
    if as_json:
        data = [{**asdict(i.thing), "tags": dict(i.thing.tags), "cloud": i.cloud, "why": i.why} for i in items]
        options.print_json({"left": data, "removed": phrases, "problems": list(leftovers.problems)})
        ctx.exit(EXIT_UNKNOWN if unknown else EXIT_OK)
    if not items:
        echo(options.none_of("leftovers", list(leftovers.problems), unknown=unknown))
    for phrase in phrases:
        echo(f"removed {phrase}")
    options.show_gaps(list(leftovers.problems))
    ctx.exit(EXIT_UNKNOWN if unknown else EXIT_OK)
