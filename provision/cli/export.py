"""`gpuprov export`."""

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

import click

from provision.cli import echo, options
from provision.engines import ENGINES
from provision.engines.base import HostPool
from provision.launch.journal import check_name
from provision.workflow.export import pool
from provision.workflow.session import Session


@click.command("export")
@click.argument("names", metavar="[NAME|HOST]…", nargs=-1, shell_complete=options.complete_instances)
@click.option("--to", "engine", type=click.Choice(list(ENGINES)), required=True, help="The format to write.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The file to write; a folder where the format has several files.  [default: standard output]",
)
@click.option("--max-age", default="24h", show_default=True, metavar="TIME", help="How old the proof of a host may be, such as 30m or 24h.")
@click.option("--name", "title", metavar="NAME", help="What the engine calls the hosts together.  [default: the launch's name]")
@options.as_json
def command(*, names: tuple[str, ...], engine: str, output: Path | None, max_age: str, title: str | None, as_json: bool) -> None:
    """Write proven hosts for an engine that runs workloads on them: Ray, Slurm, SkyPilot, dstack, MPI, torchrun, Ansible, ssh.

    NAME is a launch or one of its hosts; without NAME all hosts launched from here. A host is refused if its last
    `gpuprov verify` failed, is older than --max-age, or was followed by a change. Every value was observed on the host. No host and
    no cloud is contacted.
    """
    form = ENGINES[engine]
    if form.file is None and output is None and not as_json:
        msg = f"{engine} is a folder; name it with -o PATH, or add --json"
        raise click.UsageError(msg)
    age = dt.timedelta(seconds=options.seconds(max_age))
    found = pool(Session.open(), names, max_age=age, title=check_name(title) if title else None, now=dt.datetime.now(dt.UTC))
    files = form.render(found)
    if output is not None and form.file is not None:
        options.write(output, files[form.file])
    elif output is not None:
        _write_folder(output, files)
    if as_json:
        _print_json(engine, found, files)
    elif output is None:
        echo(files[str(form.file)], nl=False)
    if form.caution:
        echo(f"note: {form.caution}", err=True)


def _print_json(engine: str, found: HostPool, files: Mapping[str, str]) -> None:
    hosts = [{"name": host.name, "verified_at": host.verified_at.isoformat(), "evidence_sha256": host.sha256} for host in found.hosts]
    options.print_json({"to": engine, "name": found.name, "hosts": hosts, "files": files})


def _write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a folder; others in it stay."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"cannot make {folder}: {error.strerror}"
        raise click.UsageError(msg) from error
    for name, text in files.items():
        options.write(folder / name, text)
