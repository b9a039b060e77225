"""A run on one host, as it is put together from what the host said, line by line."""

from collections.abc import Sequence
from typing import Final

from provision.errors import GpuprovError, ProbeFailedError
from provision.structs import MutableStruct, field
from provision.verify.bench import figures
from provision.verify.bench.figures import (
    BenchGpu,
    DoneMessage,
    EndMessage,
    HelloMessage,
    Measured,
    RefusedMessage,
    StartMessage,
    StepMessage,
    ToolMessage,
)
from provision.verify.bench.tools import figures_of

_MOST_FIGURES: Final = 20_000


class BenchRun(MutableStruct):
    """What is known of a run.

    Attributes:
        lines: what the host said, as we understood it.
        ended: whether the host said that everything was done.
        error: why it did not.
        began: seconds since 1970, by this machine's clock.
    """

    host: str
    began: float
    machine: str = ""
    start: StartMessage | None = None
    lines: list[bytes] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)
    done: list[DoneMessage] = field(default_factory=list)
    refused: RefusedMessage | None = None
    ended: bool = False
    error: GpuprovError | None = None
    seconds: float = 0.0

    @property
    def gpus(self) -> tuple[BenchGpu, ...]:
        """The GPUs that were measured; none where the host did not begin."""
        return self.start.gpus if self.start else ()


def take(run: BenchRun, message: figures.Message) -> None:
    """Note what a host said."""
    run.lines.append(figures.encode(message))
    match message:
        case HelloMessage():
            run.machine = message.machine
        case StartMessage():
            run.start = message
        case Measured() | ToolMessage():
            if len(run.measured) >= _MOST_FIGURES:
                msg = f"{run.host} sends more figures than there can be"
                raise ProbeFailedError(msg, hint="another program may write into the session")
            run.measured.extend([message] if isinstance(message, Measured) else figures_of(message))
        case DoneMessage():
            run.done.append(message)
        case RefusedMessage():
            run.refused = message
        case EndMessage():
            run.ended = True
        case StepMessage():
            pass


def replayed(host: str, lines: Sequence[bytes]) -> BenchRun:
    """A run from lines that were recorded."""
    run = BenchRun(host, 0.0)
    for line in lines:
        take(run, figures.parse(line, host))
    return run
