"""`gpuprov profile`."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click

from provision.catalog.gpu_models import GPU_MODELS
from provision.cli import echo, options, tables
from provision.clouds import CLOUDS, machines
from provision.errors import EXIT_USAGE, GpuprovError, UsageError
from provision.launch.journal import check_name
from provision.profile import described, load, lockfile, new
from provision.profile.examine import examine
from provision.report.base import broken, inert
from provision.workflow.session import today

_PLACEHOLDER: Final = "Owner <owner@example.com>"


@click.group("profile")
def command() -> None:
    """Write, list, show and check profiles."""


@command.command("new")
@click.option(
    "--gpu", metavar="MODEL[:N]", shell_complete=options.complete_models, help="The GPU, as `gpuprov catalog gpus` calls it, and how many."
)
@click.option("--gpus", type=click.IntRange(1, 16), metavar="N", help="How many GPUs.  [default: the fewest that a machine has]")
@click.option(
    "--region",
    "regions",
    multiple=True,
    metavar="REGION",
    shell_complete=options.complete_regions,
    help="Where, in the order of preference. May be repeated.  [default: the account's own, where the GPU is offered]",
)
@click.option("--cloud", type=click.Choice(CLOUDS), help="The only cloud that counts.  [default: the one that has the region]")
@click.option("--purpose", type=click.Choice(list(new.PURPOSES)), help="What the machine is for.  [default: train]")
@click.option("--owner", metavar="NAME <ADDRESS>", help="Who answers for the machine.")
@click.option("--max-price", type=click.FloatRange(0.01, 1000), metavar="USD", help="What an hour may cost.  [default: what it costs]")
@click.option("--name", metavar="NAME", help="The profile's name.  [default: GPU-PURPOSE, with the region where that is a shipped one]")
@options.file_option("-o", "--output", text="The file to write.  [default: profiles/NAME.yml]")
@click.option("--force", is_flag=True, help="Replace files that exist.")
@options.as_json
def new_(
    *,
    gpu: str | None,
    gpus: int | None,
    regions: Sequence[str],
    cloud: str | None,
    purpose: str | None,
    owner: str | None,
    max_price: float | None,
    name: str | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write a first profile for a GPU, with a comment on each choice, and its lock.

    On a terminal it asks for what is not given. No cloud is contacted: machines and prices come from the catalog.
    """
    gpu, gpus = _model_of(gpu, gpus)
    if gpu is not None and not regions and (home := machines.default_region(gpu, gpus, cloud))[1]:
        cloud, regions = home[0], [home[1]]
        echo(f"  region {home[1]}, from {home[2]}", err=True)
    if gpu is None or not regions:
        _need_terminal(gpu, regions)
        gpu = gpu or _ask_gpu()
        purpose = purpose or _ask("What for", click.Choice(list(new.PURPOSES)), "train")
        cloud, regions = _ask_where(gpu, gpus, cloud, regions)
        owner = owner or _ask("Who answers for the machine", None, _PLACEHOLDER)
    purpose = purpose or "train"
    name = _free_name(name, f"{gpu}{f'x{gpus}' if gpus and gpus > 1 else ''}-{purpose}", regions[0])
    path = _target(output or Path("profiles", f"{name}.yml"), force=force)
    chosen = machines.choose(gpu, regions, count=gpus, cloud=cloud)
    made = new.write(new.Wish(name, gpu, chosen, purpose, new.owner_of(owner or _PLACEHOLDER), max_price), today())
    _make_folder(path.parent)
    options.write(path, made.text)
    options.write(lockfile.path_for(path), lockfile.dump(made.lock))
    _print_new(path, made, as_json=as_json)
    if owner in {None, _PLACEHOLDER}:
        echo("  warning: owner is a placeholder: write who answers for the machine", err=True)


def _free_name(given: str | None, plain: str, region: str) -> str:
    """The name of a profile, with its region where another one of the plain name ships with gpuprov."""
    name = check_name(given or plain)
    if not load.ships(name):
        return name
    if given:
        msg = f"a profile called {name!a} ships with gpuprov"
        raise UsageError(msg, hint=f"choose another --name, such as {name}-{region}")
    echo(f"  name {name}-{region}: {name} ships with gpuprov", err=True)
    return check_name(f"{name}-{region}")


def _model_of(word: str | None, gpus: int | None) -> tuple[str | None, int | None]:
    """The model and how many, of `T4` or `H100:8` as well."""
    if word is None:
        return None, gpus
    model, colon, number = word.lower().partition(":")
    options.check_word(model, GPU_MODELS, "GPU")
    if colon and (not re.fullmatch("[1-9][0-9]?", number) or gpus not in {None, int(number)}):
        msg = f"--gpu {word!a} does not say how many GPUs"
        raise click.UsageError(msg)
    return model, int(number) if colon else gpus


def _need_terminal(gpu: str | None, regions: Sequence[str]) -> None:
    if not sys.stdin.isatty():
        missing = [option for option, value in (("--gpu", gpu), ("--region", regions)) if not value]
        msg = f"`gpuprov profile new` needs {' and '.join(missing)}, and there is no terminal to ask on"
        raise UsageError(msg, hint="such as `gpuprov profile new --gpu t4 --region us-east-1`; `gpuprov catalog gpus` lists the models")


def _ask(question: str, choice: click.Choice[str] | None, default: str, check: Callable[[str], Any] | None = None) -> Any:
    """An answer; the question is on standard error, so that standard output stays data."""
    return click.prompt(question, type=choice, default=default, value_proc=check, err=True)


