"""The report of a run: what a program reads of it, and the same as rows for a person."""

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from provision.catalog import read
from provision.report.base import inert
from provision.verify.bench.figures import DoneMessage, LoadState, SoakRow, StartMessage
from provision.verify.bench.heard import BenchRun
from provision.verify.bench.verdict import WORST, BenchOutcome, BenchVerdict, exit_code
from provision.verify.codes import cuda_hint

SCHEMA: Final = "gpuprov-bench/1"
COLUMNS: Final = ("FIGURE", "GPU", "VALUE", "REFERENCE", "SHARE", "VERDICT", "WHY")


class ReferenceEntry(msgspec.Struct, frozen=True):
    """What a figure was compared with, and where that was read."""

    value: float
    source: str
    title: str
    url: str


class FigureEntry(msgspec.Struct, frozen=True):
    """One figure with its verdict. `alone` is whether no other GPU of the host was measured meanwhile."""

    figure: str
    gpu: int
    unit: str
    value: float | None
    alone: bool
    outcome: BenchOutcome
    share: float | None
    reference: ReferenceEntry | None
    words: str
    seconds: float | None
    load: LoadState | None
    detail: dict[str, bool | float | str | None]
    series: tuple[SoakRow, ...]
    xids: tuple[int, ...] | None


class HostEntry(msgspec.Struct, frozen=True):
    """One host. `complete` is whether everything was done; `error` says why not."""

    host: str
    machine: str
    began: str
    seconds: float
    plan: str
    complete: bool
    exit_code: int
    error: str
    hint: str
    start: StartMessage | None
    figures: tuple[FigureEntry, ...]
    steps: tuple[DoneMessage, ...]


class BenchReport(msgspec.Struct, frozen=True):
    """What `gpuprov bench --json` prints."""

    schema: str
    hosts: tuple[HostEntry, ...]

    @property
    def exit_code(self) -> int:
        """A failure on any host outweighs what is unknown."""
        codes = {host.exit_code for host in self.hosts}
        return 1 if 1 in codes else max(codes, default=3)


def as_json(result: BenchReport) -> str:
    """The report for programs."""
    return msgspec.json.format(msgspec.json.encode(result), indent=1).decode()


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the report."""
    return msgspec.json.schema(BenchReport)


def host_entry(run: BenchRun, plan: str, machine: str, verdicts: Sequence[BenchVerdict]) -> HostEntry:
    """A run as the report has it."""
    complete = run.ended and not any(step.whys for step in run.done)
    refused = f"{run.refused.why}{_holders(run)}" if run.refused else ""
    otherwise = _HINTS.get(run.refused.code, "see the host") if run.refused else ""
    whys = "; ".join(f"{step.recipe} on GPU {gpu}: {why}" for step in run.done for gpu, why in step.whys.items())
    return HostEntry(
        host=run.host,
        machine=machine,
        began=dt.datetime.fromtimestamp(run.began, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        seconds=run.seconds,
        plan=plan,
        complete=complete,
        exit_code=exit_code(verdicts, complete=complete),
        error=run.error.message if run.error else refused or whys,
        hint=run.error.hint if run.error else cuda_hint(refused or whys, otherwise),
        start=run.start,
        figures=tuple(_figure(verdict) for verdict in verdicts),
        steps=tuple(run.done),
    )


_HINTS: Final = {
    "busy": "end what uses the GPU, or measure all the same with --force, which marks every figure as busy",
    "lost": "`gpuprov verify` of the host says what to do about it; measure when all its GPUs answer",
    "no-gpu": "see `nvidia-smi` on the host",
    "no-torch": "--python names the interpreter of the environment that has PyTorch there",
}


def _holders(run: BenchRun) -> str:
    holders = run.refused.holders if run.refused else ()
    words = [
        f"GPU {gpu} by {f'process {pid} of user {user}: {command}' if pid else 'somebody unseen'}" for gpu, pid, user, command in holders
    ]
    return f" ({'; '.join(words[:4])})" if words else ""


def _figure(verdict: BenchVerdict) -> FigureEntry:
    figure, reference = verdict.figure, verdict.reference
    source = read.sources().get(reference.source) if reference else None
    entry = (
        ReferenceEntry(
            float(f"{reference.value:.5g}"), reference.source, source.title if source else reference.source, source.url if source else ""
        )
        if reference
        else None
    )
    return FigureEntry(
        figure=figure.key,
        gpu=figure.gpu,
        unit=figure.unit,
        value=figure.value,
        alone=figure.alone,
        outcome=verdict.outcome,
        share=round(verdict.share, 4) if verdict.share is not None else None,
        reference=entry,
        words=verdict.words,
        seconds=figure.seconds,
        load=figure.load,
        detail=figure.detail,
        series=figure.series,
        xids=figure.xids,
    )


def rows(host: HostEntry, *, every: bool = False) -> list[list[str]]:
    """The figures of a host for a table, the judged ones or all; every text is safe to show."""
    shown = [figure for figure in host.figures if every or figure.outcome not in {"reported", "not-applicable"}]
    return [
        [
            inert(figure.figure if figure.alone else f"{figure.figure} (together)", 60),
            str(figure.gpu),
            _value(figure),
            f"{figure.reference.value:g}" if figure.reference else "",
            f"{figure.share:.0%}" if figure.share is not None else "",
            figure.outcome,
            inert(figure.words, 200),
        ]
        for figure in shown
    ]


def _value(figure: FigureEntry) -> str:
    if figure.value is None:
        return inert(str(figure.detail.get("result", "?")), 12)
    return f"{figure.value:.5g} {inert(figure.unit, 12)}"


def tally(host: HostEntry) -> str:
    """Such as `1 fail, 12 pass, 40 reported`."""
    counts = {outcome: sum(figure.outcome == outcome for figure in host.figures) for outcome in WORST}
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
