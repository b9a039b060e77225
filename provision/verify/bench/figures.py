"""What a host says while it is measured. The host is not trusted: every number and text has bounds, and no line is believed half."""

from typing import Annotated, Any, Final

import msgspec

from provision.errors import ProbeFailedError
from provision.verify.bounds import Amount, Line, Share, Whole, Word

Signed = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]
Bit = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,10}$")]
SoakRow = tuple[Amount, Amount, Whole | None, Amount | None, Whole | None, Whole]
_Holder = tuple[Whole, Whole, Word, Line]
_Few = msgspec.Meta(max_length=64)


class MemoryErrors(msgspec.Struct, frozen=True):
    """Counts that only grow."""

    ecc_corrected: Whole | None = None
    ecc_uncorrected: Whole | None = None
    rows_remapped: Whole | None = None


class BenchGpu(msgspec.Struct, frozen=True):
    """One GPU, as it was before."""

    name: Word = ""
    uuid: Word = ""
    pci: Word = ""
    driver: Word = ""
    memory_bytes: Whole | None = None
    power_limit_w: Amount | None = None
    max_sm_mhz: Whole | None = None
    max_link_generation: Whole | None = None
    max_link_width: Whole | None = None
    mig: bool | None = None
    errors: MemoryErrors = MemoryErrors()


class LoadState(msgspec.Struct, frozen=True):
    """A GPU while a figure was measured: medians, the highest temperature, and of each reason the share of the time."""

    samples: Whole = 0
    sm_mhz: Whole | None = None
    min_sm_mhz: Whole | None = None
    memory_mhz: Whole | None = None
    power_w: Amount | None = None
    temperature_c: Whole | None = None
    reasons: Annotated[dict[Bit, Share], _Few] | None = None
    link_generation: Whole | None = None
    link_width: Whole | None = None

    def share(self, bits: int) -> float:
        """The largest share of the time in which one of some reasons was set."""
        return max((share for bit, share in (self.reasons or {}).items() if int(bit) & bits), default=0.0)


class Measured(msgspec.Struct, frozen=True, tag="figure", tag_field="kind"):
    """One figure of one GPU; `value` is None where there is none, and `why` says why. `series` has rows of a soak."""

    recipe: Word
    name: Word
    gpu: Annotated[int, msgspec.Meta(ge=0, le=63)]
    unit: Word
    value: Signed | None = None
    alone: bool = True
    seconds: Amount | None = None
    load: LoadState | None = None
    detail: Annotated[dict[Word, bool | Signed | Word | None], _Few] = {}
    series: Annotated[tuple[SoakRow, ...], msgspec.Meta(max_length=200)] = ()
    xids: Annotated[tuple[Whole, ...], msgspec.Meta(max_length=50)] | None = None
    why: Line = ""

    @property
    def key(self) -> str:
        """Such as `gemm.bf16.8192.settled`."""
        return f"{self.recipe}.{self.name}"


class HelloMessage(msgspec.Struct, frozen=True, tag="hello", tag_field="kind"):
    """The first word of a host: who it is."""

    machine: Word = ""


class StartMessage(msgspec.Struct, frozen=True, tag="start", tag_field="kind"):
    """The workers stand. `held` are others who use a GPU, where that was forced; `near` is how many cores are near the first GPU."""

    gpus: Annotated[tuple[BenchGpu, ...], _Few] = ()
    torch: Word = ""
    cuda: Word = ""
    cores: Whole = 0
    near: Whole = 0
    processor: Word = ""
    environment: Annotated[dict[Word, Word], _Few] = {}
    held: Annotated[tuple[_Holder, ...], _Few] = ()


class StepMessage(msgspec.Struct, frozen=True, tag="step", tag_field="kind"):
    """A recipe begins on some GPUs."""

    number: Whole
    recipe: Word
    ranks: Annotated[tuple[Whole, ...], _Few]
    seconds: Amount


class DoneMessage(msgspec.Struct, frozen=True, tag="done", tag_field="kind"):
    """It ended. `whys` says why a GPU did not do it, `others` who else used one meanwhile."""

    number: Whole
    recipe: Word
    ranks: Annotated[tuple[Whole, ...], _Few]
    whys: Annotated[dict[Word, Line], _Few] = {}
    others: Annotated[tuple[_Holder, ...], _Few] = ()


class RefusedMessage(msgspec.Struct, frozen=True, tag="refused", tag_field="kind"):
    """Nothing was measured: `code` is busy, no-gpu or no-torch."""

    code: Word
    why: Line = ""
    holders: Annotated[tuple[_Holder, ...], _Few] = ()


class ToolMessage(msgspec.Struct, frozen=True, tag="tool", tag_field="kind"):
    """A program that somebody else installed on the host, asked over all its `gpus`.

    Attributes:
        path: empty where it is not installed.
        code: how it ended; None where it was not started.
        output: what it printed; empty where that was too much, which `cut` says.
        error: the last line of its complaints.
        late: whether it was ended because it took too long.
    """

    tool: Word
    gpus: Annotated[int, msgspec.Meta(ge=0, le=64)]
    path: Line = ""
    code: Annotated[int, msgspec.Meta(ge=-1000, le=1000)] | None = None
    output: Annotated[str, msgspec.Meta(max_length=64 * 1024)] = ""
    cut: bool = False
    error: Line = ""
    late: bool = False
    seconds: Amount | None = None


class EndMessage(msgspec.Struct, frozen=True, tag="end", tag_field="kind"):
    """Everything was done."""

    errors: Annotated[tuple[MemoryErrors, ...], _Few] = ()


Message = HelloMessage | StartMessage | StepMessage | Measured | DoneMessage | RefusedMessage | ToolMessage | EndMessage
_DECODER: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(Message)


def encode(message: Message) -> bytes:
    """A message as a line, without foreign keys, without what nobody judges, and without the command lines of programs.

    A password may stand in such a line, and a run becomes evidence that others read.
    """
    match message:
        case Measured():
            message = msgspec.structs.replace(message, series=())
        case StartMessage():
            message = msgspec.structs.replace(message, held=_unnamed(message.held))
        case DoneMessage():
            message = msgspec.structs.replace(message, others=_unnamed(message.others))
        case RefusedMessage():
            message = msgspec.structs.replace(message, holders=_unnamed(message.holders))
    return msgspec.json.encode(message)


def _unnamed(holders: tuple[_Holder, ...]) -> tuple[_Holder, ...]:
    return tuple((gpu, process, user, "") for gpu, process, user, _ in holders)


def parse(line: bytes, host: str) -> Message:
    """Read a line of a host's.

    Raises:
        ProbeFailedError: it is not one.
    """
    try:
        message: Message = _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{host} sent a figure that is not one: {str(error)[:200]}"
        raise ProbeFailedError(msg, hint="another program may write into the session: see what the login's start-up files print") from error
    return message
