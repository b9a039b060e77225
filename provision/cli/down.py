"""`gpuprov down`."""

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.launch.journal import check_name
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
    with narration(lambda: still_runs(Session.open(), name, certain=False)) as narrator:

        def confirm(lines: list[str]) -> bool:
            narrator.pause()
            answers.append(options.confirm(f"remove these {len(lines)}?", lines, yes=yes))
            return answers[-1]

        phrases = remove(Session.open(), name, rehearsal=rehearse, say=narrator.say, confirm=confirm)
    lines = [f"removed {phrase}" for phrase in phrases] or ["nothing was left at the cloud" if all(answers) else "nothing was removed"]
    options.show({"name": host, "removed": phrases}, *lines, as_json=as_json)
