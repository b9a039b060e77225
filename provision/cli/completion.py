"""`gpuprov completion`."""

import click
from click.shell_completion import get_completion_class

from provision.cli import cli, echo


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(*, shell: str) -> None:
    """Print the completion script of SHELL. For bash: eval "$(gpuprov completion bash)"."""
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - the three are Click's own
    echo(kind(cli, {}, "gpuprov", "_GPUPROV_COMPLETE").source())
