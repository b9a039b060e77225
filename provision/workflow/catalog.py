"""The tables of `gpuprov catalog`: rows for people, and data for programs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from provision import clouds
from provision.catalog import overlay, read, roofline, stacks
from provision.catalog.ages import cited, stack_parts
from provision.catalog.records.base import Source
from provision.catalog.records.gpus import GpuRecord
from provision.catalog.roofline import PRECISIONS, Point, Roof, attainable_tflops
from provision.clouds import search
from provision.clouds.terms import DataPart, Offer
from provision.errors import UsageError
from provision.nearest import suggested
from provision.structs import Struct, asdict

if TYPE_CHECKING:
    from provision.verify.points import Measurement

_EVERYDAY: Final = ("fp32", "tf32", "bf16", "fp16", "fp8")  # precisions that are trained and served in
_TENSOR_INPUTS: Final = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int8", "int4", "int1")
_PRECISION_NOTE: Final = (
    "CUDA cores: the rate over FP32's, yes where it is not known; tensor cores take no FP32, and TF32, where it is taken, stands in for it "
    "with a mantissa of 10 bits; ~ from memory, ? not known, - not taken"
)
_OLD_DAYS: Final = 90  # prices and images of the clouds change a few times a year; after a quarter nobody should rely on them unasked
_ROOFS: Final = ("GPU", "precision", "peak TFLOPS", "GB/s", "threshold FLOP/B")
_POINTS: Final = ("measured", "FLOP/B", "TFLOPS", "% of the roof")
_ORDERS: Final[dict[str, Callable[[Offer], Any]]] = {
    "price": lambda o: (o.price is None or not o.price.whole, o.price.usd_per_hour if o.price else 0, o.vcpus),
    "gpus": lambda o: (o.gpus, o.vcpus),
    "vcpus": lambda o: (o.vcpus, o.gpus),
    "memory": lambda o: (o.memory_gb, o.gpus),
    "name": lambda _: 0,  # as the catalog lists them
}
SORTS: Final = tuple(_ORDERS)


class FromMemory(Struct):
    """A value that has no better source than somebody's memory."""

    value: object


