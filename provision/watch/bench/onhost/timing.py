"""What every recipe is given: the GPU, time between two events, and a way to say a figure with the state of the GPU beside it."""

import statistics
import time

BLOCK_S = 0.02
SETTLED = 0.02  # of power, between two half seconds


class Timing:
    """Seconds of one call: the median of all blocks, the fastest, the first half second's fastest, and when it began and ended."""

    def __init__(self, blocks, calls, since, until):
        """`blocks` are seconds of `calls` calls each."""
        self.median, self.best = statistics.median(blocks) / calls, min(blocks) / calls
        self.calls, self.since, self.until = calls * len(blocks), since, until


class Bench:
    """One GPU, or the processor where there is none, for tests."""

    def __init__(self, torch, index, meter, say, **known):
        """`say` takes the fields of a message; `known` are figures of the host: world, options, pids."""
        self.torch, self.index, self.meter, self.say, self.known = torch, index, meter, say, known
        self.cuda = torch.cuda.is_available()
        self.device = torch.device("cuda", index) if self.cuda else torch.device("cpu")
        self.alone, self.recipe = True, ""

    @property
    def capability(self):
        """The compute capability, (9, 0) for a Hopper; (0, 0) of a processor."""
        return self.torch.cuda.get_device_capability(self.device) if self.cuda else (0, 0)

    @property
    def cache(self):
        """Bytes of the L2 cache."""
        return self.torch.cuda.get_device_properties(self.device).L2_cache_size if self.cuda else 1 << 20

    def bytes(self, most):
        """As many bytes as are asked for, or what a sixth of the free memory holds; little on a processor."""
        return int(min(most, self.torch.cuda.mem_get_info(self.device)[0] // 6)) if self.cuda else min(most, 1 << 20)

    def size(self, most):
        """The side of a matrix: as asked, less on a processor."""
        return most if self.cuda else max(8, most // 64)

    def sync(self):
        """Wait until the GPU has done everything."""
        if self.cuda:
            self.torch.cuda.synchronize(self.device)

    def block(self, work, calls):
        """Seconds that some calls take on the GPU."""
        if not self.cuda:
            began = time.perf_counter()
            for _ in range(calls):
                work()
            return time.perf_counter() - began
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            work()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1000

    def timed(self, work, seconds, least=3):
        """Time a call for some seconds, in blocks between two events; the first calls do not count."""
        self.block(work, 2)
        calls = max(1, min(10000, int(BLOCK_S / max(self.block(work, 2) / 2, 1e-7))))
        since, blocks = time.monotonic(), []
        while len(blocks) < least or time.monotonic() < since + seconds:
            blocks.append(self.block(work, calls))
        return Timing(blocks, calls, since, time.monotonic())

    def warmed(self, work, most):
        """Work until the power no longer rises, for `most` seconds at the longest; returns the seconds."""
        began = time.monotonic()
        while time.monotonic() < began + most:
            since = time.monotonic()
            while time.monotonic() < min(since + 0.5, began + most):
                self.block(work, 10)
            before, now = self.meter.power(self.index, since - 0.5), self.meter.power(self.index, since)
            if since > began and before and now and abs(now / before - 1) < SETTLED:
                break
        return time.monotonic() - began

    def graphed(self, work):
        """The same work as one CUDA graph, which the host starts at once: short kernels are not measured by how fast Python is."""
        if not self.cuda:
            return work
        stream, graph = self.torch.cuda.Stream(self.device), self.torch.cuda.CUDAGraph()
        stream.wait_stream(self.torch.cuda.current_stream(self.device))
        with self.torch.cuda.stream(stream):
            for _ in range(3):
                work()
        self.torch.cuda.current_stream(self.device).wait_stream(stream)
        with self.torch.cuda.graph(graph):
            work()

        def replay():
            graph.replay()

        # A replay reads and writes the memory of the work's tensors: it keeps the work, and so them.
        replay.work = work
        return replay

    def figure(self, name, value, unit, timing=None, more=None, **detail):
        """Say a figure; `timing` is that of which the GPU's state stands beside it, `more` are fields beside its detail."""
        load = self.meter.load(self.index, timing.since, timing.until) if timing is not None and not self.meter.why else None
        seconds = round(timing.until - timing.since, 2) if timing is not None else None
        known = {"unit": unit, "alone": self.alone, "seconds": seconds, "load": load, "detail": detail}
        self.say(kind="figure", recipe=self.recipe, name=name, value=float("%.5g" % value), **dict(known, **(more or {})))

    def missing(self, name, unit, why):
        """Say that there is no figure, and why."""
        self.say(kind="figure", recipe=self.recipe, name=name, value=None, unit=unit, alone=self.alone, why=str(why)[:300])
