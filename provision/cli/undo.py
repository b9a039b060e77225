"""`gpuprov undo`."""

import contextlib

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.converge import run
from provision.converge.progress import Progress
from provision.converge.roles import ROLES, in_order
from provision.errors import counted
from provision.launch.audit import Ending
from provision.workflow import audited
from provision.workflow.session import Session
from provision.workflow.setup import artefacts_folder


@click.command("undo")
@options.host_argument()
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="ROLE",
    shell_complete=options.complete_roles,
    help="Undo only what this role changed. May be repeated.",
)
@click.option("--check", is_flag=True, help="Show what would be put back, and change nothing.")
@options.as_json
def command(*, host: str, roles: tuple[str, ...], check: bool, as_json: bool) -> None:
    """Put HOST back to what it was before gpuprov's roles changed it: files, links, units and packages.

    The host keeps what was there before in /var/lib/gpuprov/changes. Logins and the data on disks are not touched.
    """
    selection = in_order(roles) if roles else ROLES
    session = Session.open()
    changes: list[str] = []

    def collect(progress: Progress) -> None:
        changes.extend(progress.diff.splitlines())

    logged = contextlib.nullcontext(Ending()) if check else audited.changing(session, "undo", host, roles=selection)
    with logged as ending, narration() as narrator:
        narrator.say(f"putting back what {'the roles' if len(selection) > 1 else selection[0]} changed on {host}")
        run.undo(session.target(host), selection, run_dir=artefacts_folder(session, host), on_progress=collect, check=check)
        ending.results = {"changes": len(changes)}
    verb = "would be put back" if check else "put back"
    summary = f"{counted(len(changes), 'change')} {verb}" if changes else "nothing to put back: gpuprov changed nothing here"
    options.show({"host": host, "roles": selection, "check": check, "changes": changes}, *changes, summary, as_json=as_json)
