"""`gpuprov down`."""

import click

from provision.cli import echo, options
from provision.cli.progress import narration
from provision.errors import GpuprovError
from provision.launch.journal import check_name
from provision.workflow import audited
from provision.workflow.down import remove
from provision.workflow.interrupted import still_runs
from provision.workflow.session import Session


@click.command("down")
@click.argument("hosts", metavar="HOST…", nargs=-1, required=True, shell_complete=options.complete_instances)
@options.in_rehearsal
@options.assume_yes
@options.as_json
@click.pass_context
def command(ctx: click.Context, *, hosts: tuple[str, ...], rehearse: bool, yes: bool, as_json: bool) -> None:
    """Remove the launch called HOST: all its machines and everything that was made for them, found by tag. Several are removed in turn.

    It shows what would be removed and asks for confirmation. Without a terminal it needs --yes.
    """
    names = [check_name(host) for host in dict.fromkeys(hosts)]
    options.need_terminal(yes=yes, command="down")
    session, removed, failed = Session.open(), [], []
    for name in names:
        try:
            phrases, line = _remove(session, name, rehearsal=rehearse, yes=yes)
        except GpuprovError as error:
            failed.append((name, error))
            continue
        removed.append({"name": name, "removed": phrases})
        if not as_json:
            echo("\n".join([f"removed {phrase}" for phrase in phrases] or [line]))
    if failed:
        ctx.obj["beside"] = {"launches": removed}
        for name, before in failed[:-1]:
            echo(f"{name}: {before.message}; {before.hint}", err=True)
        raise failed[-1][1]
    if as_json:
        options.print_json({"launches": removed})


def _remove(session: Session, name: str, *, rehearsal: bool, yes: bool) -> tuple[list[str], str]:
    """What was removed of a launch, and what is said where it is nothing."""
    answers: list[bool] = []
    with (
        audited.changing(session, "down", name, rehearsal=rehearsal) as ending,
        narration(lambda: still_runs(session, name, certain=False)) as narrator,
    ):

        def confirm(lines: list[str]) -> bool:
            narrator.pause()
            answers.append(options.confirm(f"remove these {len(lines)}?", lines, yes=yes))
            return answers[-1]

        phrases = remove(session, name, rehearsal=rehearsal, say=narrator.say, confirm=confirm)
        ending.results = {"removed": len(phrases), "agreed": all(answers)}
    return phrases, f"nothing of {name} was left where it was launched" if all(answers) else "nothing was removed"
