"""Options and arguments that several commands share, with what a shell completes for them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

__all__ = ["as_json", "named_host", "optional_profile", "print_json", "required_profile", "strict", "today", "without_gpu"]


def _profiles(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    from provision.profile import load  # noqa: PLC0415 - completion must not slow down --help

    return [CompletionItem(listed.name, help=listed.purpose) for listed in load.list_profiles() if listed.name.startswith(typed)]


def _instances(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    from provision.workflow.session import Session  # noqa: PLC0415

    return [CompletionItem(record.name) for record in Session.open().journal.all() if record.name.startswith(typed)]


required_profile = click.option(
    "-p", "--profile", required=True, metavar="NAME|FILE", shell_complete=_profiles, help="A profile's name, or a YAML file."
)
optional_profile = click.option(
    "-p", "--profile", metavar="NAME|FILE", shell_complete=_profiles, help="The profile that should hold; an instance knows its own."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
without_gpu = click.option("--without-gpu", is_flag=True, help="Excuse the GPU part; the report says so in its first line.")
strict = click.option("--strict", is_flag=True, help="Count warnings as failures.")


def named_host(*, required: bool = True) -> Callable[[Any], Any]:
    """The HOST argument: an instance's name, `localhost`, or anything ssh knows."""
    return click.argument("host", metavar="HOST", required=required, shell_complete=_instances)


def today() -> dt.date:
    """The day whose supported releases count: the user's own."""
    return dt.datetime.now(dt.UTC).date()


def print_json(data: Any) -> None:
    """Print JSON for programs: stable keys, one document."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False, default=str))
