"""`gpuprov push`, and what it has in common with `gpuprov pull`."""

import contextlib
from collections.abc import Callable
from typing import Final

import click

from provision import clouds
from provision.cli import options
from provision.cli.progress import narration
from provision.errors import counted
from provision.host import bucket
from provision.host.transfer import Copied, push
from provision.launch.audit import Ending
from provision.workflow import audited
from provision.workflow.session import Session


def copy_command(name: str, copy: Callable[..., Copied], direction: str, description: str) -> click.Command:
    """A command that copies with `push` or `pull` of `provision.host.transfer`, in the direction `to` or `from`."""

    @click.command(name, help=description)
    @options.host_argument()
    @click.argument("paths", nargs=-1, metavar="PATH… [PATH]")
    @click.option("--delete", is_flag=True, help="Remove what is at the destination and not in the source.")
    @click.option("-n", "--dry-run", is_flag=True, help="Show what would be copied, and copy nothing.")
    @options.as_json
    def command(*, host: str, paths: tuple[str, ...], delete: bool, dry_run: bool, as_json: bool) -> None:
        session = Session.open()
        host, paths = _as_words(session, direction, host, paths)
        addresses = [path for path in paths[:-1] if bucket.is_address(path)] if direction == "to" else []
        if addresses and len(paths) > 2:  # noqa: PLR2004 - as above
            msg = f"{addresses[0]} is copied alone: give it and where to"
            raise click.UsageError(msg)
        target = session.instance_target(host)
        changes = direction == "to" and not dry_run
        logged = audited.changing(session, name, host, delete=delete) if changes else contextlib.nullcontext(Ending())
        if addresses:
            with logged, narration() as narrator:
                narrator.say(f"{host} copies from {addresses[0]}")
                said = bucket.copy(target, addresses[0], paths[-1], delete=delete, dry_run=dry_run)
            line = f"{said.rstrip()}\nnothing was copied (--dry-run)" if dry_run else f"{host} copied {addresses[0]} to {paths[-1]}"
            data = {"host": host, "from": addresses[0], "to": paths[-1], "dry_run": dry_run}
            options.show(data, line.lstrip(), as_json=as_json)
            return
        with logged as ending, narration() as narrator:
            narrator.say(f"copying {direction} {host}")
            total = copy(target, paths[:-1], paths[-1], delete=delete, dry_run=dry_run, on_progress=narrator.detail)
            ending.results = {"files": total.files, "bytes": total.bytes}
        line = f"{'would copy' if dry_run else 'copied'} {counted(total.files, 'file')}, {total.bytes / 1e6:.1f} MB"
        options.show({"host": host, "files": total.files, "bytes": total.bytes, "dry_run": dry_run}, line, as_json=as_json)

    return command


def _as_words(session: Session, direction: str, host: str, paths: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The host, and what is copied with its destination last; scp's `PATH… HOST:PATH` and `HOST:PATH… [PATH]` are understood as well.

    Raises:
        click.UsageError: there is nothing to copy, or files of several hosts.
    """

    def split(word: str) -> tuple[str, str]:
        name, colon, path = word.partition(":")
        return (name, path) if colon and session.ssh.knows(name) else ("", word)

    every = [split(word) for word in (host, *paths)]
    named = every[-1:] if direction == "to" else every
    hosts = {name for name, _ in named if name}
    if len(hosts) > 1:
        msg = f"files of one host are copied at a time, and these are of {' and '.join(sorted(hosts))}"
        raise click.UsageError(msg)
    if hosts:
        (host,) = hosts
        # A host before its own paths is no path; anywhere else its name is that of a file.
        here = [word for number, (name, word) in enumerate(every) if not name and (number or word != host)]
        there = [path for name, path in named if name]
        if direction == "from" and len(here) > 1:
            msg = f"{' and '.join(here)} are both on this machine: one is where the files go"
            raise click.UsageError(msg)
        paths = (*here, *there) if direction == "to" else (*there, *(here or ["."]))
    elif len(paths) == 1:
        paths = (*paths, "" if direction == "to" else ".")
    if len(paths) < 2:  # noqa: PLR2004 - from and to
        msg = "give at least one PATH to copy"
        raise click.UsageError(msg)
    return host, paths


LIKE_RSYNC = "As with rsync, a folder with a slash at its end means its content. An interrupted copy continues where it stopped."

_SCHEMES: Final = " or ".join(f"{provider.bucket.scheme}://BUCKET/PREFIX/" for provider in clouds.providers() if provider.bucket)
_FROM_BUCKETS: Final = (
    f"One PATH may be {_SCHEMES}: HOST then copies by itself, with the `identity` of its place. No credentials of yours are used."
)

command = copy_command(
    "push",
    push,
    "to",
    f"Copy files and folders to HOST with rsync. The last of several PATHs is on HOST; without it they go to the folder where you log in. "
    f"`gpuprov push data HOST:/data/` says the same.\n\n{LIKE_RSYNC}\n\n{_FROM_BUCKETS}",
)