class CatalogTable(Struct):
    """One table.

    Attributes:
        rows: a value for each column; `FromMemory` where it has no better source.
        data: the same for programs.
        note: what people should know about it; not part of the data.
        spare: the columns that a narrow terminal leaves out first, in that order.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    data: Any
    note: str = ""
    spare: Sequence[str] = ()


def find_gpus(word: str) -> list[GpuRecord]:
    """The GPUs that a word means: a model, or the models whose names begin with it.

    Raises:
        UsageError: none, with the nearest model.
    """
    try:
        return roofline.models(word)
    except KeyError:
        models = [gpu.model for gpu in read.gpus().gpus]
        msg = f"no GPU called {word!a}"
        raise UsageError(msg, hint=suggested(word, models) or f"there are {', '.join(models)}") from None


def gpu_table() -> CatalogTable:
    """The GPUs with their figures."""
    unsure = _unsure_sources()
    architectures = {t.compute_capability: t.architecture for t in read.gpus().tensor_cores}
    rows = [_gpu_row(gpu, architectures[gpu.compute_capability], unsure) for gpu in read.gpus().gpus]
    columns = ["GPU", "arch", "CC", "cores", "GB", "GB/s", *PRECISIONS, "mem,gr MHz", "W", "NVENC"]
    note = "dense TFLOPS or TOPS; ~ from memory, ? not found"
    spare = ("mem,gr MHz", *(each for each in PRECISIONS if each not in _EVERYDAY), "cores", "arch", "NVENC")
    return CatalogTable(columns, rows, [gpu.as_dict() for gpu in read.gpus().gpus], note, spare)


def _gpu_row(gpu: GpuRecord, architecture: str, unsure: set[str]) -> list[object]:
    marked = {field for key, fields in gpu.sources.items() if key in unsure for field in fields}

    def cell(field: str, value: object) -> object:
        return FromMemory(value) if isinstance(value, int | float) and field in marked else value

    return [
        gpu.model,
        architecture,
        gpu.compute_capability,
        *(cell(field, getattr(gpu, field)) for field in ("cuda_cores", "memory_gb", "bandwidth_gb_s")),
        *(cell(f"peaks.{precision}", gpu.peaks.get(precision, "")) for precision in PRECISIONS),
        f"{gpu.clocks.memory_mhz},{gpu.clocks.graphics_mhz}" if gpu.clocks else None,
        cell("power_w", gpu.power_w),
        {True: "yes", False: "no", None: None}[gpu.nvenc],
    ]


def precision_table() -> CatalogTable:
    """What the tensor cores of each generation take as input, and what its CUDA cores compute, with the cards that have them."""
    unsure = _unsure_sources()
    rows: list[list[object]] = []
    data = []
    for entry in read.gpus().tensor_cores:
        cards = [gpu.model for gpu in read.gpus().gpus if gpu.compute_capability == entry.compute_capability]
        where = f"{entry.architecture} {entry.compute_capability}"
        words = {k: "yes" if k in entry.takes else "?" if k in entry.unknown else "-" for k in _TENSOR_INPUTS}
        rates = {k: entry.cores.get(k, "-") for k in _TENSOR_INPUTS}
        from_memory = {k for source, some in entry.sources.items() if source in unsure for k in some}
        tensor = [FromMemory(word) if entry.takes.get(k) in unsure else word for k, word in words.items()]
        cores = [FromMemory(rate) if k in from_memory else rate for k, rate in rates.items()]
        rows += [[where, "tensor", *tensor, ", ".join(cards)], [where, "CUDA", *cores, ", ".join(cards)]]
        said = {"architecture": entry.architecture, "compute_capability": entry.compute_capability, "gpus": cards}
        data += [
            {**said, "cores": "tensor", **words, "sources": entry.takes},
            {**said, "cores": "cuda", **rates, "sources": {k: source for source, some in entry.sources.items() for k in some}},
        ]
    return CatalogTable(["arch", "cores", *_TENSOR_INPUTS, "GPUs"], rows, data, _PRECISION_NOTE)


def instance_table(
    models: Sequence[GpuRecord], *, cloud: str | None, region: str | None, max_price: float | None, sort: str
) -> CatalogTable:
    """The instance types that fit; without models those with any GPU, and with a region only those that it offers.

    `max_price` is in US dollars an hour: a type whose whole price is not known does not fit.
    """
    names: list[str | None] = [gpu.model for gpu in models] or [None]
    fitting = [o for name in names for o in search.offers(gpu=name, region=region, cloud=cloud)]
    offers = sorted(search.affordable(fitting, max_price) if max_price is not None else fitting, key=_ORDERS[sort])
    note = "" if offers else "nothing fits"
    if max_price is not None:
        unpriced = sum(o.price is None or not o.price.whole for o in fitting)
        note = f"{unpriced} more are left out, because their whole price is not known here" if unpriced else note
    unsure = _unsure_sources()
    where = ["zones"] if region else ["regions", "priced in"]
    columns = ["cloud", "type", "GPU", "GPUs", "vCPU", "GB", "local GB", *where, "USD/h", "as of", "note"]
    days = {key: source.date for key, source in clouds.sources().items()}
    priced_on = [str(min(days[source] for source in offer.price.sources)) if offer.price else None for offer in offers]
    rows = [_offer_row(offer, day, unsure, in_region=region is not None) for offer, day in zip(offers, priced_on, strict=True)]
    data = [{**offer.as_dict(), "price_date": day} for offer, day in zip(offers, priced_on, strict=True)]
    return CatalogTable(columns, rows, data, note, ("as of", "local GB", "regions", "priced in", "vCPU", "note"))


def _offer_row(offer: Offer, priced_on: str | None, unsure: set[str], *, in_region: bool) -> list[object]:
    price = offer.price
    notes = [offer.note] if offer.note else []
    if price and not price.whole:
        notes.append(f"without its {' and '.join(price.missing)}, which are billed too")
    where = [", ".join(z.rpartition("-")[2] for z in offer.zones)] if in_region else [len(offer.regions), offer.region or ""]
    hourly: object = price.usd_per_hour if price else None
    if price and unsure.intersection(price.sources):
        hourly = FromMemory(hourly)
    size = (offer.gpu, offer.gpus, offer.vcpus, offer.memory_gb, offer.local_gb)
    return [offer.cloud, offer.instance_type, *size, *where, hourly, priced_on, "; ".join(notes)]


class Nowhere(Struct):
    """Why no region is listed for a type: that it is offered nowhere, or (`known` is false) that nobody recorded where."""

    reason: str
    known: bool


def region_table(instance_type: str, gpu: str | None) -> CatalogTable | Nowhere:
    """The regions and zones that offer an instance type, or each type with a GPU."""
    if gpu is None and instance_type in {card.model for card in read.gpus().gpus}:
        return _places_with(instance_type)
    spots = search.whereabouts(instance_type, gpu)
    if not spots.zones:
        return Nowhere(spots.reason, spots.known)
    rows = [[region, ", ".join(zones) or "?", "yes" if region in spots.opt_in else ""] for region, zones in spots.zones.items()]
    source = clouds.sources()[spots.source]
    data = {"type": instance_type, "regions": spots.zones, "source": source.title, "date": str(source.date)}
    return CatalogTable(["region", "zones", "opt-in"], rows, data, f"as of {source.date}: {source.title}")


def _places_with(model: str) -> CatalogTable | Nowhere:
    """Each type with a GPU, with the regions and zones that offer it."""
    rows: list[list[object]] = []
    data, unrecorded = [], []
    for offer in search.offers(gpu=model):
        zones = clouds.offering(offer.cloud).offered_in(offer.instance_type, offer.gpu)
        data.append({"cloud": offer.cloud, "type": offer.instance_type, "gpus": offer.gpus, "regions": zones or None})
        rows += [[offer.cloud, offer.instance_type, f"{offer.gpus:g}", region, ", ".join(names) or "?"] for region, names in zones.items()]
        if not zones:
            rows.append([offer.cloud, offer.instance_type, f"{offer.gpus:g}", None, None])
            unrecorded.append(offer.cloud)
    if not rows:
        return Nowhere(f"no machine type with {read.gpu(model).name} is in the catalog", known=False)
    looks = [f"where {cloud} has it is not recorded: {clouds.provider(cloud).where_to_look}" for cloud in dict.fromkeys(unrecorded)]
    return CatalogTable(["cloud", "type", "GPUs", "region", "zones"], rows, data, "; ".join(looks))


def stack_table(models: Sequence[GpuRecord], system: str, day: dt.date) -> CatalogTable:
    """Every toolkit and framework release for some GPUs: the driver it resolves to on that day, or why it cannot be had."""
    data = [line for gpu in models for line in stacks.survey(gpu.model, system, day)]
    rows = [[line["gpu"], line["part"], line["version"], line["driver"] or "-", line["cuda"] or "-", line["why"]] for line in data]
    return CatalogTable(["GPU", "part", "version", "driver", "CUDA", "against it"], rows, data)


class RooflineView(Struct):
    """The roofs of some GPUs, what was measured under them, and both as a table."""

    roofs: list[Roof]
    points: tuple[Point, ...]
    table: CatalogTable


def measured_on(path: Path) -> Measurement:
    """What was measured on the host of a facts file.

    Raises:
        UsageError: nothing was measured.
        FactsInvalidError: the file cannot be read.
    """
    from provision.verify import facts, points  # noqa: PLC0415 - the models of facts and profiles, which the other tables do not need

    measurement = points.measurement_of(str(path), facts.load(path))
    if measurement is None:
        msg = f"{path} holds no measurement"
        raise UsageError(msg, hint="gather one with `gpuprov probe HOST --tier perf`")
    return measurement


def roofline_of(words: Sequence[str], precisions: Sequence[str], measurement: Measurement | None) -> RooflineView:
    """The roofs of some GPUs.

    Args:
        words: the GPUs, as `find_gpus` takes them; none means the one of the measurement.
        precisions: only these; none means all.
        measurement: what a host reached; None without one.

    Raises:
        UsageError: no or an unknown GPU or precision, a measurement on another GPU, or no known roof at all.
    """
    for name in precisions:
        if name not in PRECISIONS:
            msg = f"no precision called {name!a}"
            raise UsageError(msg, hint=f"there are {', '.join(PRECISIONS)}")
    card = measurement.card.model if measurement and measurement.card else None
    if not words and card is None:
        msg = f"{measurement.host} was measured on a card that is not in the catalog" if measurement else "there is no MODEL"
        raise UsageError(msg, hint="name a MODEL of `gpuprov catalog gpus`, such as t4")
    models = [gpu for word in words or (card or "",) for gpu in find_gpus(word)]
    if measurement and card is not None and card not in {gpu.model for gpu in models}:
        msg = f"{measurement.host} was measured on {card}, which is not among {', '.join(words)}"
        raise UsageError(msg, hint=f"add {card}, or leave the models out")
    roofs = [roof for gpu in models for roof in roofline.roofs(gpu) if not precisions or roof.precision in precisions]
    silent = [gpu.model for gpu in models if not roofline.roofs(gpu)]
    if not roofs:
        msg = f"no peaks and bandwidth are known for {', '.join(silent) or 'these'} in that precision"
        raise UsageError(msg, hint="`gpuprov catalog gpus` shows what is known")
    note = f"not known: {', '.join(silent)}" if silent else ""
    rows: list[list[object]] = [[r.gpu, r.precision, r.peak_tflops, r.bandwidth_gb_s, r.threshold] for r in roofs]
    data = [asdict(roof) for roof in roofs]
    if measurement is None:
        return RooflineView(roofs, (), CatalogTable(_ROOFS, rows, data, note))
    blank: list[object] = [""] * len(_POINTS)
    points = list(_under_roofs(roofs, measurement))
    rows = [[*row, *blank] for row in rows] + [row for row, _ in points]
    table = CatalogTable([*_ROOFS, *_POINTS], rows, {"roofs": data, "points": [point for _, point in points]}, note)
    return RooflineView(roofs, measurement.points, table)


def _under_roofs(roofs: Sequence[Roof], measurement: Measurement) -> Iterator[tuple[list[object], dict[str, object]]]:
    """Each point of a measurement, as a row and as data."""
    for gpu in dict.fromkeys(r.gpu for r in roofs if measurement.card is None or r.gpu == measurement.card.model):
        for point in measurement.points:
            reach = attainable_tflops([r for r in roofs if r.gpu == gpu], point)
            share = round(point.tflops / reach, 3) if reach else None
            figures = (point.label, point.intensity, point.tflops, round(100 * share) if share else "")
            data = {"gpu": gpu, **asdict(point), "attainable_tflops": reach, "share": share}
            yield [gpu, point.precision or "memory", "", "", "", *figures], data


def _unsure_sources() -> set[str]:
    """The keys of the sources that are somebody's memory."""
    return {key for key, source in clouds.sources().items() if source.grade == "memory"}


