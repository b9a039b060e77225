"""What `gpuprov X --help` prints for every command and group on 80 columns: `python -m tests.cli.helped [--write]`.

`helped.txt` beside this file is what was printed last, so that a change of a command's help is seen in review; a test compares the two.
"""

import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click

from provision.cli import COMMANDS, cli

GOLDEN = Path(__file__).with_suffix(".txt")
WIDTH = 78  # Click leaves two of the 80 columns free
CLICK = f"click {version('click')}"
"""Another version lays lines out in its own way."""


def _commands() -> Iterator[tuple[str, ...]]:
    yield ()
    for name in COMMANDS:
        yield (name,)
        command = cli.get_command(click.Context(cli), name)
        if isinstance(command, click.Group):
            yield from ((name, below) for below in command.commands)


def _help(words: tuple[str, ...]) -> str:
    command: click.Command | None = cli
    context = click.Context(cli, info_name="gpuprov", terminal_width=WIDTH, **cli.context_settings)
    for word in words:
        assert isinstance(command, click.Group)
        command = command.get_command(context, word)
        assert command is not None
        context = click.Context(command, info_name=word, parent=context, terminal_width=WIDTH)
    return command.get_help(context) if command else ""


def output() -> str:
    """All of it."""
    return "\n\n".join([CLICK, *(f"$ {' '.join(('gpuprov', *words, '--help'))}\n{_help(words)}" for words in _commands())]) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        GOLDEN.write_text(output(), encoding="utf-8")
    else:
        sys.stdout.write(output())
