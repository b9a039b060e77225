"""`bench`: hosts measured side by side, judged by what is published and by what was measured before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from provision.structs import Struct
from provision.verify.bench import record
from provision.verify.bench.heard import BenchRun
from provision.verify.bench.plan import BenchStep
from provision.verify.bench.verdict import Past, judge
from provision.watch.bench.report import SCHEMA, BenchReport, host_entry
from provision.watch.bench.run import Told, measure

if TYPE_CHECKING:
    from provision.host.ssh import Target


class BenchRequest(Struct):
    """What is measured where. `interpreter` is the python of each host's PyTorch; `plan` is the name of the plan."""

    targets: tuple[Target, ...]
    steps: tuple[BenchStep, ...]
    plan: str
    interpreter: dict[str, str]
    force: bool = False


def bench(request: BenchRequest, folder: Path, told: Told) -> BenchReport:
    """Measure all hosts at the same time, judge them in the order in which they were named, and keep their runs."""
    return judged(asyncio.run(_all(request, told)), request.plan, folder)


async def _all(request: BenchRequest, told: Told) -> list[BenchRun]:
    each = (
        measure(target, request.steps, interpreter=request.interpreter[target.name], force=request.force, told=told)
        for target in request.targets
    )
    return list(await asyncio.gather(*each))


def judged(runs: Sequence[BenchRun], plan: str, folder: Path) -> BenchReport:
    """The report of runs. Hosts that were measured together are a fleet with those that were measured before."""
    known = record.read(folder)
    fresh = [record.PastRun(record.identity(run), run.host, _card(run), run.began, record.worst(run.measured)) for run in runs if run.start]
    entries = []
    for run in runs:
        machine, card = record.identity(run), _card(run)
        past = record.past([*known, *(each for each in fresh if each.machine != machine)], machine, card) if card else Past({}, {})
        verdicts = judge(run.start, run.measured, run.done, past)
        record.add(folder, run, verdicts)
        record.keep(folder, run, plan)
        entries.append(host_entry(run, plan, machine, verdicts))
    return BenchReport(SCHEMA, tuple(entries))


def _card(run: BenchRun) -> str:
    return run.gpus[0].name if run.gpus else ""
