"""What one GPU does in the sums over several hosts; it runs under the host's PyTorch, and imports nothing of ours.

Every pair of hosts that one round joins sums up alone, and then all hosts do. The figure is what one link carries, as nccl-tests has it:
2 (n - 1) / n times the bytes, over the time (NVIDIA/nccl-tests, doc/PERFORMANCE.md, "busbw").
"""

import datetime as dt
import json
import sys
import time

import torch
import torch.distributed as dist

WARM, TIMED = 3, 15


def rounds(count, most):
    """Pairs of hosts, a list for each round in which no host stands twice: the circle method."""
    hosts = [*range(count), *([None] if count % 2 else [])]
    told = []
    for _ in range(min(most, len(hosts) - 1)):
        pairs = [(hosts[at], hosts[-1 - at]) for at in range(len(hosts) // 2)]
        told.append([pair for pair in pairs if None not in pair])
        hosts = [hosts[0], hosts[-1], *hosts[1:-1]]
    return told


class SumPart:
    """One GPU's part in the sums."""

    def __init__(self, asked):
        self.asked = asked
        self.counts, self.host, self.rank, self.right = asked["counts"], asked["host"], asked["rank"], True
        self.limit = dt.timedelta(seconds=asked["patience_s"])
        self.values = torch.empty(asked["bytes"] // 4, dtype=torch.float32, device="cuda" if asked["cuda"] else "cpu")

    def ranks_of(self, host):
        """The numbers of a host's GPUs among all."""
        first = sum(self.counts[:host])
        return list(range(first, first + self.counts[host]))

    def settle(self):
        """Wait for the GPU."""
        if self.asked["cuda"]:
            torch.cuda.synchronize()

    def measured(self, group, ranks):
        """GB/s of the bus; a sum without its value is noted."""
        value = float(sum(rank + 1 for rank in ranks))
        for _ in range(WARM):
            self.values.fill_(float(self.rank + 1))
            dist.all_reduce(self.values, group=group)
            self.right = self.right and bool((self.values == value).all())
        self.values.zero_()
        self.settle()
        dist.barrier(group=group)
        took = []
        for _ in range(TIMED):
            began = time.monotonic()
            dist.all_reduce(self.values, group=group)
            self.settle()
            took.append(time.monotonic() - began)
        return 2 * (len(ranks) - 1) / len(ranks) * self.asked["bytes"] / sorted(took)[TIMED // 2] / 1e9

    def pairs(self):
        """GB/s with one other host at a time, by its number. Every process makes every group, in one order."""
        told = {}
        for joined in rounds(len(self.counts), self.asked["rounds"]):
            ranks = [self.ranks_of(one) + self.ranks_of(other) for one, other in joined]
            groups = [dist.new_group(each, timeout=self.limit) for each in ranks]
            for (one, other), members, group in zip(joined, ranks, groups):
                if self.host in (one, other):
                    told[str(one + other - self.host)] = self.measured(group, members)
            dist.barrier()
        return told


def main():
    """Join the others, sum up in each round and together, and print what was measured."""
    asked = json.loads(sys.stdin.readline())
    if asked["cuda"]:
        torch.cuda.set_device(asked["gpu"])
    part, world = SumPart(asked), sum(asked["counts"])
    store = dist.TCPStore(asked["meet"]["address"], asked["meet"]["port"], world, part.rank == 0, part.limit)
    kind = "nccl" if asked["cuda"] else "gloo"
    dist.init_process_group(kind, store=store, rank=part.rank, world_size=world, timeout=part.limit)
    pairs, together = part.pairs(), part.measured(None, list(range(world)))
    print(json.dumps({"pairs": pairs, "together": together, "right": part.right}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
