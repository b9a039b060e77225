"""`gpuprov pull`."""

from __future__ import annotations

import click

from provision.cli import options


@click.command("pull")
@options.named_host()
@click.argument("paths", nargs=-1, required=True, metavar="PATH… PATH")
@click.option("--delete", is_flag=True, help="Remove at the destination what the source does not have.")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be copied.")
@options.as_json
def command(*, host: str, paths: tuple[str, ...], delete: bool, dry_run: bool, as_json: bool) -> None:
    """Copy files and folders from HOST with rsync; the last PATH is where here.

    As with rsync, a folder with a slash at its end means what is in it. A copy that was cut off goes on where it stopped.
    """
    from provision.cli.progress import narrator  # noqa: PLC0415 - heavy, and --help must be light
    from provision.errors import InstanceNotFoundError  # noqa: PLC0415
    from provision.host.transfer import pull  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    if len(paths) < 2:  # noqa: PLR2004 - from and to
        msg = "say what is copied and where to"
        raise click.UsageError(msg)
    session = Session.open()
    if not session.ssh.knows(host):
        msg = f"no instance called {host!a} was launched from here"
        raise InstanceNotFoundError(msg, hint="`gpuprov ls` shows what there is")
    with narrator().speaking() as tell:
        tell.say(f"copying from {host}")
        copied = pull(session.ssh.target(host), paths[:-1], paths[-1], delete=delete, dry_run=dry_run)
    if as_json:
        options.print_json({"host": host, "files": copied.files, "bytes": copied.bytes, "dry_run": dry_run})
        return
    click.echo(f"{'would copy' if dry_run else 'copied'} {copied.files} files, {copied.bytes / 1e6:.1f} MB")
