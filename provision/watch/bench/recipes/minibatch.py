"""Seconds of a step of training for seven networks at the mini-batches of Shi et al., 2016, on the GPU and by threads of the processor.

FP32, as PyTorch has it by default (its convolutions use TF32 where the card has it). Loss, gradient and update are part of the step.
"""

import os
import time

from models import NETWORKS


def run(bench, seconds):
    """`threads` of the options: 0 stands for the GPU. The most threads go first, and tell whether fewer would end in time."""
    cores = len(bench.known["allowed"])
    threads = {min(count, cores) for count in bench.known.get("threads") or [0]}
    order = bench.known.get("networks") or list(NETWORKS)
    end = time.monotonic() + seconds
    cells = [(name, count) for name in order for count in sorted(threads, reverse=True)]
    before = {}
    try:
        for number, (name, count) in enumerate(cells):
            share = max(0.0, end - time.monotonic()) / (len(cells) - number)
            most = bench.known.get("cell_s") or 4 * share
            known = before.get(name)
            if known and known[0] * known[1] / count > min(most, end - time.monotonic()):
                words = "%d threads took %.3g s, so these may take %.3g s" % (known[1], known[0], known[0] * known[1] / count)
                bench.missing(label(name, count), "s", words)
                continue
            took = cell(bench, name, count, share, most)
            if count:
                before[name] = (took, count)
    finally:
        stand_on(bench.known["near"])


def stand_on(cores):
    """Let every thread of this process use these cores; those that start later inherit it."""
    for task in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(task), cores)


def label(name, count):
    """A cell's name."""
    return "%s.%s" % (name, "cpu%d" % count if count else "gpu")


def cell(bench, name, count, seconds, most):
    """One network on one device; returns the seconds of a step."""
    torch = bench.torch
    device = torch.device("cpu") if count else bench.device
    if count:
        torch.set_num_threads(count)
        stand_on(bench.known["allowed"])
    make, batch, shape, classes = NETWORKS[name]
    model = make(torch).to(device)
    whole = shape[0] == "words"
    given = torch.randint(0, classes, (batch, shape[1]), device=device) if whole else torch.randn(batch, *shape, device=device)
    labels = torch.randint(0, classes, (batch * shape[1] if whole else batch,), device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(given), labels).backward()
        optimizer.step()

    began = time.perf_counter()
    step()
    bench.sync()
    first = time.perf_counter() - began
    if not count:
        timing = bench.timed(step, min(3.0, max(0.2, seconds / 2)))
        bench.figure(label(name, 0), timing.median, "s", timing, batch=batch)
        return timing.median
    took = []
    for _ in range(max(int(2 * first < most), min(10, int((seconds - first) / first)))):
        began = time.perf_counter()
        step()
        took.append(time.perf_counter() - began)
    middle = sorted(took)[len(took) // 2] if took else first
    bench.figure(label(name, count), middle, "s", None, batch=batch, steps=len(took) or 1, cold=not took)
    return middle
