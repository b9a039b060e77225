"""Watch hosts until somebody or something ends it."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence

from provision.watch.recording import Recording
from provision.watch.sample import Sample
from provision.watch.state import Watched, WatchedHost
from provision.watch.stream import Lost, samples

Take = Callable[[str, Sample | Lost, float], object]


async def watch(
    hosts: Sequence[WatchedHost], interval_s: float, take: Take, until: Callable[[float], bool], *, tick_s: float = 0.25
) -> None:
    """Give every sample and loss of every host to `take`, with the time by this machine's clock, until `until` says that it is enough.

    One host never waits for another. All connections, and what they started, have ended when this returns or is cancelled.
    """

    async def follow(host: WatchedHost) -> None:
        async with contextlib.aclosing(samples(host.target, interval_s)) as stream:
            async for item in stream:
                take(host.target.name, item, time.time())

    tasks = [asyncio.create_task(follow(host)) for host in hosts]
    try:
        while not until(time.time()):
            for task in tasks:
                if task.done():
                    task.result()  # it never returns; an error of ours is raised here
            await asyncio.sleep(tick_s)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def replay(recording: Recording, take: Take) -> float:
    """Give every moment of a recording to `take`; returns the time of the last one."""
    now = 0.0
    for moment in recording.moments:
        take(moment.host, moment.item, moment.at)
        now = moment.at
    return now


def all_answered(watched: Watched, *, least: int = 1) -> bool:
    """Whether every host has sent so many samples, or has been lost."""
    return all(state.lost is not None or (state.sample is not None and state.sample.number >= least) for state in watched.hosts.values())
