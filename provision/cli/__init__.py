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
import textwrap
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TextIO, cast

import click

from provision import __version__
from provision.errors import EXIT_CUT, EXIT_INTERRUPTED, EXIT_USAGE, GpuprovError, InterruptedRunError, UsageError

GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "Every day": {
        "profile": "Write a first profile; list, show and check profiles.",
        "plan": "Show what `up` would do, where and at what price.",
        "up": "Launch a GPU host from a profile, set it up and prove it.",
        "ls": "List the instances that gpuprov launched.",
        "ssh": "Open a shell, or run a command, on an instance.",
        "push": "Copy files to an instance.",
        "pull": "Copy files from an instance.",
        "verify": "Prove that hosts match their profile.",
        "down": "Remove an instance and everything that was made for it.",
    },
    "Before a launch": {
        "lock": "Resolve a profile into its exact stack, or check its lock.",
        "explain": "Say why a profile gets the stack that it gets.",
        "diff": "Compare two locks, or two hosts, value by value.",
        "catalog": "Browse and refresh GPUs, instance types and stacks.",
        "review": "Write the bundle on which others decide about a profile.",
        "policy": "Check profiles against the organisation's rules.",
        "sign": "Approve a review bundle with an SSH key.",
        "verify-signature": "Say who signed a bundle, and whether that is enough.",
        "render": "Write a profile for Terraform and others, or as a runbook.",
    },
    "Machines": {
        "monitor": "Watch the GPUs of hosts, with nothing installed there.",
        "trace": "Say why a program is slow on its GPUs.",
        "explain-metric": "Name the ncu metric that replaced one of nvprof.",
        "bench": "Benchmark GPUs and compare with sourced figures.",
        "cost": "Say what the instances cost, so far and to the deadline.",
        "extend": "Move the deadline, within what the profile allows.",
        "stop": "Power machines off. Disks inside them are emptied.",
        "start": "Power machines on again.",
        "idle": "Wait until a launch is idle, warn, and stop or remove it.",
        "allow": "Open port 22 to your current address.",
        "sweep": "Remove leftovers and machines past their deadline.",
        "log": "Show who changed what on whose approval; check the log.",
        "fleet": "Keep a group of machines that the cloud heals and rolls.",
        "bake": "Make images of proven machines for later launches.",
    },
    "Hosts": {
        "apply": "Set up hosts that exist.",
        "undo": "Put back what the roles changed on a host.",
        "probe": "Gather a host's facts as JSON, without judging them.",
        "export": "Write proven hosts for Ray, Slurm, Ansible and others.",
        "accept": "Write the certificate of a hand-over, from evidence.",
        "mirror": "Fill a folder with everything that `apply` downloads.",
    },
    "Around it": {
        "rehearse": "Check for, start, stop and inspect the embedded cloud.",
        "explain-error": "Say what an error code means and what to do about it.",
        "completion": "Print the completion script of a shell.",
    },
}
"""Heading → name → one line of help; each command is the module of the same name, with _ for -. A test compares this with the folder."""
COMMANDS: Final = {name: text for group in GROUPS.values() for name, text in group.items()}


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


def _note_verbose(ctx: click.Context, _param: click.Parameter, given: bool) -> None:  # noqa: FBT001 - click's signature
    if given:
        ctx.ensure_object(dict)["verbose"] = True


def _verbose_option() -> click.Option:
    text = "On an error, also show the answer of the cloud or host."
    return click.Option(["-v", "--verbose"], is_flag=True, expose_value=False, callback=_note_verbose, help=text)


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
            each.short_help = each.get_short_help_str(limit=1000)  # a group cuts it by default
            if all("--color" not in parameter.opts for parameter in each.params):
                each.params += [_colour_option(), _verbose_option()]
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the words, here or in a group below; an unknown one is an error that suggests what may be meant."""
        if ctx.resilient_parsing:  # a shell completes the words
            return super().resolve_command(ctx, args)
        if args[0] == "help":
            args = [*args[1:], "--help"]
            if args[0] == "--help":
                formatter = ctx.make_formatter()
                super().format_help(ctx, formatter)
                echo(formatter.getvalue().rstrip())
                ctx.exit()
        name, *rest = args
        command = self.get_command(ctx, name)
        if command is None and not name.startswith("-"):
            raise _unknown(name, COMMANDS)
        if isinstance(command, click.Group) and rest and not rest[0].startswith("-") and rest[0] not in command.commands:
            raise _unknown(rest[0], command.commands, name)
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

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One screen of 80 x 24; `gpuprov help` has all of it."""
        self.format_usage(ctx, formatter)
        formatter.write(f"\n  {(self.help or '').partition(chr(10))[0]}\n")
        (first, daily), *others = GROUPS.items()
        with formatter.section(first):
            formatter.write_dl(list(daily.items()))
        formatter.write("\n")
        for heading, group in others:
            names = f"{heading}: {', '.join(group)}"
            formatter.write(textwrap.fill(names, formatter.width, subsequent_indent="  ", break_on_hyphens=False) + "\n")
        formatter.write("\n`gpuprov help`: a line for each, options, examples; `gpuprov help up`: one\n")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        widest = max(map(len, COMMANDS))
        for heading, group in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:{widest}}", text) for name, text in group.items()])


def _unknown(word: str | click.NoSuchOption, names: Iterable[str] = (), group: str = "") -> UsageError:
    from provision.cli.unknown import no_option, suggestion  # noqa: PLC0415 - of use for a wrong word alone

    if isinstance(word, click.NoSuchOption):
        return no_option(word)
    return suggestion(word, names, group)


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 everything passed (or was waived, or only warned), 1 a check failed, 2 wrong usage or an invalid profile, "
    "3 something is unknown or unreachable, 4 a cloud or a playbook failed, 130 interrupted, 70 a defect of gpuprov.",
)
@click.version_option(__version__, prog_name="gpuprov")
def cli() -> None:
    """Turn one reviewed YAML profile into a GPU host that is proven to match it.

    \b
    gpuprov profile new --gpu t4 --region us-east-1 --name mine
    gpuprov up mine --rehearse --without-gpu    # on this machine, free
    gpuprov help verify                         # one command's options
    """  # noqa: D301 - Click's mark of lines that stay as they are


cli.params += [_colour_option(), _verbose_option()]


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
    except click.NoSuchOption as error:
        return _fail(_unknown(error), words, shared)
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