def _ask_gpu() -> str:
    regions = {model: sum(map(len, machines.sellers(model).values())) for model in GPU_MODELS}
    sold = [model for model in GPU_MODELS if regions[model] and new.works(model, today())]
    return str(_ask("GPU", click.Choice(sold, case_sensitive=False), max(sold, key=regions.__getitem__)))


def _ask_where(gpu: str, gpus: int | None, cloud: str | None, regions: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """The cloud and its regions; regions without the GPU are asked for again."""
    if regions:
        return cloud, regions
    sold, home = list(machines.sellers(gpu)), machines.default_region(gpu, gpus, cloud)
    if cloud is None and sold:
        cloud = str(_ask("Cloud", click.Choice(sold), home[0] or sold[0]))

    def check(answer: str) -> list[str]:
        words = answer.replace(",", " ").split()
        try:
            machines.choose(gpu, words, count=gpus, cloud=cloud)
        except GpuprovError as error:
            msg = f"{error.message}; {error.hint}"
            raise click.UsageError(msg) from error
        return words

    question, region = "Regions, the preferred first", machines.cheapest_region(gpu, cloud)
    if cloud == home[0]:
        question, region = f"{question} ({home[2]})", home[1]
    return cloud, _ask(question, None, region, check)


def _target(path: Path, *, force: bool) -> Path:
    """The file, if it can be found as a profile and nothing is lost."""
    if path.suffix not in {".yml", ".yaml"} or path.stem.endswith(".lock"):
        msg = f"{path} is not a name for a profile"
        raise UsageError(msg, hint="choose one that ends with .yml, and not with .lock.yml")
    there = [each for each in (path, lockfile.path_for(path)) if os.path.lexists(each)]
    if there and not force:
        msg = f"{' and '.join(map(str, there))} would be replaced"
        raise UsageError(msg, hint="--force replaces files, --name or -o chooses others")
    return path


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"cannot make {folder}: {error.strerror}"
        raise UsageError(msg, hint="-o names another file") from error


def _print_new(path: Path, made: new.NewProfile, *, as_json: bool) -> None:
    lock, at = made.lock, lockfile.path_for(path)
    places = [f"{place.instance_type} in {', '.join(place.locations)}" for place in made.profile.places]
    parts = [f"driver {lock.driver.branch}", f"CUDA {lock.cuda.version}", *(f"{n} {e.version}" for n, e in lock.frameworks.items())]
    data = {"path": str(path), "sha256": load.digest(made.profile), "lock": {"path": str(at), "sha256": lock.digest}}
    options.show(
        {**data, "warnings": made.warnings},
        f"{path}: {'; '.join(places)}; up to {made.profile.limits.price_per_hour_usd:.2f} USD an hour",
        f"{at}: {', '.join(parts)}",
        f"next: `gpuprov plan {made.profile.name if path.parent == Path('profiles') else path}`",
        as_json=as_json,
    )
    for warning in made.warnings:
        echo(f"  warning: {warning}", err=True)


@command.command("list")
@options.as_json
def list_(*, as_json: bool) -> None:
    """List the profiles that can be used by name: those in ./profiles, with their files, and those that ship with gpuprov."""
    entries = load.list_profiles()
    name = max((len(entry.name) for entry in entries), default=0)
    width = tables.width_of(sys.stdout)
    rows = ((f"{entry.name:<{name}}  ", f"{entry.purpose or 'not valid: ' + entry.problem}{_file_of(entry)}") for entry in entries)
    lines = (line for lead, text in rows for line in broken(lead, inert(text), width))
    data = [{"name": e.name, "path": str(e.path), "purpose": e.purpose, "problem": e.problem} for e in entries]
    options.show(data, *lines, as_json=as_json)


def _file_of(entry: load.ProfileEntry) -> str:
    """The file of one's own profile, and that it hides a shipped one."""
    if load.is_shipped(entry.path):
        return ""
    return f"  ({entry.path}{', instead of the shipped one' if load.ships(entry.name) else ''})"


@command.command("show")
@click.argument("profile", metavar="NAME|FILE")
@options.as_json
def show(*, profile: str, as_json: bool) -> None:
    """Print a profile: its file with the comments, or with --json all values including defaults."""
    path = load.find(profile)
    raw = load.raw_of(path)
    model = load.parse(raw, path)
    if as_json:
        options.print_json({"path": str(path), "sha256": load.digest(model), "profile": model.dump()})
    else:
        echo(raw.decode(), nl=False)


@command.command("check")
@click.argument("profiles", metavar="NAME|FILE…", nargs=-1, required=True)
@options.strict
@options.as_json
@click.pass_context
def check(ctx: click.Context, *, profiles: tuple[str, ...], strict: bool, as_json: bool) -> None:
    """Say whether files are valid profiles, with all errors and warnings of a file at once.

    The catalog is asked as well: what `lock` would refuse is an error. No cloud is contacted.
    """
    refused, checked = False, []
    for name in profiles:
        result = examine(load.find(name), today())
        checked.append(result.as_dict())
        refused |= bool(result.errors) or (strict and bool(result.warnings))
        if not as_json and result.profile is not None and not result.errors:
            echo(f"{result.path}: valid (sha256:{load.digest(result.profile)})")
        for complaint in () if as_json else result.warnings:
            echo(f"  warning: {complaint.line_of(result.path).strip()}")
        if result.errors:
            error = load.invalid(result.path, result.errors)
            if not as_json:
                raise error
            echo(f"error[{error.code}]: {error.message}\nhint: {error.hint}", err=True)
    if as_json:
        options.print_json({"profiles": checked})
    ctx.exit(EXIT_USAGE if refused else 0)


@command.command("schema")
def schema() -> None:
    """Print the JSON Schema of a profile, for editors."""
    options.print_json(described.schema())
