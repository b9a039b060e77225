"""Where the time of a run goes, by phase, measured by watching one more run of the same command from outside (tests/bench/traced.py).

At each moment of a run the first of these that any of its threads is in counts, so that waiting is what is left when nobody computes:

- `python`: from the start of the process to the first line of ours, and from the command's end to the process'.
- `import`: the outermost import statement of a thread.
- `parse`: the profile and its lock are read and resolved; the facts are unpacked and made typed.
- `judge`: the checks of one report.
- `print`: Click's and rich's output, the text of a report, a table.
- `sdk`: the cloud's own library builds a client, signs, sends and reads; without the two that follow, which happen inside of it.
- `connect`: from the start of ssh until ssh has authenticated (its LocalCommand says when); of a cloud, the TCP connection.
- `wait`: a thread waits for a socket, a pipe, a process or a moment, and nothing of the above happens.
- `rest`: none of them: our own code between the boundaries.

Of CPU, each moment belongs to the innermost phase of its own thread, and `ssh` is the CPU of the processes that were waited for.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.bench.cost import Cost

ORDER = ("python", "import", "parse", "judge", "print", "sdk", "connect", "wait", "rest")
RUNS = 3


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the file: a phase begins (+) or ends (-) in a thread, at a time of the clock, with the thread's CPU
    seconds so far. The CPU of `begin` and `end` is the process'."""

    phase: str
    begins: bool
    thread: int
    at: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Span:
    """What a thread was in between two of its events; an empty phase is none."""

    phase: str
    begin: float
    end: float
    cpu_s: float


class Watched:
    """One watched run: the words before the command's own, the environment, and what was noted."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Let ssh, as the environment finds it, tell when it has authenticated."""
        self._events, self._connected = folder / "events", folder / "connected"
        program = folder / "bin/ssh"
        program.parent.mkdir()
        tell = f"-o PermitLocalCommand=yes -o 'LocalCommand=date +%%s.%%N >>{self._connected}'"
        found = next(str(path) for each in environment["PATH"].split(os.pathsep) if os.access(path := Path(each, "ssh"), os.X_OK))
        program.write_text(f'#!/bin/sh\nexec {found} {tell} "$@"\n')
        program.chmod(0o755)
        self.prefix = [sys.executable, str(Path(__file__).with_name("traced.py")), str(self._events)]
        self.environment = {**environment, "PATH": f"{program.parent}:{environment['PATH']}"}

    def events(self) -> list[Event]:
        """What was noted, in its order."""
        words = [line.split() for line in self._events.read_text().splitlines()]
        return [Event(phase, sign == "+", int(thread), float(at), float(cpu)) for phase, sign, thread, at, cpu in words]

    def connections(self) -> list[float]:
        """When ssh had authenticated, each time."""
        return [float(line) for line in self._connected.read_text().split()] if self._connected.exists() else []


def watched(run: Callable[[Watched], tuple[float, float]], environment: Mapping[str, str], runs: int = RUNS) -> dict[str, float]:
    """Seconds by phase of the run that is the median of some; `run` makes one and returns when it began and ended, by the clock."""
    found = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as place:
            watch = Watched(Path(place), environment)
            began, ended = run(watch)
            found.append(by_wall(watch.events(), watch.connections(), began, ended))
    middle = statistics.median_low(sum(phases.values()) for phases in found)
    return next(phases for phases in found if sum(phases.values()) == middle)


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """When something began and ended, by the clock."""
    began = time.time()
    run()
    return began, time.time()


def spans(events: Sequence[Event], ended: float) -> list[Span]:
    """What each thread was in, from event to event; what never ended lasts to the end of the run."""
    found = []
    for thread in dict.fromkeys(event.thread for event in events):
        own = [event for event in events if event.thread == thread]
        inside = list[str]()
        for event, following in pairwise([*own, Event("", begins=False, thread=thread, at=ended, cpu_s=own[-1].cpu_s)]):
            if event.begins:
                inside.append(event.phase)
            elif event.phase in inside:
                del inside[len(inside) - 1 - inside[::-1].index(event.phase)]
            found.append(Span(inside[-1] if inside else "", event.at, following.at, following.cpu_s - event.cpu_s))
    return found


def by_wall(events: Sequence[Event], connected: Sequence[float], began: float, ended: float) -> dict[str, float]:
    """Seconds of each phase; together they are the run."""
    events = [event for event in events if event.at <= ended]
    first = next(event.at for event in events if event.phase == "begin")
    last = next((event.at for event in events if event.phase == "end"), ended)
    found = [Span("python", began, first, 0.0), Span("python", last, ended, 0.0)]
    found += spans([event for event in events if event.phase in ORDER], ended)
    asked = [event.at for event in events if event.phase == "ssh"]
    found += [Span("connect", begin, end, 0.0) for begin, end in zip(asked, sorted(connected), strict=False)]
    moments = sorted({began, ended, *(at for span in found for at in (span.begin, span.end) if began < at < ended)})
    took = dict.fromkeys(ORDER, 0.0)
    for begin, end in pairwise(moments):
        now = {span.phase for span in found if span.begin <= begin and span.end >= end}
        took[next((phase for phase in ORDER if phase in now), "rest")] += end - begin
    return {phase: seconds for phase, seconds in took.items() if seconds > 0.0005}


def by_cpu(events: Sequence[Event], cost: Cost) -> dict[str, float]:
    """CPU seconds of each phase of the client; together they are what it took, the processes that it waited for as `ssh`."""
    took = dict.fromkeys([*ORDER, "ssh"], 0.0)
    for span in spans([event for event in events if event.phase in ORDER], max(event.at for event in events)):
        took[span.phase or "rest"] += span.cpu_s
    begin, end = (next(event for event in events if event.phase == phase) for phase in ("begin", "end"))
    took["python"] += begin.cpu_s
    took["ssh"] = cost.cpu_s - end.cpu_s
    took["rest"] += end.cpu_s - sum(seconds for phase, seconds in took.items() if phase != "ssh")
    return {phase: seconds for phase, seconds in took.items() if seconds > 0.0005}
