"""`gpuprov diff`."""

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.workflow.diff import differences


@click.command("diff")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@options.as_json
@click.pass_context
def command(ctx: click.Context, *, old: str, new: str, as_json: bool) -> None:
    """Compare two locks, or two hosts, value by value.

    A lock is a lock file, or a profile, which is then locked for the comparison. A host is a facts file (.json) from `gpuprov probe`, or
    a HOST, which is observed for the comparison. As with diff, the exit code is 1 if they differ.
    """
    with narration() as narrator:
        lines = differences(old, new, say=narrator.say)
    options.show({"changes": lines}, *(lines or ["no difference"]), as_json=as_json)
    ctx.exit(1 if lines else 0)
