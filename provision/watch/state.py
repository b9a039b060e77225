"""What is known of every host that is watched: the last sample, what lies between two, a short history, and what happened."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from provision.host.ssh import Target
from provision.structs import MutableStruct, Struct, field
from provision.verify.codes import HARDWARE, ORDINARY, THERMAL, after_loss, chain, meaning
from provision.watch.sample import GpuSample, Rates, Sample, rates
from provision.watch.stream import Lost

HISTORY: Final = 120
_NOTICES: Final = 200
_STALE: Final = 5  # intervals


class WatchedHost(Struct):
    """A host and what is known of it beforehand.

    Attributes:
        usd_per_hour: its price; None where it is not known.
        launched_at, ends_at: seconds since 1970; None where this machine was not launched from here.
        clocks_mhz: the graphics clock that its profile asks for; None where that leaves it to the card.
    """

    target: Target
    usd_per_hour: float | None = None
    launched_at: float | None = None
    ends_at: float | None = None
    clocks_mhz: int | None = None


class Notice(Struct):
    """Something that happened on a GPU, and what to do about it.

    Attributes:
        at: seconds since 1970, by the clock of this machine.
        gpu: its position; None where it is not known.
    """

    at: float
    host: str
    gpu: int | None
    happened: str
    todo: str


def activity(gpu: GpuSample) -> float | None:
    """The best that a card tells of how busy it is: the share of busy multiprocessors, else whether there was a kernel.

    A card that counts its multiprocessors has nothing to tell before its second sample; a kernel's presence would look like work there.
    """
    return gpu.sm_active if gpu.gpm else gpu.kernel_present


def slowed_by(gpu: GpuSample) -> list[str]:
    """Why the clocks are lower than they could be, in words; the grave reasons first."""
    bits = gpu.reasons or 0
    return [words for names in (HARDWARE, THERMAL, ORDINARY) for bit, words in names.items() if bits & bit]


class HostState(MutableStruct):
    """One host as it is known now.

    Attributes:
        received_at: when its last sample came, by the clock of this machine; None before the first.
        lost: why there are no samples now; None while they come.
        history: of each GPU, how busy it was, the newest last; None where that was not told.
    """

    host: WatchedHost
    sample: Sample | None = None
    between: Rates = field(default_factory=Rates)
    received_at: float | None = None
    lost: Lost | None = None
    history: dict[int, deque[float | None]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the user calls it."""
        return self.host.target.name

    def age_s(self, now: float) -> float | None:
        """How old the last sample is."""
        return max(0.0, now - self.received_at) if self.received_at is not None else None


class Watched:
    """All hosts that are watched. `interval_s` is how often a sample is due."""

    def __init__(self, hosts: Iterable[WatchedHost], interval_s: float = 2.0) -> None:
        self.interval_s = interval_s
        self.hosts = {host.target.name: HostState(host) for host in hosts}
        self.notices: deque[Notice] = deque(maxlen=_NOTICES)
        self.xids: deque[tuple[str, int, int]] = deque(maxlen=_NOTICES)
        """Host, position of the GPU and code, the newest last."""

    def is_old(self, state: HostState, now: float) -> bool:
        """Whether a host sends nothing now: it is lost, was never heard, or stalls."""
        age_s = state.age_s(now)
        return state.lost is not None or age_s is None or age_s > _STALE * self.interval_s

    def take(self, name: str, item: Sample | Lost, now: float) -> list[Notice]:
        """Note what came from a host; returns what happened since the sample before."""
        state = self.hosts[name]
        if isinstance(item, Lost):
            state.lost = item
            return []
        happened = list(_happened(state, item, now))
        before = state.sample if state.lost is None else None  # nobody knows what lies between two connections
        state.sample, state.between, state.received_at, state.lost = item, rates(before, item), now, None
        for index, gpu in enumerate(item.gpus):
            state.history.setdefault(index, deque(maxlen=HISTORY)).append(activity(gpu))
        self.notices.extend(happened)
        self.xids.extend((name, event.gpu, event.xid) for event in item.events or ())
        return happened


def _happened(state: HostState, now: Sample, at: float) -> Iterable[Notice]:
    """What a sample tells that the one before did not."""
    for event in now.events or ():
        where = event.gpu if event.gpu >= 0 else None
        yield Notice(at, state.name, where, f"XID {event.xid}: {meaning(event.xid)}", chain(event.xid))
    old = {gpu.uuid: gpu for gpu in state.sample.gpus} if state.sample else {}
    for index, gpu in enumerate(now.gpus):
        before = old.get(gpu.uuid)
        if gpu.lost and not (before and before.lost):
            yield Notice(at, state.name, index, f"lost: {gpu.lost}", after_loss())
        if before is None:
            continue
        if (grown := _grown(before.ecc_uncorrected, gpu.ecc_uncorrected)) > 0:
            yield Notice(at, state.name, index, f"uncorrected memory errors: {grown}", "the program that was hit has ended: run it again")
        if (grown := _grown(before.rows_remapped, gpu.rows_remapped)) > 0:
            yield Notice(at, state.name, index, f"rows to be remapped: {grown}", "drain the host and reset the GPU, which remaps them")
        if gpu.remap_failed and not before.remap_failed:
            yield Notice(at, state.name, index, "a row could not be remapped", "replace the machine")


def _grown(before: int | None, now: int | None) -> int:
    return now - before if before is not None and now is not None else 0
