"""The command line: parse, call one function, print. The only home of Click, and the only place that prints errors.

The group imports the module of a command when it is called, and lists all of them from `COMMANDS`. So `gpuprov --help` costs Click and
nothing else, and every other import can stand at the top of its module.
"""

import importlib
import itertools
import json
import os
import re
import select
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TextIO, cast

import click

from provision import __version__
from provision.errors import EXIT_CUT, EXIT_INTERRUPTED, EXIT_USAGE, GpuprovError, InterruptedRunError, UsageError

COMMANDS: Final = {
    "up": "Launch a GPU host from a profile, set it up and prove it.",
    "fleet": "Keep a group of machines by the cloud's own engine, which heals and rolls it.",
    "bake": "Make images of proven machines, from which later launches start.",
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
    "export": "Write proven hosts for Ray, Slurm, SkyPilot, dstack, MPI, torchrun, Ansible or ssh.",
    "accept": "Write the certificate of hosts that were handed over, from evidence.",
    "probe": "Gather a host's facts as JSON, without judging them.",
    "monitor": "Watch the GPUs of hosts, with nothing installed there.",
    "trace": "Say why a program is slow on its GPUs.",
    "explain-metric": "Name the ncu metric that replaced one of nvprof.",
    "bench": "Measure GPUs, and say whether they are as fast as their kind.",
    "apply": "Set up hosts that exist.",
    "mirror": "Fill a folder with everything that `apply` downloads.",
    "undo": "Put back what the roles changed on a host.",
    "ls": "List the instances that gpuprov launched.",
    "cost": "Say what the instances cost, so far and to their deadlines.",
    "idle": "Wait until a launch is idle, warn, and stop or remove it.",
    "stop": "Power machines off. Their disks stay.",
    "start": "Power machines on again.",
    "extend": "Move the deadline, within what the profile allows.",
    "allow": "Open port 22 to your current address.",
    "push": "Copy files to an instance.",
    "pull": "Copy files from an instance.",
    "ssh": "Open a shell, or run a command, on an instance.",
    "down": "Remove an instance and everything that was made for it.",
    "sweep": "Remove leftovers and machines past their deadline.",
    "log": "Show who changed what on whose approval, and check that log.",
    "profile": "Write, list, show and check profiles.",
    "explain-error": "Say what an error code means and what to do about it.",
    "rehearse": "Check for, start, stop and inspect the embedded cloud.",
    "completion": "Print the completion script of a shell.",
}
"""Name → one line of help; each is the module of the same name, with _ for -. A test compares this with the folder."""


_COLOURS: Final = ("auto", "always", "never")
_UNPLAIN: Final = re.compile(r"\r\n|[^ -~\n\t]")
_SPACES: Final = ("\r\n", "\xa0", "\u202f", "\u3000")  # not printable to Python, and harmless
_COLOURED: Final = re.compile(r"(\x1b\[[0-9;]*m)")
_SPEAKS_TO_HOSTS: Final = "ssh"  # the words after its HOST are for the host


def _paint(ctx: click.Context, _param: click.Parameter, choice: str | None) -> None:
    """Note the choice where Click looks for it; a choice after the command counts more than one before it."""
    if choice is not None or ctx.parent is None:
        ctx.color = _decided(choice)


def _decided(choice: str | None) -> bool | None:
    """Whether output has colours; None where that depends on whether it goes to a terminal."""
    if choice in {"always", "never"}:
        return choice == "always"
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


def _colour_option() -> click.Option:
    text = "Colour the output and the errors.  [default: auto, which obeys NO_COLOR and TERM=dumb]"
    return click.Option(["--color"], type=click.Choice(_COLOURS), expose_value=False, callback=_paint, help=text)


class _ReaderLeftError(Exception):
    """Nobody reads what a command prints any more."""


