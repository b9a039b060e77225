"""`gpuprov catalog`: what exists, as tables; every one of them also as --json and --csv."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from provision.cli import options

if TYPE_CHECKING:
    from provision.catalog.roofline import Roof
    from provision.verify.points import Measured

_ROOFS = ("GPU", "precision", "peak TFLOPS", "GB/s", "threshold FLOP/B")
_POINTS = ("measured", "FLOP/B", "TFLOPS", "% of the roof")


@click.group("catalog")
def command() -> None:
    """Browse and refresh what exists: GPUs, instance types, stacks. A figure from memory is marked with ~."""


def _models(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    from provision.catalog import read  # noqa: PLC0415 - completion must not slow down --help

    return [CompletionItem(g.model, help=g.name) for g in read.gpus().gpus if g.model.startswith(typed)]


as_csv = click.option("--csv", "as_csv", is_flag=True, help="Print CSV on standard output.")


def _formats(function: Callable[..., Any]) -> Callable[..., Any]:
    return options.as_json(as_csv(function))


def _print(columns: Sequence[str], rows: Sequence[Sequence[object]], data: Any, *, as_json: bool, as_csv: bool, note: str = "") -> None:
    """The same rows in the form that is asked for; the note goes to people only."""
    from provision.report import table  # noqa: PLC0415

    if as_json:
        options.print_json(data)
    elif as_csv:
        click.echo(table.as_csv(columns, rows), nl=False)
    else:
        click.echo(table.as_text(columns, rows))
        if note:
            click.echo(note, err=True)


def _gpu(word: str) -> list[Any]:
    import difflib  # noqa: PLC0415

    from provision.catalog import read, roofline  # noqa: PLC0415

    try:
        return list(roofline.models(word))
    except KeyError:
        known = [g.model for g in read.gpus().gpus]
        near = difflib.get_close_matches(word, known, n=1)
        msg = f"no GPU called {word!a}" + (f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}")
        raise click.UsageError(msg) from None


@command.command("gpus")
@_formats
def gpus(*, as_json: bool, as_csv: bool) -> None:
    """The GPUs: cores, memory, bandwidth, dense peaks, clocks, power, NVENC."""
    from provision.catalog import read  # noqa: PLC0415
    from provision.catalog.roofline import PRECISIONS  # noqa: PLC0415

    unsure = {key for key, source in read.sources().items() if source.grade == "memory"}
    architectures = {t.compute_capability: t.architecture for t in read.gpus().tensor_cores}
    rows: list[list[object]] = []
    data = []
    for gpu in read.gpus().gpus:
        mark = {field for key, fields in gpu.sources.items() if key in unsure for field in fields}

        def shown(field: str, value: object, mark: set[str] = mark) -> object:
            return f"~{value:g}" if isinstance(value, int | float) and field in mark and not (as_csv or as_json) else value

        peaks = [shown(f"peaks.{p}", gpu.peaks.get(p, "")) for p in PRECISIONS]
        clocks = f"{gpu.clocks.memory_mhz},{gpu.clocks.graphics_mhz}" if gpu.clocks else None
        nvenc = {True: "yes", False: "no", None: None}[gpu.nvenc]
        rows.append(
            [
                gpu.model,
                architectures[gpu.compute_capability],
                gpu.compute_capability,
                *(shown(field, getattr(gpu, field)) for field in ("cuda_cores", "memory_gb", "bandwidth_gb_s")),
                *peaks,
                clocks,
                shown("power_w", gpu.power_w),
                nvenc,
            ]
        )
        data.append(gpu.as_dict())
    columns = ["GPU", "arch", "CC", "cores", "GB", "GB/s", *PRECISIONS, "mem,gr MHz", "W", "NVENC"]
    _print(columns, rows, data, as_json=as_json, as_csv=as_csv, note="dense TFLOPS or TOPS; ~ from memory, ? not found")


@command.command("precision")
@_formats
def precision(*, as_json: bool, as_csv: bool) -> None:
    """What the tensor cores of each generation take as input."""
    from provision.catalog import read  # noqa: PLC0415

    kinds = ("fp64", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int8", "int4", "int1")
    unsure = {key for key, source in read.sources().items() if source.grade == "memory"}
    rows: list[list[object]] = []
    data = []
    for entry in read.gpus().tensor_cores:
        words = {k: "yes" if k in entry.takes else "?" if k in entry.unknown else "-" for k in kinds}
        data.append({"architecture": entry.architecture, "compute_capability": entry.compute_capability, **words, "sources": entry.takes})
        marked = [f"~{word}" if entry.takes.get(k) in unsure and not as_csv else word for k, word in words.items()]
        rows.append([f"{entry.architecture} {entry.compute_capability}", *marked])
    _print(["tensor cores", *kinds], rows, data, as_json=as_json, as_csv=as_csv, note="~ from memory, ? not known, - not taken")


@command.command("instances")
@click.option("--gpu", metavar="MODEL", shell_complete=_models, help="Only this GPU.")
@click.option("--cloud", type=click.Choice(["aws", "gcp"]), help="Only this cloud.")
@click.option("--region", metavar="REGION", help="Only what this region has.")
@click.option("--max-price", type=click.FloatRange(min=0, min_open=True), metavar="USD", help="Only what costs no more an hour.")
@click.option("--sort", type=click.Choice(["price", "gpus", "vcpus", "memory", "name"]), default="name", show_default=True)
@_formats
def instances(
    *, gpu: str | None, cloud: str | None, region: str | None, max_price: float | None, sort: str, as_json: bool, as_csv: bool
) -> None:
    """The instance types with GPUs, what they cost and what surprises about them."""
    import dataclasses  # noqa: PLC0415

    from provision.catalog import places, read  # noqa: PLC0415

    if region is not None:
        options.known(region, [*read.aws().regions.codes, *places.gcp_regions()], "region")
    wanted = [g.model for g in _gpu(gpu)] if gpu else [None]
    fitting = [o for model in wanted for o in places.offers(gpu=model, region=region, cloud=cloud)]
    found = [o for model in wanted for o in places.offers(gpu=model, region=region, cloud=cloud, max_price=max_price)]
    unpriced = sum(o.price is None or not o.price.whole for o in fitting) if max_price is not None else 0
    keys: dict[str, Callable[[Any], Any]] = {
        "price": lambda o: (o.price is None or not o.price.whole, o.price.usd_per_hour if o.price else 0, o.vcpus),
        "gpus": lambda o: (o.gpus, o.vcpus),
        "vcpus": lambda o: (o.vcpus, o.gpus),
        "memory": lambda o: (o.memory_gb, o.gpus),
        "name": lambda _: 0,
    }
    found.sort(key=keys[sort])
    grades = {key: source.grade for key, source in read.sources().items()}
    rows: list[list[object]] = []
    for o in found:
        price = o.price.usd_per_hour if o.price else None
        notes = [o.note] if o.note else []
        if o.price and not o.price.whole:
            notes.append("the GPU alone: vCPUs and memory are billed beside it")
        shown = f"~{price:g}" if o.price and grades[o.price.source] == "memory" and not as_csv else price
        places_ = ", ".join(z.rpartition("-")[2] for z in o.zones) if region else len(o.regions)
        priced_in = [] if region else [o.region or ""]
        size = (o.gpu, o.gpus, o.vcpus, o.memory_gb, o.local_gb)
        rows.append([o.cloud, o.instance_type, *size, places_, *priced_in, shown, "; ".join(notes)])
    where = ["zones"] if region else ["regions", "priced in"]
    columns = ["cloud", "type", "GPU", "GPUs", "vCPU", "GB", "local GB", *where, "USD/h", "note"]
    note = f"{unpriced} more have no whole price here and are left out" if unpriced else "" if found else "nothing fits"
    _print(columns, rows, [dataclasses.asdict(o) for o in found], as_json=as_json, as_csv=as_csv, note=note)


@command.command("where")
@click.argument("instance_type", metavar="TYPE")
@click.option("--gpu", metavar="MODEL", shell_complete=_models, help="Which GPU is attached, for N1 of GCP.")
@_formats
@click.pass_context
def where(ctx: click.Context, *, instance_type: str, gpu: str | None, as_json: bool, as_csv: bool) -> None:
    """The regions and zones that offer an instance type, or why there are none. Exits with 1 then."""
    from provision.catalog import places, read  # noqa: PLC0415

    cloud = "aws" if "." in instance_type else "gcp"
    found = places.where(cloud, instance_type, gpu)
    record = read.aws_types().get(instance_type)
    if not found:
        model = record.gpu if record and record.gpu else gpu
        if cloud == "gcp" and instance_type.startswith("n1-") and gpu is None:
            msg = f"{instance_type} is everywhere; which zones have its GPU depends on the GPU"
            raise click.UsageError(msg + "; say it with --gpu")
        why = places.why_not_aws(instance_type, "", "on-demand", model, 1) if cloud == "aws" and model else ""
        why = why or places.gone(instance_type) or f"{instance_type} is not in the catalogue"
        if as_json:
            options.print_json({"type": instance_type, "regions": {}, "why": why})
        else:
            click.echo(why)
        ctx.exit(1)
    regions = read.aws().regions.codes
    rows = [[r, ", ".join(zones) or "?", "yes" if cloud == "aws" and regions[r].opt_in else ""] for r, zones in found.items()]
    source = read.sources()[record.source] if record else read.sources()["gcp-zones"]
    data = {"type": instance_type, "regions": found, "source": source.title, "date": str(source.date)}
    _print(["region", "zones", "opt-in"], rows, data, as_json=as_json, as_csv=as_csv, note=f"as of {source.date}: {source.title}")


@command.command("stacks")
@click.option("--gpu", required=True, metavar="MODEL", shell_complete=_models)
@click.option("--os", "system", default="ubuntu 24.04", show_default=True, metavar="SYSTEM", help="As 'rocky 9'.")
@_formats
def stacks(*, gpu: str, system: str, as_json: bool, as_csv: bool) -> None:
    """Every toolkit and framework release for a GPU: what works, with which driver, or why not."""
    from provision.workflow.stacks import survey  # noqa: PLC0415

    rows, data = [], []
    for model in _gpu(gpu):
        for line in survey(model.model, system, options.today()):
            data.append(line)
            rows.append([line["gpu"], line["part"], line["version"], line["driver"] or "-", line["cuda"] or "-", line["why"]])
    _print(["GPU", "part", "version", "driver", "CUDA", "against it"], rows, data, as_json=as_json, as_csv=as_csv)


@command.command("roofline")
@click.argument("models", metavar="MODEL…", nargs=-1, shell_complete=_models)
@click.option("--precision", "precisions", multiple=True, metavar="KIND", help="Only this precision; may be repeated. Default: all.")
@click.option("-o", "--output", metavar="FILE", help="Draw into an .svg or .png file.")
@click.option("--plot", is_flag=True, help="Draw into the terminal.")
@click.option(
    "--facts", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path), metavar="FILE",
    help="Also what was measured on a host, from `gpuprov probe --tier perf`; without MODEL of the card that it has.",
)  # fmt: skip
@_formats
def roofline(
    *,
    models: tuple[str, ...],
    precisions: tuple[str, ...],
    output: str | None,
    plot: bool,
    facts: Path | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """How many operations a byte a kernel needs before arithmetic limits it, for each precision."""
    import dataclasses  # noqa: PLC0415

    from provision.catalog.roofline import PRECISIONS, roofs  # noqa: PLC0415
    from provision.report import picture  # noqa: PLC0415

    for kind in precisions:
        if kind not in PRECISIONS:
            msg = f"no precision called {kind!a}; there are {', '.join(PRECISIONS)}"
            raise click.UsageError(msg)
    measured = _measured(facts) if facts else None
    points = measured.points if measured else ()
    own = measured.card.model if measured and measured.card else None
    if not models and own is None:
        msg = f"{facts} was measured on a card that is not in the catalogue: name a MODEL" if facts else "Missing argument 'MODEL…'."
        raise click.UsageError(msg)
    known = [gpu for word in models or (own or "",) for gpu in _gpu(word)]
    if own is not None and own not in {gpu.model for gpu in known}:
        msg = f"{facts} was measured on {own}, which is not among {', '.join(models)}"
        raise click.UsageError(msg)
    found = [roof for gpu in known for roof in roofs(gpu) if not precisions or roof.precision in precisions]
    silent = [gpu.model for gpu in known if not roofs(gpu)]
    if not found:
        msg = f"no peaks and bandwidth are known of {', '.join(silent) or 'these'} in that precision"
        raise click.UsageError(msg)
    if output:
        picture.draw(found, Path(output), points)
        click.echo(f"wrote {output}", err=True)
    note = f"not known: {', '.join(silent)}" if silent else ""
    data = [dataclasses.asdict(r) for r in found]
    if measured is None:
        rows = [[r.gpu, r.precision, r.peak_tflops, r.bandwidth_gb_s, r.threshold] for r in found]
        _print(_ROOFS, rows, data, as_json=as_json, as_csv=as_csv, note=note)
    else:
        rows, laid = _laid_over(found, measured)
        _print([*_ROOFS, *_POINTS], rows, {"roofs": data, "points": laid}, as_json=as_json, as_csv=as_csv, note=note)
    if plot:
        click.echo(picture.in_terminal(found, points))


def _measured(path: Path) -> Measured:
    from provision.verify.facts import load  # noqa: PLC0415
    from provision.verify.points import measured  # noqa: PLC0415

    found = measured("", load(path))
    if found is None:
        msg = f"{path} holds no measurement; gather one with `gpuprov probe HOST --tier perf`"
        raise click.UsageError(msg)
    return found


def _laid_over(found: Sequence[Roof], measured: Measured) -> tuple[list[list[object]], list[dict[str, object]]]:
    """The roofs as rows, then what was measured under them, which is also the second answer."""
    import dataclasses  # noqa: PLC0415

    from provision.catalog.roofline import attainable_tflops  # noqa: PLC0415

    none: list[object] = [""] * len(_POINTS)
    rows = [[r.gpu, r.precision, r.peak_tflops, r.bandwidth_gb_s, r.threshold, *none] for r in found]
    laid: list[dict[str, object]] = []
    for gpu in dict.fromkeys(r.gpu for r in found if measured.card is None or r.gpu == measured.card.model):
        for point in measured.points:
            reach = attainable_tflops([r for r in found if r.gpu == gpu], point)
            share = round(point.tflops / reach, 3) if reach else None
            laid.append({"gpu": gpu, **dataclasses.asdict(point), "attainable_tflops": reach, "share": share})
            percent = round(100 * share) if share else ""
            of_it = ["", "", "", point.label, point.intensity, point.tflops, percent]
            rows.append([gpu, point.precision or "memory", *of_it])
    return rows, laid


@command.command("refresh")
@click.option(
    "--only", "parts", type=click.Choice(["aws", "gcp", "prices", "wheels"]), multiple=True, help="Only this part; may be repeated."
)
@click.option("--region", "regions", multiple=True, metavar="REGION", help="Only this region of AWS; may be repeated.")
@click.option("--set", "sets", multiple=True, metavar="NAME", help="Only this wheel set, as torch-2.10.0-cp312; may be repeated.")
@options.as_json
@click.pass_context
def refresh(ctx: click.Context, *, parts: tuple[str, ...], regions: tuple[str, ...], sets: tuple[str, ...], as_json: bool) -> None:
    """Ask AWS, GCP and the package index what is true today, and lay it over the shipped data.

    What cannot be asked stays as it was, is named, and makes the exit code 3.
    """
    import dataclasses  # noqa: PLC0415 - heavy, and --help must be light

    from provision.catalog import overlay, read, wheels  # noqa: PLC0415
    from provision.cli.progress import narrator  # noqa: PLC0415
    from provision.clouds.aws.client import AwsAccess  # noqa: PLC0415
    from provision.clouds.gcp.client import GcpAccess  # noqa: PLC0415
    from provision.errors import EXIT_UNKNOWN  # noqa: PLC0415
    from provision.workflow import refresh as work  # noqa: PLC0415

    for region in regions:
        options.known(region, list(read.aws().regions.codes), "region")
    for name in sets:
        options.known(name, [s.name for s in wheels.all_sets()], "wheel set")
    with narrator().speaking() as tell:
        outcome = work.refresh(parts or work.PARTS, regions, sets, aws=AwsAccess(), gcp=GcpAccess(), say=tell.say)
    if as_json:
        options.print_json({**dataclasses.asdict(outcome), "path": str(overlay.path())})
    else:
        click.echo(f"refreshed {', '.join(outcome.refreshed)}: {len(outcome.changed)} changes, in {overlay.path()}")
        for line in outcome.changed:
            click.echo(f"  {line}")
    for line in outcome.failed:
        click.echo(f"not refreshed: {line}", err=True)
    ctx.exit(EXIT_UNKNOWN if outcome.failed else 0)


@command.command("age")
@options.as_json
def age(*, as_json: bool) -> None:
    """How old the catalogue is, part by part, and whether what was refreshed is in use."""
    import dataclasses  # noqa: PLC0415

    from provision.catalog import overlay  # noqa: PLC0415
    from provision.workflow import refresh as work  # noqa: PLC0415

    found, problem = work.ages(options.today()), overlay.problem()
    if as_json:
        options.print_json({"parts": [dataclasses.asdict(a) for a in found], "overlay": str(overlay.path()), "problem": problem})
        return
    for a in found:
        days = "today" if a.days == 0 else f"{a.days} days ago" if a.days > 0 else f"{a.date}, which is after today"
        click.echo(f"{a.part}: {days} ({a.origin})" + ("  warning: old; `gpuprov catalog refresh`" if a.old else ""))
    if problem:
        click.echo(f"warning: {overlay.path()} {problem}; the shipped data is used. `gpuprov catalog refresh` writes it again", err=True)
