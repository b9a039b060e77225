"""The generated parts of the reference, from the installed package; commands are as Click has them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import click

from docs.site import checks, keys
from docs.site.cells import code, prose, table
from provision.cli import COMMANDS, cli

_RANGE: Final = re.compile(r"(?:; |\s*\[)([\d.]+)<=x(?:<=([\d.]+))?\]?")  # as Click says what a number may be
_DEFAULT: Final = re.compile(r"\s*\[(?:default: (?P<default>[^\]]*)|(?P<needed>required))\]$")


def every_command() -> Iterator[tuple[str, click.Command]]:
    """(words, command) for every command, a group before what is in it."""
    context = click.Context(cli)
    yield "gpuprov", cli
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        yield f"gpuprov {name}", command
        if isinstance(command, click.Group):
            yield from ((f"gpuprov {name} {below}", each) for below, each in sorted(command.commands.items()))


def _argument(argument: click.Argument, command: click.Command) -> tuple[str, str, str]:
    shown = argument.make_metavar(click.Context(command)).strip("[]").removesuffix("...").removesuffix("]…")
    several = ", one or more" if argument.nargs == -1 else ""
    return code(shown), f"An argument{several}.", "needed" if argument.required else "may be left out"


def _option(option: click.Option, command: click.Command) -> tuple[str, str, str]:
    said = option.get_help_record(click.Context(command))
    assert said is not None, f"{command.name}: {option.name} is not shown"
    spelled, text = said
    bounds = _RANGE.search(text)
    text = _RANGE.sub("]" if bounds and bounds[0].startswith(";") else "", text)
    found = _DEFAULT.search(text)
    default = "" if found is None else "needed" if found["needed"] else prose(found["default"])
    within = "" if bounds is None else f" From {bounds[1]} to {bounds[2]}." if bounds[2] else f" At least {bounds[1]}."
    return code(spelled), prose(_DEFAULT.sub("", text) + within), default


def commands() -> str:
    """Every command with its arguments and options."""
    lines = []
    for words, command in every_command():
        context = click.Context(command)
        usage = " ".join((words, *command.collect_usage_pieces(context)))
        said = inspect.cleandoc(command.help or "").replace("\b\n", "")
        lines += [f"### {code(words)}", "", f"```text\n{usage}\n```", "", *(f"{prose(each)}\n" for each in said.split("\n\n"))]
        rows = [_argument(each, command) for each in command.params if isinstance(each, click.Argument)]
        rows += [_option(each, command) for each in command.get_params(context) if isinstance(each, click.Option) and not each.hidden]
        lines += table(("word", "does", "default"), rows)
    return "\n".join(lines)


GENERATED: Final[Mapping[str, Callable[[], str]]] = {"commands": commands, "profile": keys.reference, "checks": checks.reference}
"""Marker → what takes its place."""
