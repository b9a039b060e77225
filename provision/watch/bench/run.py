"""A run on one host: what is sent, and what comes back until the host says that it ended."""

import contextlib
import json
import time
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from provision.errors import GpuprovError, ProbeFailedError
from provision.host import python
from provision.host.ssh import Target
from provision.structs import Struct
from provision.verify.bench import figures
from provision.verify.bench.figures import StepMessage
from provision.verify.bench.heard import BenchRun, take
from provision.verify.bench.plan import CELL_S, BenchStep
from provision.watch import stream

ROOT: Final = Path(__file__).parent
_SILENT_S: Final = 60.0  # four times this without a word, and the host is given up: a step of the full plan says its figures in between


class BenchMoment(Struct):
    """Where a run stands: what it does now, and about how many seconds are left."""

    recipe: str
    ranks: tuple[int, ...]
    left_s: float


Told = Callable[[str, BenchMoment], None]


@cache
def _modules() -> tuple[bytes, bytes]:
    """The loader, and all modules that travel."""
    texts = {
        path.stem: path.read_text() for folder in ("onhost", "recipes") for path in (ROOT / folder).glob("*.py") if path.stem != "__init__"
    }
    loader = texts["loader"]
    texts["pynvml"] = zlib.decompress(python.pynvml()).decode()
    return loader.encode(), zlib.compress(json.dumps(texts).encode(), 6)


async def measure(target: Target, steps: Sequence[BenchStep], *, interpreter: str, force: bool, told: Told = lambda *_: None) -> BenchRun:
    """Let a host do some steps. It always returns what came, also where the host was lost in the middle."""
    run, began = BenchRun(target.name, time.time()), time.monotonic()

    def parcel(nonce: str) -> tuple[bytes, ...]:
        request = {"main": "crew", "nonce": nonce, "python": interpreter, "first": python.FIRST, "force": force, "processor": False}
        return (*_modules(), json.dumps({**request, "steps": [step.order() for step in steps]}).encode())

    try:
        async with contextlib.aclosing(stream.lines(target, parcel, _SILENT_S)) as every:
            async for line in every:
                message = figures.parse(line, target.name)
                if isinstance(message, StepMessage):
                    told(target.name, BenchMoment(message.recipe, message.ranks, left(steps, message.number, message.seconds)))
                take(run, message)
                if run.ended or run.refused:
                    break
        if not run.ended and not run.refused:
            msg = f"{target.name} ended the session before it had measured everything"
            raise ProbeFailedError(msg, hint="look whether a process was killed there, for example for want of memory")
    except GpuprovError as error:
        run.error = error
    run.seconds = round(time.monotonic() - began, 1)
    return run


def left(steps: Sequence[BenchStep], number: int, round_s: float) -> float:
    """About how many seconds are left at the beginning of a step's round, as planned."""
    rest = sum(step.seconds for step in steps[number + 1 :])
    return CELL_S * (rest + min(round_s, steps[number].seconds if number < len(steps) else 0))