class Age(Struct):
    """How old a part of the catalog is.

    Attributes:
        date: of its oldest source, and `days` since then.
        newest: of its newest source.
        refresh: what `catalog refresh --only` takes to renew it; empty where only another release of gpuprov does.
    """

    part: str
    date: dt.date
    newest: dt.date
    days: int
    origin: str
    refresh: str
    old: bool


def ages(today: dt.date) -> list[Age]:
    """How old each part is, by the sources that it cites: what ships, and what was refreshed."""
    known = clouds.sources()
    shipped = {name: DataPart(records, "") for name, records in stack_parts().items()}
    for each in clouds.providers():
        shipped |= each.parts()
    refreshed = {part.name: part.made_at.date() for part in overlay.read().parts}
    ages = []
    for name, part in shipped.items():
        sources = cited(part.records, known)
        oldest, newest = sources[0], sources[-1].date
        # What a refresh has renewed counts from then; what nothing renews is as old as the last thing that was read for it.
        basis = refreshed.get(part.refresh, oldest.date) if part.refresh else newest
        old = (today - basis).days > _OLD_DAYS
        ages.append(Age(name, oldest.date, newest, (today - oldest.date).days, _origin(sources), part.refresh, old))
    for done in overlay.read().parts:
        day = done.made_at.date()
        days = (today - day).days
        ages.append(Age(f"{done.name} (refreshed)", day, day, days, done.origin, done.name, days > _OLD_DAYS))
    return ages


def _origin(sources: Sequence[Source]) -> str:
    rest = f"; the oldest of {len(sources)} sources" if len(sources) > 1 else ""
    return f"{sources[0].title}{rest}"
