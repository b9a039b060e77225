"""NVIDIA's nccl-tests, where the host has them: a sum of 1 GiB over all GPUs, whose result it checks."""

PROGRAM = "all_reduce_perf"
# Where it is built by its own instructions, and where images for deep learning have it (docs/sources/bench.md).
PLACES = ("/opt/nccl-tests/build/all_reduce_perf", "/usr/local/cuda-*/efa/test-cuda-*/all_reduce_perf")


def words(gpus):
    """What follows the program's name; None where there is nothing to ask."""
    return ["-b", "1G", "-e", "1G", "-g", str(gpus), "-n", "20", "-w", "5", "-c", "1"] if gpus > 1 else None
