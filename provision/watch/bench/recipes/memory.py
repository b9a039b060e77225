"""Memory of the GPU: a copy on it, and a sum of two arrays into a third, reads and writes counted.

The multiprocessors do it: the copy engines do not fill the memory's rate. Each array is far larger than the L2 cache.
"""


def run(bench, seconds):
    """Random whole numbers, since zeros may be compressed."""
    torch = bench.torch
    count = bench.bytes(2 << 30) // 4
    one, other = (torch.randint(-(2**31), 2**31 - 1, (count,), dtype=torch.int32, device=bench.device) for _ in range(2))
    out = torch.empty_like(one)
    copied = bench.timed(lambda: out.copy_(one), seconds / 2)
    right = torch.equal(out, one)
    bench.figure("copy", 2 * 4 * count / copied.median / 1e9, "GB/s", copied, bytes=4 * count, right=right)
    added = bench.timed(lambda: torch.bitwise_xor(one, other, out=out), seconds / 2)
    bench.figure("triad", 3 * 4 * count / added.median / 1e9, "GB/s", added, bytes=4 * count)
