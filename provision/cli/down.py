"""`gpuprov down`."""

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.launch.journal import check_name
from provision.workflow import audited
from provision.workflow.down import remove
from provision.workflow.interrupted import still_runs
from provision.workflow.session import Session


@click.command("down")
@options.host_argument()
@options.in_rehearsal
@options.assume_yes
@options.as_json
def command(*, host: str, rehearse: bool, yes: bool, as_json: bool) -> None:
    """Remove the launch called HOST: all its machines and everything that was made for them, found by tag.

    It shows what would be removed and asks for confirmation. Without a terminal it needs --yes.
    """
    name = check_name(host)
    options.need_terminal(yes=yes, command="down")
    answers: list[bool] = []
    session = Session.open()
    with (
        audited.changing(session, "down", name, rehearsal=rehearse) as ending,
        narration(lambda: still_runs(session, name, certain=False)) as narrator,
    ):

        def confirm(lines: list[str]) -> bool:
            narrator.pause()
            answers.append(options.confirm(f"remove these {len(lines)}?", lines, yes=yes))
            return answers[-1]

        phrases = remove(session, name, rehearsal=rehearse, say=narrator.say, confirm=confirm)
        ending.results = {"removed": len(phrases), "agreed": all(answers)}
    lines = [f"removed {phrase}" for phrase in phrases] or [
        f"nothing of {host} was left where it was launched" if all(answers) else "nothing was removed"
    ]
    options.show({"name": host, "removed": phrases}, *lines, as_json=as_json)
