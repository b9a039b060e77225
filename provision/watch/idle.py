"""Whether a machine does nothing: several signals over a time. What is not known counts as busy, and held memory is not idleness.

A GPU is idle while no kernel runs to speak of, it draws little more than at rest, its bus is quiet and no new process computes on it.
Rules of others, and why these are several: docs/sources/monitor.md.
"""

from collections import deque
from enum import StrEnum
from typing import Final

from provision.structs import Struct
from provision.watch.sample import GpuSample, Sample

_MOST_ACTIVE: Final = 0.05
_MOST_BUS_BYTES_S: Final = 10e6
_MOST_ABOVE_REST: Final = 0.10  # of the power limit
_HELD_BYTES: Final = 64 << 20  # more than a driver keeps for itself and for a program's context
_LEAST_SAMPLES: Final = 0.8


class Occupation(StrEnum):
    """What a machine does."""

    BUSY = "busy"
    """It works, or not enough is known to say that it does not."""
    PARKED = "parked"
    """Nothing runs, and a process holds memory of a GPU."""
    IDLE = "idle"


class Sign(StrEnum):
    """What speaks against idleness."""

    NO_GPU = "no-gpu"
    KERNELS = "kernels"
    POWER = "power"
    BUS = "bus"
    NEW_PROCESS = "new-process"
    MISSING = "missing"
    """Too few samples, or a GPU that does not tell how busy it is."""


class IdleVerdict(Struct):
    """What a machine did over the time.

    Attributes:
        signs: what speaks against idleness, each once.
        holders: the processes that hold memory, as user and process id.
    """

    occupation: Occupation
    signs: tuple[Sign, ...] = ()
    holders: tuple[tuple[str, int], ...] = ()


class IdleWatch:
    """Looks at the samples of one host.

    Args:
        window_s: how long nothing must have happened.
        interval_s: how often a sample is due.
    """

    def __init__(self, window_s: float, interval_s: float) -> None:
        self._window_s, self._interval_s = window_s, interval_s
        self._seen: deque[tuple[float, frozenset[Sign]]] = deque()
        self._began: float | None = None
        self._pids: frozenset[int] | None = None
        self._rest_w: dict[str, float] = {}
        self._last: Sample | None = None

    def take(self, sample: Sample, now: float) -> None:
        """Note a sample that came at a time, by the clock of this machine."""
        self._began = now if self._began is None else self._began
        self._seen.append((now, frozenset(self._signs(sample))))
        self._last = sample
        while self._seen and self._seen[0][0] < now - self._window_s:
            self._seen.popleft()

    def verdict(self, now: float) -> IdleVerdict:
        """What the machine did in the time that ends now."""
        recent = [signs for at, signs in self._seen if at >= now - self._window_s]
        signs = {sign for each in recent for sign in each}
        due = self._window_s / self._interval_s
        if self._began is None or now - self._began < self._window_s or len(recent) < _LEAST_SAMPLES * due:
            signs.add(Sign.MISSING)
        if signs:
            return IdleVerdict(Occupation.BUSY, tuple(sign for sign in Sign if sign in signs))
        holders = tuple((process.user, process.pid) for process in self._last.processes) if self._last else ()
        held = self._last is not None and any(_holds(gpu) for gpu in self._last.gpus) and bool(holders)
        return IdleVerdict(Occupation.PARKED if held else Occupation.IDLE, (), holders if held else ())

    def _signs(self, sample: Sample) -> set[Sign]:
        signs = set() if sample.gpus else {Sign.NO_GPU}
        pids = frozenset(process.pid for process in sample.processes)
        if self._pids is not None and pids - self._pids:
            signs.add(Sign.NEW_PROCESS)
        self._pids = pids
        for gpu in sample.gpus:
            told = [share for share in (gpu.sm_active, gpu.kernel_present) if share is not None]
            if gpu.lost or not told:
                signs.add(Sign.MISSING)
                continue
            if max(told) > _MOST_ACTIVE:
                signs.add(Sign.KERNELS)
            if (gpu.pcie_sent_bytes_s or 0) + (gpu.pcie_received_bytes_s or 0) > _MOST_BUS_BYTES_S:
                signs.add(Sign.BUS)
            if self._above_rest(gpu):
                signs.add(Sign.POWER)
        return signs

    def _above_rest(self, gpu: GpuSample) -> bool:
        """Whether a GPU draws more than at rest, which is the least that was seen of it; without figures other signs decide."""
        if gpu.power_w is None or not gpu.power_limit_w:
            return False
        self._rest_w[gpu.uuid] = min(gpu.power_w, self._rest_w.get(gpu.uuid, gpu.power_w))
        return gpu.power_w > self._rest_w[gpu.uuid] + _MOST_ABOVE_REST * gpu.power_limit_w


def _holds(gpu: GpuSample) -> bool:
    return (gpu.memory_used_bytes or 0) > _HELD_BYTES
