"""Between GPUs: copies from one to each other one, by direction and both at once, and the sum over 2, 4 and 8 of them."""

import datetime as dt
import time

from timing import Timing


def run(bench, seconds):
    """`ranks` of the options are those that do it: one alone copies, several add up."""
    ranks = bench.known["ranks"]
    if len(ranks) > 1:
        all_reduce(bench, seconds, ranks)
    elif bench.known["world"] > 1:
        copies(bench, seconds)


def copies(bench, seconds):
    """From this GPU to each other, there, back, and both ways on two streams."""
    torch, own = bench.torch, bench.index
    others = [index for index in range(torch.cuda.device_count()) if index != own]
    for other in others:
        count, share = bench.bytes(512 << 20) // 4, seconds / len(others) / 3
        mine = torch.randint(-(2**31), 2**31 - 1, (count,), dtype=torch.int32, device=bench.device)
        theirs = torch.empty(count, dtype=torch.int32, device="cuda:%d" % other)
        direct = torch.cuda.can_device_access_peer(own, other)
        there = bench.timed(lambda theirs=theirs, mine=mine: theirs.copy_(mine, non_blocking=True), share)
        right = bool(torch.equal(theirs.cpu()[: 1 << 20], mine.cpu()[: 1 << 20]))
        bench.figure("p2p.%d-%d" % (own, other), 4 * count / there.median / 1e9, "GB/s", there, direct=direct, right=right)
        if other < own:
            continue  # the other one measures the way back, and one of both the two ways at once
        back, source = torch.empty_like(mine), torch.empty_like(theirs)
        aside, beyond = torch.cuda.Stream(bench.device), torch.cuda.Stream(other)

        def both(theirs=theirs, mine=mine, back=back, source=source, aside=aside, beyond=beyond):  # noqa: PLR0917 - bound here
            # A copy waits for what the current streams of both GPUs have to do, so the second has streams of its own on both.
            aside.wait_stream(torch.cuda.current_stream(bench.device))
            theirs.copy_(mine, non_blocking=True)
            with torch.cuda.stream(beyond), torch.cuda.stream(aside):
                back.copy_(source, non_blocking=True)
            torch.cuda.current_stream(bench.device).wait_stream(aside)

        timing = bench.timed(both, share)
        bench.figure("p2p.%d-%d.both" % (own, other), 2 * 4 * count / timing.median / 1e9, "GB/s", timing, direct=direct)


def all_reduce(bench, seconds, ranks):
    """1 GiB of whole numbers on each GPU, whose sum is the same in any order; the slowest GPU counts."""
    torch = bench.torch
    # Only where there are several GPUs.
    import torch.distributed as group

    count, size = len(ranks), bench.bytes(1 << 30) // 4
    where = "tcp://127.0.0.1:%d" % bench.known["port"]
    late = dt.timedelta(seconds=20)
    kind = "nccl" if bench.cuda else "gloo"
    group.init_process_group(kind, init_method=where, rank=ranks.index(bench.index), world_size=count, timeout=late)
    try:
        room = torch.tensor([size], device=bench.device)
        group.all_reduce(room, op=group.ReduceOp.MIN)
        size = int(room.item())
        mine = torch.full((size,), float(ranks.index(bench.index) + 1), device=bench.device)
        group.all_reduce(mine)
        right = bool((mine == count * (count + 1) / 2).all().item())
        once = bench.block(lambda: group.all_reduce(mine), 1)
        often = torch.tensor([min(40, max(5, int(seconds / 2 / max(once, 1e-6))))], device=bench.device)
        group.broadcast(often, 0)
        # As many on every GPU, in blocks of five: the kernels of one follow those of the one before, as in training.
        mine.zero_()
        since, blocks = time.monotonic(), []
        for _ in range(int(often.item()) // 5):
            blocks.append(bench.block(lambda: group.all_reduce(mine), 5))
        timing = Timing(blocks, 5, since, time.monotonic())
        slowest = torch.tensor([timing.median], device=bench.device)
        group.all_reduce(slowest, op=group.ReduceOp.MAX)
        rate = 4 * size / slowest.item() / 1e9
    finally:
        group.destroy_process_group()
    if bench.index == ranks[0]:
        detail = {"algorithm_gb_s": round(rate, 2), "bytes": 4 * size, "right": right}
        if bench.cuda:
            detail["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        bench.figure("all_reduce.%d" % count, rate * 2 * (count - 1) / count, "GB/s", timing, **detail)
