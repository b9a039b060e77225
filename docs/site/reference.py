"""The generated parts of the reference, from the package itself; commands are as Click has them.

They are committed, so that the pages can be read where nobody has built the site: `python -m docs.site.reference --write` puts them
into the pages, and a test says when that is needed. Each stands below a marker, `<!-- generated: commands -->`, at the end of its page.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from docs.site import checks, keys
from docs.site.cells import code, prose, table
from provision.cli import COMMANDS, cli

_PAGES: Final = Path(__file__).resolve().parents[1] / "reference"
_ANCHOR: Final = re.compile(r" \{#[^}]*\}$", re.MULTILINE)
_CODE: Final = re.compile(r"`[^`]*`")
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


def _as_typed(text: str) -> str:
    return f"```text\n{text}\n```"


def _paragraph(text: str) -> str:
    shown = _as_typed(inspect.cleandoc(text.removeprefix("\b\n"))) if text.startswith("\b") else prose(text)
    return f"{shown}\n"


def commands() -> str:
    """Every command with its arguments and options."""
    lines = []
    for words, command in every_command():
        context = click.Context(command)
        usage = " ".join((words, *command.collect_usage_pieces(context)))
        said = inspect.cleandoc(command.help or "").split("\n\n")
        lines += [f"### {code(words)}", "", _as_typed(usage), "", *(_paragraph(each) for each in said)]
        rows = [_argument(each, command) for each in command.params if isinstance(each, click.Argument)]
        rows += [_option(each, command) for each in command.get_params(context) if isinstance(each, click.Option) and not each.hidden]
        lines += table(("word", "does", "default"), rows)
    return "\n".join(lines)


GENERATED: Final[Mapping[str, Callable[[], str]]] = {"commands": commands, "profile": keys.reference, "checks": checks.reference}
"""Page, and the word of its marker → what stands below it."""


def written(name: str, *, for_site: bool = False) -> str:
    """A page with its generated part, as it is committed, or as MkDocs takes it."""
    page = (_PAGES / f"{name}.md").read_text()
    marker = f"<!-- generated: {name} -->\n"
    part = GENERATED[name]().rstrip("\n")
    return f"{page.partition(marker)[0]}{marker}\n{part if for_site else _for_github(part)}\n"


def _for_github(part: str) -> str:
    """Without anchors, which GitHub shows as words, and with the bars escaped that are no end of a cell there."""
    cells = (_CODE.sub(lambda found: found[0].replace("|", r"\|"), line) if line.startswith("|") else line for line in part.splitlines())
    return _ANCHOR.sub("", "\n".join(cells))


def main() -> None:
    """Write the pages with `--write`; else fail where one is not as it would be written."""
    for name in GENERATED:
        page = _PAGES / f"{name}.md"
        if "--write" in sys.argv[1:]:
            page.write_text(written(name))
        elif page.read_text() != written(name):
            sys.exit(f"{page.name} is not what the package says: python -m docs.site.reference --write")


if __name__ == "__main__":
    main()
