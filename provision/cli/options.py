"""Options and arguments that several commands share, with what a shell completes for them."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

__all__ = [
    "as_json",
    "assume_yes",
    "complete_instances",
    "confirmed",
    "in_rehearsal",
    "known",
    "named_host",
    "need_terminal",
    "optional_profile",
    "print_json",
    "required_profile",
    "seconds",
    "strict",
    "tier",
    "to_json",
    "today",
    "without_gpu",
    "write",
]


def _profiles(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    from provision.profile import load  # noqa: PLC0415 - completion must not slow down --help

    return [CompletionItem(listed.name, help=listed.purpose) for listed in load.list_profiles() if listed.name.startswith(typed)]


def complete_instances(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """What a shell completes where a host is meant: the instances launched from here."""
    from provision.workflow.session import Session  # noqa: PLC0415

    return [
        CompletionItem(name)
        for record in Session.open().journal.all()
        for name in dict.fromkeys([record.name, *record.hosts])
        if name.startswith(typed)
    ]


required_profile = click.option(
    "-p", "--profile", required=True, metavar="NAME|FILE", shell_complete=_profiles, help="A profile's name, or a YAML file."
)
optional_profile = click.option(
    "-p", "--profile", metavar="NAME|FILE", shell_complete=_profiles, help="The profile that should hold; an instance knows its own."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
without_gpu = click.option("--without-gpu", is_flag=True, help="Excuse the GPU part; the report says so in its first line.")
tier = click.option(
    "--tier",
    type=click.Choice(["quick", "standard", "perf"]),
    help="How much to look at: quick imports no framework, perf also measures under load.  [default: as the profile says, or standard]",
)
strict = click.option("--strict", is_flag=True, help="Count warnings as failures.")


in_rehearsal = click.option("--rehearse", is_flag=True, help="In the embedded cloud; an instance launched from here knows where it is.")
assume_yes = click.option("-y", "--yes", is_flag=True, help="Do it without asking.")


def confirmed(question: str, lines: Sequence[str], *, yes: bool) -> bool:
    """Whether the user agrees to what the lines say; shown on standard error, so that standard output stays data."""
    if yes:
        return True
    for line in lines:
        click.echo(f"  {line}", err=True)
    return click.confirm(question, err=True)


def need_terminal(*, yes: bool, what: str) -> None:
    """Refuse to ask where nobody can answer, before anything is asked of a cloud.

    Raises:
        UsageError: there is no terminal, and no --yes.
    """
    from provision.errors import UsageError  # noqa: PLC0415 - --help must be light

    if not yes and not sys.stdin.isatty():
        msg = f"{what} asks first, and there is no terminal to answer from"
        raise UsageError(msg, hint="say --yes to do it without asking")


def named_host(*, required: bool = True) -> Callable[[Any], Any]:
    """The HOST argument: an instance's name, `localhost`, or anything ssh knows."""
    return click.argument("host", metavar="HOST", required=required, shell_complete=complete_instances)


def today() -> dt.date:
    """The day whose supported releases count: the user's own."""
    return dt.datetime.now(dt.UTC).date()


def print_json(data: Any) -> None:
    """Print JSON for programs: stable keys, one document."""
    click.echo(to_json(data))


def to_json(data: Any) -> str:
    """JSON for programs: stable keys, one document."""
    return json.dumps(data, indent=2, ensure_ascii=False, default=str)


def write(path: Path, text: str) -> None:
    """Write a file that was asked for, whole or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}"
        raise click.UsageError(msg) from error
    finally:
        beside.unlink(missing_ok=True)


def known(word: str, all_known: Sequence[str], what: str) -> None:
    """Refuse a word that is none of those known, with the nearest."""
    import difflib  # noqa: PLC0415

    if word not in all_known:
        near = difflib.get_close_matches(word, all_known, n=1)
        msg = f"no {what} called {word!a}" + (f"; did you mean {near[0]}?" if near else "")
        raise click.UsageError(msg)


def seconds(text: str) -> float:
    """A time such as `90s`, `10m` or `2h`; a bare number is seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if found is None:
        msg = f"{text!a} is no time; write it as 90s, 10m or 2h"
        raise click.UsageError(msg)
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]
