"""`gpuprov render`."""

import datetime as dt
import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from provision.cli import echo, options
from provision.clouds import CLOUDS
from provision.clouds.forms import KEY_PATTERN, Given
from provision.launch.journal import check_name
from provision.launch.plan import plan
from provision.paths import read_bounded
from provision.render import FORMS, render
from provision.render.base import choose, subject
from provision.workflow.session import ProfileSource

_MOST_KEY_BYTES: Final = 16 * 1024


@click.command("render")
@click.argument("profile", metavar="NAME|FILE")
@click.option(
    "--as",
    "form",
    metavar="FORM",
    type=click.Choice([*FORMS, "terraform"]),
    required=True,
    help=f"One of {', '.join(FORMS)}; `terraform` is that of the place.",
)
@click.option("--where", metavar="REGION|ZONE", help="The place of the profile.  [default: the first that suits the form]")
@click.option("--cloud", type=click.Choice(CLOUDS), help="The cloud, if the profile has places on several.")
@click.option("--name", metavar="NAME", help="The name of the machine.  [default: the profile's name]")
@click.option("--deadline", metavar="TIME", help="When the machine ends itself: 8h from now, or 2026-11-22T08:00:00+00:00.")
@click.option(
    "--public-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The OpenSSH public key of the first login.",
)
@click.option("--ssh-from", metavar="ADDRESS/32", help="The address that `caller` in the profile stands for.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The file to write; a folder for ansible.  [default: standard output]",
)
def command(
    *,
    profile: str,
    form: str,
    where: str | None,
    cloud: str | None,
    name: str | None,
    deadline: str | None,
    public_key: Path | None,
    ssh_from: str | None,
    output: Path | None,
) -> None:
    """Write a profile for other tools: a CloudFormation template, Terraform, user data, a playbook, a runbook.

    Nothing is launched and no cloud is contacted. Values that you leave out are asked for when the form is run; cloud-init and runbook
    need all of them now.
    """
    source = ProfileSource.read(profile)
    planned = plan(source.profile, source.lock, check_name(name or source.profile.name))
    if form == "terraform":
        form = f"terraform-{choose(planned, cloud=cloud, where=where).cloud}"
    selection = FORMS[form]
    if selection.file is None and output is None:
        msg = f"{form} is a folder; name it with -o {source.profile.name}-{form}"
        raise click.UsageError(msg)
    values = Given(
        public_key=_key(public_key) if public_key else "",
        deadline=_time(deadline, source.profile.limits.deadline_h) if deadline else None,
        caller=_address(ssh_from) if ssh_from else "",
    )
    place = choose(planned, cloud=selection.cloud or cloud, where=where, launches=selection.launches)
    files = render(form, subject(planned, place, values))
    if output is None:
        echo(files[str(selection.file)].decode(), nl=False)
    elif selection.file is not None:
        options.write(output, files[selection.file].decode())
    else:
        _write_folder(output, files)


def _key(path: Path) -> str:
    """Type and key of a public key file, without the comment."""
    try:
        text = " ".join(read_bounded(path, _MOST_KEY_BYTES).decode().split()[:2])
    except (OSError, UnicodeDecodeError):
        text = ""
    if not re.fullmatch(KEY_PATTERN, text):
        msg = f"{path} holds no OpenSSH public key of type ed25519, RSA or ECDSA"
        raise click.UsageError(msg)
    return text


def _time(text: str, hours: int) -> dt.datetime:
    """A time from now, or one with its offset: in the future and not later than the profile allows."""
    now = dt.datetime.now(dt.UTC)
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        time = now + dt.timedelta(seconds=options.seconds(text))
    if time.tzinfo is None:
        msg = f"{text!a} has no offset; write it as {now + dt.timedelta(hours=hours):%Y-%m-%dT%H:%M:%S+00:00}, or as {hours}h"
        raise click.UsageError(msg)
    if not now < time <= now + dt.timedelta(hours=hours):
        msg = f"{text} is not within the {hours} h from now that the profile allows"
        raise click.UsageError(msg)
    return time.astimezone(dt.UTC).replace(microsecond=0)


def _address(text: str) -> str:
    """One IPv4 address as a network."""
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError:
        network = ipaddress.IPv4Network("0.0.0.0/0")
    if network.prefixlen != network.max_prefixlen:
        msg = f"{text!a} is not one IPv4 address, written as 203.0.113.7/32; a wider network belongs into the profile"
        raise click.UsageError(msg)
    return str(network)


def _write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder that is new or empty, so that it holds nothing else afterwards."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        msg = f"{folder} exists already; name a new or empty folder"
        raise click.UsageError(msg)
    for name, content in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
