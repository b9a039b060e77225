"""Copies between the host and the GPU, by direction, from pinned and from pageable memory, of 256 MiB."""


def run(bench, seconds):
    """The process stands on the cores near the GPU: from others the same copy may take three times as long."""
    torch = bench.torch
    count = bench.bytes(256 << 20) // 4
    there = torch.randint(-(2**31), 2**31 - 1, (count,), dtype=torch.int32, device=bench.device)
    back = torch.empty_like(there)
    for kind in ("pinned", "pageable"):
        here = torch.empty(count, dtype=torch.int32, pin_memory=kind == "pinned" and bench.cuda)
        here.copy_(there)
        for direction, target, source in (("to_host", here, there), ("to_device", back, here)):
            timing = bench.timed(lambda target=target, source=source: target.copy_(source, non_blocking=True), seconds / 4)
            bench.sync()
            right = bool(torch.equal(here, there.cpu()) and (direction == "to_host" or torch.equal(back, there)))
            bench.figure("%s.%s" % (kind, direction), 4 * count / timing.median / 1e9, "GB/s", timing, bytes=4 * count, right=right)
