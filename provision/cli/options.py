"""Options and arguments that several commands share, with what a shell completes for them, and how they read and write data.

Every command imports this module, so it imports nothing heavy.
"""

import datetime as dt
import functools
import importlib
import json
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
from click.shell_completion import CompletionItem

from provision.cli import echo, inert
from provision.errors import UsageError
from provision.nearest import suggested
from provision.paths import write_whole
from provision.review.where import Organisation

if TYPE_CHECKING:
    from provision.verify.finding import Report

_FEW = 30  # words that an error can list


def complete_profiles(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """The profiles whose names begin with what is typed."""
    from provision.profile import load  # noqa: PLC0415 - 0.3 s; `verify` has this option and opens its connections first

    return [CompletionItem(entry.name, help=entry.purpose) for entry in load.list_profiles() if entry.name.startswith(typed)]


def complete_instances(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """What a shell completes for a host: the instances that were launched from here."""
    from provision.workflow.session import Session  # noqa: PLC0415 - as above

    return [
        CompletionItem(name)
        for record in Session.open().journal.all()
        for name in dict.fromkeys([record.name, *record.hosts])
        if name.startswith(typed)
    ]


def completing(module: str, words: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """What a shell completes where one of these words, or several with commas between them, is asked for.

    Args:
        module: is loaded for a shell alone.
        words: the name of the words in it, or of what returns them.
    """

    def complete(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
        found = getattr(importlib.import_module(module), words)
        before, comma, last = typed.rpartition(",")
        every = dict.fromkeys(found() if callable(found) else found)
        return [CompletionItem(f"{before}{comma}{word}") for word in every if word.startswith((last, last.lower()))]

    return complete


complete_checks = completing("provision.profile.check_ids", "CHECK_IDS")
complete_roles = completing("provision.converge.roles", "ROLES")
complete_regions = completing("provision.clouds.search", "regions")
complete_models = completing("provision.catalog.gpu_models", "GPU_MODELS")


def _profile_option(text: str) -> Callable[[Any], Any]:
    return click.option("-p", "--profile", metavar="NAME|FILE", shell_complete=complete_profiles, help=text)


def profile_to_plan(command: Callable[..., Any]) -> Callable[..., Any]:
    """The profile, as an argument or with -p; without one it is wrong usage."""

    def run(*args: Any, profile: str | None, **kwargs: Any) -> Any:
        if profile is None:
            msg = "no profile is given: name one as NAME|FILE, or with --profile"
            raise click.UsageError(msg)
        return command(*args, profile=profile, **kwargs)

    return _profile_twice("The same as NAME|FILE.")(functools.wraps(command)(run))


def profile_to_run(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same, without need where there is a bundle."""
    return _profile_twice("The same as NAME|FILE. Neither is needed with --bundle.")(command)


def _profile_twice(text: str) -> Callable[[Any], Callable[..., Any]]:
    """A profile as an argument, as every command takes it that reads a profile, or with -p; two that differ are wrong usage."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(*args: Any, profile: str | None, profile_argument: str | None, **kwargs: Any) -> Any:
            if None not in {profile, profile_argument} and profile != profile_argument:
                msg = f"two profiles are given: {profile_argument} and --profile {profile}"
                raise click.UsageError(msg)
            return command(*args, profile=profile_argument or profile, **kwargs)

        argument = click.argument("profile_argument", metavar="[NAME|FILE]", required=False, shell_complete=complete_profiles)
        decorated: Callable[..., Any] = argument(_profile_option(text)(run))
        return decorated

    return decorate


def file_option(*names: str, text: str, metavar: str = "FILE", **settings: Any) -> Callable[[Any], Any]:
    """An option for a file, which need not exist."""
    return click.option(*names, type=click.Path(dir_okay=False, path_type=Path), metavar=metavar, help=text, **settings)


optional_profile = _profile_option("The profile to match.  [default: the one the instance was launched from]")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
without_gpu = click.option("--without-gpu", is_flag=True, help="Excuse the GPU part. The report says so in its first lines.")
tier = click.option(
    "--tier",
    type=click.Choice(["quick", "standard", "perf"]),
    help="How much to check: quick imports no framework, perf also measures under load.  [default: the profile's tier, or standard]",
)
all_roles = click.option("--all", "all_roles", is_flag=True, help="Run every role, not only those whose checks do not pass.")
cheapest = click.option("--cheapest", is_flag=True, help="Try the profile's places by their price, the cheapest first, not in its order.")
timeout = click.option(
    "--timeout", "timeout_s", type=click.FloatRange(1, 3600), default=120, metavar="SECONDS", help="For one observation.  [default: 120]"
)
strict = click.option("--strict", is_flag=True, help="Count warnings as failures.")
bundle = click.option(
    "--bundle", metavar="FILE", type=click.Path(path_type=Path), help="A signed review bundle. Its profile and lock are used."
)
in_rehearsal = click.option(
    "--rehearse", is_flag=True, help="Look in the embedded cloud. Only needed for instances that were not launched from here."
)
assume_yes = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")

_POLICY = click.option("--policy", metavar="FILE", help="The organisation's rules.  [default: GPUPROV_POLICY, or /etc/gpuprov/policy.yml]")
_SIGNERS = click.option(
    "--signers", metavar="FILE", help="The people who may sign.  [default: GPUPROV_SIGNERS, or /etc/gpuprov/allowed_signers]"
)
_REVOKED = click.option("--revoked", metavar="FILE", help="The revoked keys.  [default: GPUPROV_REVOKED, or /etc/gpuprov/revoked_keys]")


def organisation(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options for the organisation's files, as the argument `organisation`."""
    return _POLICY(_SIGNERS(_REVOKED(_with_organisation(command))))


def organisation_rules(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same for commands that only look at rules."""
    return _POLICY(_with_organisation(command))


def _with_organisation(command: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(command)
    def run(*args: Any, policy: str | None, signers: str | None = None, revoked: str | None = None, **kwargs: Any) -> Any:
        return command(*args, organisation=Organisation.find(policy, signers, revoked), **kwargs)

    return run


def host_argument(*, required: bool = True) -> Callable[[Any], Any]:
    """The HOST argument: an instance's name, `localhost`, or anything ssh knows."""
    return click.argument("host", metavar="HOST", required=required, shell_complete=complete_instances)


def confirm(question: str, lines: Sequence[str], *, yes: bool) -> bool:
    """Whether the user agrees. The question is on standard error, so that standard output stays data."""
    if yes:
        return True
    for line in lines:
        echo(f"  {line}", err=True)
    return click.confirm(question, err=True)


def _tags(_ctx: click.Context, _param: click.Parameter, words: tuple[str, ...]) -> dict[str, str]:
    """The tags that are wanted."""
    pairs = [word.partition("=") for word in words]
    wrong = [word for word, (key, sign, value) in zip(words, pairs, strict=True) if not (key and sign and value)]
    if wrong:
        msg = f"--tag {wrong[0]!a} is not KEY=VALUE"
        raise click.UsageError(msg)
    if len({key for key, _, _ in pairs}) < len(pairs):
        msg = "--tag has a key twice, and nothing has two values of it"
        raise click.UsageError(msg)
    return {key: value for key, _, value in pairs}


tags = click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_tags,
    help="Only what has this tag of its profile. May be repeated: then only what has all of them.",
)


def need_terminal(*, yes: bool, command: str) -> None:
    """Refuse to ask for confirmation where nobody can answer."""
    if not yes and not sys.stdin.isatty():
        msg = f"`gpuprov {command}` asks for confirmation, and there is no terminal to answer on"
        raise UsageError(msg, hint="add --yes to go ahead without confirmation")


def agreed_to_empty(command: str, disks: Sequence[object], *, yes: bool) -> bool:
    """Whether the user agrees to lose what is on these disks; where nobody can answer, only --yes says so."""
    if not yes and not sys.stdin.isatty():
        msg = f"`gpuprov {command}` empties what is inside machines: {'; '.join(map(str, disks))}"
        raise UsageError(msg, hint=f"copy away what you need with `gpuprov pull`; then `gpuprov {command} --yes` goes ahead")
    return confirm("empty these disks?", [str(disk) for disk in disks], yes=yes)


def coloured(stream: TextIO) -> bool:
    """Whether text for a stream has colours: as --color, NO_COLOR and TERM say, or else on a terminal."""
    context = click.get_current_context(silent=True)
    chosen = context.color if context else None
    return stream.isatty() if chosen is None else chosen


def styled(text: str, **style: Any) -> str:
    """A text for standard output in a style of `click.style`, where there are colours."""
    return click.style(text, **style) if coloured(sys.stdout) else text


def report_text(*reports: "Report", strict: bool, everything: bool = False) -> str:
    """The reports as text for standard output, as wide as the terminal is; `everything` lists every check."""
    from provision.report import text  # noqa: PLC0415 - only few commands print a report

    return text.render(*reports, strict=strict, styled=styled, width=width(), everything=everything)


def width() -> int | None:
    """Of the terminal in columns, where standard output is one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_json(data: Any) -> None:
    """Print JSON for programs: stable keys, one document."""
    echo(to_json(data))


def show(data: Any, *lines: str, as_json: bool) -> None:
    """Print a result: its data for programs, or else its lines for people."""
    for line in (to_json(data),) if as_json else lines:
        echo(line)


def to_json(data: Any) -> str:
    """JSON for programs: stable keys, one document."""
    return inert(json.dumps(data, indent=2, ensure_ascii=False, default=str))


def none_of(things: str, problems: Sequence[str], *, unknown: bool) -> str:
    """What is said where no such things were found: nothing that was not asked is none."""
    return f"whether there are {things} is not known" if unknown else f"no {things}{' where a cloud answered' if problems else ''}"


def show_gaps(problems: Sequence[str]) -> None:
    """Say what was not asked, on standard output: without it the answer says too much."""
    for problem in problems:
        echo(f"not asked: {problem}")


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    try:
        write_whole(path, text)
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}"
        raise click.UsageError(msg) from error


def check_word(word: str, words: Sequence[str], kind: str) -> None:
    """Refuse a word that is none of these, with the nearest."""
    if word not in words:
        instead = suggested(word, words) or (f"write one of: {', '.join(words)}" if len(words) <= _FEW else "")
        msg = f"no {kind} called {word!a}" + (f"; {instead}" if instead else "")
        raise click.UsageError(msg)


def seconds(text: str) -> float:
    """A time such as `90s`, `10m`, `2h` or `1d` in seconds. A number without a unit is none, unless it is 0."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd])|0", text)
    if match is None:
        bare = text.isdecimal() and text.isascii()
        msg = f"{text!a} has no unit" if bare else f"{text!a} is not a time"
        raise UsageError(msg, hint=f"write {text}s, {text}m, {text}h or {text}d" if bare else "write it as 90s, 10m, 2h or 1d")
    return float(match[1] or 0) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[match[2] or "s"]


def extension(text: str) -> dt.timedelta | None:
    """The TIME of `extend`; None for `max`, which is as far as the profile allows."""
    more = None if text == "max" else dt.timedelta(seconds=seconds(text))
    if more == dt.timedelta(0):
        msg = "TIME must be more than 0"
        raise click.UsageError(msg)
    return more
