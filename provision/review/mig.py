"""What a review says of GPUs that are split (Multi-Instance GPU)."""

from collections import Counter

from provision.profile.locked import Lock
from provision.review.modules import AddRisk


def split(add: AddRisk, lock: Lock) -> None:
    """What a split gives, and what it takes away."""
    if not lock.gpu.mig:
        return
    parts = ", ".join(f"{count} x {name}" for name, count in Counter(lock.gpu.mig).items())
    why = (
        "a slice sees neither the memory nor the faults of the others; it loses NVLink and every path between GPUs (so NCCL has no link), "
        "its own clocks, and the profiling of units that slices share; a process can use one MIG device only; the gates of speed and "
        "links are for whole cards and are not judged"
    )
    add("gpus-split", "note", f"Each GPU is split into {parts}", why, narrower="no `gpu.mig`", key="gpu.mig")
    why = "a unit of gpuprov's splits them at each boot; programs that start before it see no GPU"
    add("split-at-boot", "note", "The split is made again at each boot", why, key="gpu.mig")
