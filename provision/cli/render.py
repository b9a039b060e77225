"""`gpuprov render`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from provision.cli import options
from provision.clouds import CLOUDS

if TYPE_CHECKING:
    from provision.clouds.forms import Given
    from provision.profile.model import Profile

# The registry of provision.review.render, which --help must not import; a test holds that they are the same.
FORMS = ("cloudformation", "terraform-aws", "terraform-gcp", "cloud-init", "ansible", "runbook")


@click.command("render")
@click.argument("profile", metavar="NAME|FILE")
@click.option("--as", "form", type=click.Choice(FORMS), required=True, help="The form.")
@click.option("--where", metavar="REGION|ZONE", help="Which place of the profile.  [default: the first that the form can be for]")
@click.option("--cloud", type=click.Choice(CLOUDS), help="Whose place, where both have one.")
@click.option("--name", metavar="NAME", help="What the machine is called; the profile's name by default.")
@click.option("--deadline", metavar="TIME", help="When the machine ends itself, as 2026-11-22T08:00:00+00:00.")
@click.option(
    "--public-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The OpenSSH public key that may log in first.",
)
@click.option("--ssh-from", metavar="ADDRESS/32", help="The address that stands for `caller` of the profile.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The file, or for ansible the folder.  [default: standard output]",
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
    """Write what a profile is where somebody else runs it: a template, Terraform, user data, a playbook, a runbook.

    Asks nobody and makes nothing. What is not said here is asked for when the form is run; cloud-init and runbook leave nothing open.
    """
    from provision.launch.journal import check_name  # noqa: PLC0415 - heavy, and --help must be light
    from provision.launch.plan import plan  # noqa: PLC0415
    from provision.profile import load, lockfile  # noqa: PLC0415
    from provision.render import FORMS as forms  # noqa: PLC0415
    from provision.render import render  # noqa: PLC0415
    from provision.render.base import choose, subject  # noqa: PLC0415

    path = load.find(profile)
    asked = load.load(path)
    chosen = forms[form]
    if chosen.file is None and output is None:
        msg = f"{form} is a folder"
        raise click.UsageError(msg + f"; say where with -o {asked.name}-{form}")
    locked = lockfile.find_or_build(path, asked, options.today())
    planned = plan(asked, locked, check_name(name or asked.name))
    place = choose(planned, cloud=chosen.cloud or cloud, where=where)
    files = render(form, subject(planned, place, _given(asked, deadline, public_key, ssh_from)))
    if output is None:
        click.echo(files[str(chosen.file)].decode(), nl=False)
    elif chosen.file is not None:
        options.write(output, files[chosen.file].decode())
    else:
        _write_folder(output, files)


def _given(profile: Profile, deadline: str | None, public_key: Path | None, ssh_from: str | None) -> Given:
    from provision.clouds.forms import Given  # noqa: PLC0415 - as above

    return Given(
        public_key=_key(public_key) if public_key else "",
        deadline=_time(deadline, profile.limits.deadline_h) if deadline else None,
        caller=_address(ssh_from) if ssh_from else "",
    )


def _key(path: Path) -> str:
    """Type and key of a public key file; its comment is nobody's business there."""
    import re  # noqa: PLC0415 - as above

    from provision.clouds.forms import KEY_PATTERN  # noqa: PLC0415

    try:
        text = " ".join(path.read_text(encoding="utf-8").split()[:2])
    except (OSError, UnicodeDecodeError):
        text = ""
    if not re.fullmatch(KEY_PATTERN, text):
        msg = f"{path} holds no OpenSSH public key of type ed25519, RSA or ECDSA"
        raise click.UsageError(msg)
    return text


def _time(text: str, hours: int) -> dt.datetime:
    """A time with its offset, not past and not later than the profile allows."""
    now = dt.datetime.now(dt.UTC)
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        found = now.replace(tzinfo=None)
    if found.tzinfo is None:
        msg = f"{text!a} is no time with an offset; write it as {now + dt.timedelta(hours=hours):%Y-%m-%dT%H:%M:%S+00:00}"
        raise click.UsageError(msg)
    if not now < found <= now + dt.timedelta(hours=hours):
        msg = f"{text} is not within the {hours} h that the profile allows from now"
        raise click.UsageError(msg)
    return found.astimezone(dt.UTC).replace(microsecond=0)


def _address(text: str) -> str:
    """One IPv4 address as a network."""
    import ipaddress  # noqa: PLC0415 - as above

    try:
        found = ipaddress.IPv4Network(text)
    except ValueError:
        found = ipaddress.IPv4Network("0.0.0.0/0")
    if found.prefixlen != found.max_prefixlen:
        msg = f"{text!a} is not one IPv4 address, written as 203.0.113.7/32; a wider network belongs into the profile"
        raise click.UsageError(msg)
    return str(found)


def _write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder that is new or empty: what is in it afterwards is what was rendered."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        msg = f"{folder} is there already; name a folder that is not"
        raise click.UsageError(msg)
    for name, content in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
