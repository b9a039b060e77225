"""The command line: parse, call one function, print. The only home of Click, and the only place that prints errors.

The group imports the module of a command when it is called, and lists all of them from `COMMANDS`. So `gpuprov --help` costs Click and
nothing else, and every other import can stand at the top of its module.
"""

import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Final, cast

import click

from provision import __version__
from provision.errors import EXIT_INTERRUPTED, EXIT_USAGE, GpuprovError

COMMANDS: Final = {
    "up": "Launch a GPU host from a profile, set it up and prove it.",
    "lock": "Resolve a profile into its exact stack, or check its lock.",
    "explain": "Say why a profile gets the stack that it gets.",
    "diff": "Compare two locks, or two hosts, value by value.",
    "catalog": "Browse and refresh what exists: GPUs, instance types, stacks.",
    "review": "Write the bundle on which others decide about a profile.",
    "plan": "Show what `up` would do, where and at what price.",
    "policy": "Check profiles against the organisation's rules.",
    "sign": "Approve a review bundle with an SSH key.",
    "verify-signature": "Say who signed a review bundle, and whether that is enough.",
    "render": "Write a profile for CloudFormation, Terraform, cloud-init, Ansible or as a runbook.",
    "verify": "Prove that a profile holds on hosts.",
    "accept": "Write the certificate of hosts that were handed over, from evidence.",
    "probe": "Gather a host's facts as JSON, without judging them.",
    "apply": "Set up a host that exists.",
    "undo": "Put back what the roles changed on a host.",
    "ls": "List the instances that gpuprov launched.",
    "stop": "Power machines off. Their disks stay.",
    "start": "Power machines on again.",
    "extend": "Move the deadline, within what the profile allows.",
    "allow": "Open port 22 to your current address.",
    "push": "Copy files to an instance.",
    "pull": "Copy files from an instance.",
    "ssh": "Open a shell, or run a command, on an instance.",
    "down": "Remove an instance and everything that was made for it.",
    "sweep": "Remove leftovers and machines past their deadline.",
    "profile": "Write, list, show and check profiles.",
    "rehearse": "Check for, start, stop and inspect the embedded cloud.",
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
@click.option("-v", "--verbose", is_flag=True, help="On an error, also show the answer of the cloud or host.")
@click.pass_context
def cli(ctx: click.Context, *, verbose: bool) -> None:
    """Turn one reviewed YAML profile into a GPU host that is proven to match it.

    Exit codes: 0 everything holds (or is waived or only a warning), 1 a check failed, 2 wrong usage or an invalid profile, 3 something is
    unknown or unreachable, 4 a cloud or a playbook failed, 130 interrupted, 70 a defect of gpuprov.
    """
    ctx.obj = {"verbose": verbose}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with the code of the contract."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    verbose = bool({"-v", "--verbose"} & set(words[:1]))
    try:
        code = cli.main(args=words, prog_name="gpuprov", standalone_mode=False)
    except GpuprovError as error:
        _print_error(error.code, error.message, error.hint, error.detail if verbose or error.always_detailed else "")
        code = error.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        _print_error("usage", error.format_message(), f"`{context.command_path if context else 'gpuprov'} --help` shows the usage")
        code = EXIT_USAGE
    except (KeyboardInterrupt, click.Abort):
        # Objects that were half built when the signal came complain while they are collected, which helps nobody.
        sys.unraisablehook = lambda _: None
        warnings.simplefilter("ignore")
        _print_error(
            "interrupted", "interrupted", "`gpuprov ls` shows what exists, `gpuprov down NAME` removes it, the same command continues"
        )
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader went away (`| head`); Python would complain once more while it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:  # noqa: BLE001 - the last boundary: Python would exit with 1, which says that a check failed
        from provision.cli.defect import describe  # noqa: PLC0415 - what it imports would slow every command

        defect = describe(error)
        _print_error(defect.code, defect.message, defect.hint)
        code = defect.exit_code
    sys.exit(code if isinstance(code, int) else 0)


def _print_error(code: str, message: str, hint: str, detail: str = "") -> None:
    click.secho(f"error[{code}]: ", fg="red", bold=True, nl=False, err=True)
    click.echo(message, err=True)
    click.secho("hint: ", fg="cyan", nl=False, err=True)
    click.echo(hint, err=True)
    if detail:
        click.echo(f"detail: {detail}", err=True)
