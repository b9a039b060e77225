"""The command line: parse, call one function, print. The only home of Click, and the only place that prints errors.

Commands are imported when they are called: `gpuprov --help` costs Click and nothing else.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Final, cast

import click

from provision import __version__
from provision.errors import EXIT_INTERRUPTED, EXIT_USAGE, GpuprovError

__all__ = ["COMMANDS", "cli", "main"]

COMMANDS: Final = {
    "up": "Launch, set up and prove a GPU host from a profile.",
    "lock": "Resolve a profile into the exact stack that is signed, or check its lock.",
    "explain": "Say why the stack of a profile is what it is.",
    "diff": "Compare two locks, or two hosts, value by value.",
    "catalog": "Browse and refresh what exists: GPUs, instance types, stacks.",
    "review": "Write what others need to decide on a profile, as pages and data.",
    "plan": "Show what `up` would make, where and at what price.",
    "policy": "Check profiles against the organisation's rules.",
    "sign": "Approve a review bundle with an SSH key.",
    "verify-signature": "Say who signed a review bundle, and whether that is enough.",
    "render": "Write a profile as CloudFormation, Terraform, cloud-init, a playbook or a runbook.",
    "verify": "Prove that a profile holds on hosts.",
    "accept": "Write the certificate of a host that was handed over, from evidence.",
    "probe": "Gather a host's facts as JSON, without judging them.",
    "apply": "Set up a host that exists.",
    "undo": "Put back what the roles changed on a host.",
    "ls": "List the instances that gpuprov launched.",
    "stop": "Power machines off; their disks stay.",
    "start": "Power machines on again, at their new addresses.",
    "extend": "Move the deadline, within what the profile allows.",
    "allow": "Open port 22 to the address you have now.",
    "push": "Copy files to an instance.",
    "pull": "Copy files from an instance.",
    "ssh": "Open a shell, or run a command, on an instance.",
    "down": "Remove an instance and everything made for it.",
    "sweep": "Remove what is of no use to anybody any more.",
    "profile": "List, show and check profiles.",
    "rehearse": "Start, stop and inspect the embedded cloud.",
    "completion": "Print the completion script of a shell.",
}
"""Name → one line of help; each is the module of the same name, with _ for -. A test compares this with the folder."""


class _LazyGroup(click.Group):
    """A group whose commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        return cast("click.Command", importlib.import_module(f"provision.cli.{cmd_name.replace('-', '_')}").command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gpuprov")
@click.option("-v", "--verbose", is_flag=True, help="Show what the other side said when something fails.")
@click.pass_context
def cli(ctx: click.Context, *, verbose: bool) -> None:
    """From one reviewed YAML profile to a GPU host that is proven to be what was asked for.

    Exit codes: 0 all holds (or is waived or warned of), 1 a check failed, 2 wrong usage or profile, 3 something unknown or unreachable,
    4 a cloud or a playbook failed, 130 interrupted.
    """
    ctx.obj = {"verbose": verbose}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with the code of the contract."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    verbose = bool({"-v", "--verbose"} & set(words[:1]))
    try:
        code = cli.main(args=words, prog_name="gpuprov", standalone_mode=False)
    except GpuprovError as error:
        _print_error(error.code, error.message, error.hint, error.detail if verbose else "")
        code = error.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        _print_error("usage", error.format_message(), f"`{context.command_path if context else 'gpuprov'} --help` shows what it takes")
        code = EXIT_USAGE
    except (KeyboardInterrupt, click.Abort):
        # What was half built when the signal came complains while it is collected; that is of no use to who pressed Ctrl-C.
        sys.unraisablehook = lambda _: None
        warnings.simplefilter("ignore")
        _print_error(
            "interrupted", "interrupted", "`gpuprov ls` shows what exists, `gpuprov down NAME` removes it, the same command goes on"
        )
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader went away (`| head`); Python would complain once more while it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code if isinstance(code, int) else 0)


def _print_error(code: str, message: str, hint: str, detail: str = "") -> None:
    click.secho(f"error[{code}]: ", fg="red", bold=True, nl=False, err=True)
    click.echo(message, err=True)
    click.secho("hint: ", fg="cyan", nl=False, err=True)
    click.echo(hint, err=True)
    if detail:
        click.echo(f"detail: {detail}", err=True)
