"""What it costs to start a kernel that does almost nothing: without waiting, waiting for each, and as a node of a CUDA graph.

Processor and virtualisation decide it, not the card.
"""

import statistics
import time


def run(bench, seconds):
    """Microseconds of one call: the median of many rounds of one thousand (or one hundred) calls."""
    one = bench.torch.zeros(1, device=bench.device)
    work = lambda: one.add_(0)  # noqa: E731
    bench.block(work, 100)
    bench.sync()
    bench.meter.paused = True  # its thread would take part of the processor
    try:
        began = time.monotonic()
        free = rounds(bench, work, 1000, seconds / 4, each=False)
        waited = rounds(bench, work, 100, seconds / 4, each=True)
    finally:
        bench.meter.paused = False
    ended = Window(began, time.monotonic())
    bench.figure("launch", 1e6 * free, "us", ended)
    bench.figure("launch.waited", 1e6 * waited, "us", ended)
    nodes = 1000 if bench.cuda else 10
    timing = bench.timed(bench.graphed(lambda: [work() for _ in range(nodes)]), seconds / 4)
    bench.figure("launch.graph", 1e6 * timing.median / nodes, "us", timing, nodes=nodes)


class Window:
    """When something was measured."""

    def __init__(self, since, until):
        """By the monotonic clock."""
        self.since, self.until = since, until


def rounds(bench, work, calls, seconds, each):
    """Seconds of one call, by the host's clock."""
    took, end = [], time.monotonic() + seconds
    while not took or time.monotonic() < end:
        began = time.perf_counter()
        for _ in range(calls):
            work()
            if each:
                bench.sync()
        took.append((time.perf_counter() - began) / calls)
        bench.sync()
    return statistics.median(took)