def _is_left(stream: TextIO) -> bool:
    """Whether a stream goes to a pipe whose reader has closed it."""
    poll = select.poll()
    poll.register(stream, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


class _LazyGroup(click.Group):
    """A group whose commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        command = cast("click.Command", importlib.import_module(f"provision.cli.{cmd_name.replace('-', '_')}").command)
        for each in command.commands.values() if isinstance(command, click.Group) else (command,):
            if all("--color" not in parameter.opts for parameter in each.params):
                each.params.append(_colour_option())
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the words, here or in a group below; an unknown one is an error that suggests what may be meant."""
        if ctx.resilient_parsing:  # a shell completes the words
            return super().resolve_command(ctx, args)
        name, *rest = args
        command = self.get_command(ctx, name)
        if command is None and not name.startswith("-"):
            raise _no_command(name, COMMANDS)
        if isinstance(command, click.Group) and rest and not rest[0].startswith("-") and rest[0] not in command.commands:
            raise _no_command(rest[0], command.commands, name)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            if _is_left(sys.stdout) or _is_left(sys.stderr):
                raise _ReaderLeftError from None
            # Click would take it for the reader of the output, and hide it.
            msg = "a connection was closed while it was written to"
            raise ConnectionError(msg) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _no_command(word: str, names: Iterable[str], group: str = "") -> UsageError:
    from provision.cli.unknown import suggestion  # noqa: PLC0415 - of use for a wrong word alone

    return suggestion(word, names, group)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gpuprov")
@click.option("-v", "--verbose", is_flag=True, help="On an error, also show the answer of the cloud or host.")
@click.pass_context
def cli(ctx: click.Context, *, verbose: bool) -> None:
    """Turn one reviewed YAML profile into a GPU host that is proven to match it.

    Exit codes: 0 everything holds (or is waived or only a warning), 1 a check failed, 2 wrong usage or an invalid profile, 3 something is
    unknown or unreachable, 4 a cloud or a playbook failed, 130 interrupted, 70 a defect of gpuprov.
    """
    ctx.ensure_object(dict)["verbose"] = verbose


cli.params.append(_colour_option())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with the code of the contract."""
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
    except (BrokenPipeError, _ReaderLeftError):
        # The reader went away (`| head`), perhaps of the errors too; Python would complain once more while it flushes at exit. What was cut
        # short may be a verdict, so it is not 0; the code is that of a program which SIGPIPE ends.
        for stream in (sys.stdout, sys.stderr):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        code = EXIT_CUT
    sys.exit(code)


def _run(words: list[str]) -> int:
    """Run the command of these words and print its error; returns the exit code."""
    shared: dict[str, Any] = {}
    try:
        code = cli.main(args=words, prog_name="gpuprov", standalone_mode=False, obj=shared)
    except (BrokenPipeError, _ReaderLeftError):
        raise
    except SystemExit as ended:
        # Click prints help before it invokes anything, and ends so where the reader went away: with 1, which says here that a check failed.
        raise _ReaderLeftError from ended
    except GpuprovError as error:
        if error.exit_code == EXIT_INTERRUPTED:
            _quieten()
        return _fail(error, words, shared)
    except click.exceptions.NoArgsIsHelpError as error:
        echo(error.format_message(), err=True)
        return EXIT_USAGE
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f"`{context.command_path if context else 'gpuprov'} --help` shows the usage"
        return _fail(UsageError(error.format_message(), hint=hint), words, shared)
    except (KeyboardInterrupt, click.Abort):
        _quieten()
        hint = "`gpuprov ls` shows what exists, `gpuprov down NAME` removes it, the same command continues"
        return _fail(InterruptedRunError("interrupted", hint=hint), words, shared)
    except Exception as error:  # noqa: BLE001 - the last boundary: Python would exit with 1, which says that a check failed
        from provision.cli.defect import describe  # noqa: PLC0415 - what it imports would slow every command

        return _fail(describe(error), words, shared)
    return code if isinstance(code, int) else 0


def _quieten() -> None:
    """Objects that were half built when the signal came complain while they are collected, which helps nobody."""
    sys.unraisablehook = lambda _: None
    warnings.simplefilter("ignore")


def _fail(error: GpuprovError, words: Sequence[str], shared: Mapping[str, Any]) -> int:
    """Print an error: its text on standard error and, for programs, one JSON object on standard output. Returns the exit code."""
    detail = error.detail if shared.get("verbose") or error.always_detailed else ""
    before = words[: words.index("--")] if "--" in words else words
    flat = [part for word in before for part in (word.split("=", 1) if word.startswith("--color=") else [word])]
    colours = [value for option, value in itertools.pairwise(flat) if option == "--color"]
    colour = _decided(colours[-1] if colours else None)
    click.secho(f"error[{error.code}]: ", fg="red", bold=True, nl=False, err=True, color=colour)
    echo(error.message, err=True)
    click.secho("hint: ", fg="cyan", nl=False, err=True, color=colour)
    echo(error.hint, err=True)
    see = f"gpuprov explain-error {error.code}"
    click.secho(f"see: {see}", dim=True, err=True, color=colour)
    if detail:
        echo(f"detail: {detail}", err=True)
    if "--json" in before and next((word for word in before if word in COMMANDS), "") != _SPEAKS_TO_HOSTS:
        from provision.cli.options import print_json  # noqa: PLC0415 - of use for programs alone

        said = {"code": error.code, "message": error.message, "hint": error.hint, "see": see, **({"detail": detail} if detail else {})}
        print_json({**shared.get("beside", {}), "error": said})
    return error.exit_code


def inert(text: str) -> str:
    """A text, perhaps a stranger's, without the characters that a terminal or a layout obeys; JSON keeps its value."""
    return _UNPLAIN.sub(lambda found: found[0] if found[0].isprintable() or found[0] in _SPACES else json.dumps(found[0])[1:-1], text)


def echo(text: str, *, err: bool = False, nl: bool = True, styled: bool = False) -> None:
    """Print what a command says: nothing else does, so no host, cloud or file speaks to the terminal. Colours stay in `styled` text."""
    parts = _COLOURED.split(text) if styled else [text]
    click.echo("".join(part if number % 2 else inert(part) for number, part in enumerate(parts)), err=err, nl=nl)
