"""What hosts measured before: a file for each machine in the user's state, a line a run. The fleet is all of these files.

Beside them lies the last run of each set of GPUs as the host told it, whatever came of it: what `verify` judges where a profile demands it.
"""

import json
import statistics
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

import msgspec

from provision.errors import FactsInvalidError
from provision.paths import private_dir, read_bounded, write_whole
from provision.structs import replace
from provision.verify.bench.figures import Measured
from provision.verify.bench.heard import BenchRun
from provision.verify.bench.verdict import BenchVerdict, Past
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.bench import BenchFacts
from provision.verify.facts.file import bounded
from provision.verify.facts.gpu import devices

_KEPT: Final = 50
_RECENT: Final = 5
_MAX_BYTES: Final = 4 * 1024 * 1024
Value = Annotated[float, msgspec.Meta(gt=0, le=1e15)]


class PastRun(msgspec.Struct, frozen=True):
    """One run: of each figure what the slowest GPU did."""

    machine: str
    host: str
    card: str
    at: float
    figures: dict[str, Value]


def identity(run: BenchRun) -> str:
    """What a machine is known by: its system's number and its GPUs, since images that are copied share a number."""
    gpus = sorted(gpu.uuid for gpu in run.start.gpus) if run.start else []
    return sha256(json.dumps([run.machine, gpus]).encode()).hexdigest()[:32]


def read(folder: Path) -> list[PastRun]:
    """All runs that were recorded, the oldest of each machine first.

    Raises:
        FactsInvalidError: a file cannot be read, or holds something else.
    """
    return [run for path in sorted(folder.glob("*.jsonl")) for run in _read(path)]


def _read(path: Path) -> list[PastRun]:
    try:
        return [_PAST_RUNS.decode(line) for line in read_bounded(path, _MAX_BYTES).splitlines()]
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise FactsInvalidError(msg, hint="it is what `gpuprov bench` keeps: move it away") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{path} holds no runs: {str(error)[:200]}"
        raise FactsInvalidError(msg, hint="it is what `gpuprov bench` keeps: move it away") from error


def past(runs: Sequence[PastRun], machine: str, card: str) -> Past:
    """What a machine did before, and the others with the same card: of each its latest value."""
    own: dict[str, list[float]] = {}
    others: dict[str, dict[str, float]] = {}
    for run in sorted(runs, key=lambda run: run.at):
        if run.card != card:
            continue
        for key, value in run.figures.items():
            if run.machine == machine:
                own.setdefault(key, []).append(value)
            else:
                others.setdefault(key, {})[run.machine] = value
    medians = {key: statistics.median(values[-_RECENT:]) for key, values in own.items()}
    return Past(medians, {key: (statistics.median(hosts.values()), len(hosts)) for key, hosts in others.items()})


def worst(figures: Iterable[Measured]) -> dict[str, float]:
    """Of each figure what the slowest GPU did; where it was measured alone and together, what it did alone."""
    values: dict[str, tuple[bool, float]] = {}
    for figure in figures:
        if figure.value is None or figure.value <= 0:
            continue
        alone, before = values.get(figure.key, (figure.alone, figure.value))
        if alone == figure.alone:
            values[figure.key] = alone, (max if figure.unit in {"us", "s"} else min)(before, figure.value)
        elif figure.alone:
            values[figure.key] = True, figure.value
    return {key: value for key, (_, value) in values.items()}


def add(folder: Path, run: BenchRun, verdicts: Sequence[BenchVerdict]) -> bool:
    """Keep a run, unless it does not measure the machine: somebody else used a GPU, or a figure is wrong. Returns whether it was kept."""
    good = [
        each.figure for each in verdicts if each.outcome not in {"fail", "unknown"} or (each.outcome == "unknown" and not each.reference)
    ]
    disturbed = run.start is None or run.start.held or any(step.others for step in run.done)
    values = worst(good)
    if disturbed or not values or run.start is None:
        return False
    card = run.start.gpus[0].name if run.start.gpus else ""
    path = private_dir(folder) / f"{identity(run)}.jsonl"
    old = _read(path) if path.exists() else []
    kept = [*old, PastRun(identity(run), run.host, card, run.began, values)][-_KEPT:]
    write_whole(path, b"".join(msgspec.json.encode(each) + b"\n" for each in kept))
    return True


class KeptRun(msgspec.Struct, frozen=True):
    """The last run of some GPUs; the fields are those of `BenchFacts`."""

    machine: str
    card: str
    began: float
    plan: str
    lines: list[str]


# Made once, because two threads that meet a type first end the process (catalog.records.base).
_PAST_RUNS: Final = msgspec.json.Decoder(PastRun)
_KEPT_RUN: Final = msgspec.json.Decoder(KeptRun)


def keep(folder: Path, run: BenchRun, plan: str) -> None:
    """Keep a run as the last one of its GPUs. One that did not begin says nothing about them."""
    if run.start is None or not run.start.gpus:
        return
    lines = [line.decode() for line in run.lines]
    kept = KeptRun(identity(run), run.start.gpus[0].name, run.began, plan, lines)
    write_whole(_last(private_dir(folder), [gpu.uuid for gpu in run.start.gpus]), msgspec.json.encode(kept))


def measured(facts: Facts, folder: Path | None) -> Facts:
    """The facts with the last measurement of these GPUs. A host has no say in it: what it sent under that name is dropped.

    `folder` has the measurements; None where nobody asks for one.

    Raises:
        FactsInvalidError: a file cannot be read, or holds something else.
    """
    raw = {name: answer for name, answer in facts.raw.items() if name != BenchFacts.name}
    path = _last(folder, uuids(facts)) if folder else None
    if folder and path and path.exists():
        kept = _kept(path)
        before = [run for run in read(folder) if run.machine != kept.machine or run.at < kept.began]
        known = past(before, kept.machine, kept.card)
        value = {"began": kept.began, "plan": kept.plan, "lines": kept.lines, "own": known.own, "fleet": known.fleet}
        raw[BenchFacts.name] = bounded({"value": json.loads(msgspec.json.encode(value))})
    return replace(facts, raw=raw)


def uuids(facts: Facts) -> list[str]:
    """What the driver calls the GPUs of a host; empty where it does not say of each."""
    try:
        return [str(device.uuid.answer()) for device in devices(facts).values()]
    except NotObservedError:
        return []


def _last(folder: Path, gpus: Sequence[str]) -> Path:
    return folder / f"{sha256(json.dumps(sorted(gpus)).encode()).hexdigest()[:32]}.last.json"


def _kept(path: Path) -> KeptRun:
    try:
        return _KEPT_RUN.decode(read_bounded(path, _MAX_BYTES))
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise FactsInvalidError(msg, hint="it is what `gpuprov bench` keeps: move it away") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{path} holds no run: {str(error)[:200]}"
        raise FactsInvalidError(msg, hint="it is what `gpuprov bench` keeps: move it away") from error
