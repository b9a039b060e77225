"""What a label means, and what to do about it, the least effort first (docs/sources/trace.md, "Advice")."""

from __future__ import annotations

from typing import Final

from provision.watch.trace.classify import Label
from provision.watch.trace.document import TraceAdvice

_LESS, _SOME, _MORE = "little", "some", "much"

MEANING: Final = {
    Label.TRANSFER: "The GPU waits for copies between the host and itself.",
    Label.COMPUTE: "The GPU computes nearly all the time: the kernels themselves decide how long it takes.",
    Label.COMMUNICATION: "The GPU waits for other GPUs: communication that no computation hides.",
    Label.SYNC: "The host waits for the GPU, then the GPU for the host, again and again.",
    Label.CPU: "The GPU waits while the host computes or waits for data.",
    Label.LAUNCH: "The host cannot submit work as fast as the GPU does it.",
    Label.START_UP: "Most of this is start-up: contexts, memory, modules.",
    Label.WAITING: "Work was submitted in time and waited on the device: for another stream, an event or another process.",
    Label.IDLE: "The GPU has hardly anything to do.",
    Label.MIXED: "Nothing stands out.",
    Label.UNKNOWN: "This trace does not say why the program is slow.",
}

_ADVICE: Final = {
    Label.TRANSFER: (
        (_LESS, "Pin the host's memory (`pin_memory=True`) and copy with `non_blocking=True`, so that copies run beside kernels."),
        (_LESS, "Copy once what does not change, and keep it on the GPU."),
        (_SOME, "Gather small copies into one, and copy the smaller type (bytes instead of floats), converting on the GPU."),
        (_SOME, "Do on the GPU what is copied back only to be computed on the host."),
        (_MORE, "Load the next batch in a stream of its own while this one is computed."),
    ),
    Label.COMPUTE: (
        (_LESS, "Lower the precision: TF32, then BF16 or FP16 by autocast, 2 to 4 times faster on tensor cores."),
        (_LESS, "Make sizes multiples of 8 (FP16) or 16 (INT8), better of 64."),
        (_SOME, "Fuse operations with a compiler: `torch.compile`, or TensorRT for inference."),
        (_MORE, "Prune the model, or choose a cheaper one; look at the costliest kernel with --ncu."),
        (_MORE, "Take a bigger GPU: this is the only pattern in which it helps."),
    ),
    Label.COMMUNICATION: (
        (_LESS, "Raise the batch for each GPU, so that there is more to compute for each exchange."),
        (_LESS, "Send less: gradients in BF16, and fewer exchanges by accumulating gradients."),
        (_SOME, "Let the exchange run beside the backward pass: larger or smaller buckets in DistributedDataParallel."),
        (_MORE, "See what the GPUs are linked by (`nvidia-smi topo -m`): a place with NVLink exchanges several times faster."),
    ),
    Label.SYNC: (
        (_LESS, "Raise the batch: as many waits then serve more items. It helps in proportion and no more."),
        (_LESS, "Take `.item()`, `.cpu()`, `print` of a tensor and `if tensor` out of the loop; read results once at its end."),
        (_SOME, "Vectorise the loop on the GPU: masks and reductions instead of an item at a time."),
        (_SOME, "Split the work: all that is batched on the GPU first, then one copy, then the loop on the host."),
        (_MORE, "Move the whole of the loop to the host, if what it does is small."),
    ),
    Label.CPU: (
        (_LESS, "Look for a part of the model or of the data that is on the CPU by mistake, and move it."),
        (_LESS, "Load data with workers: `DataLoader(num_workers=…, pin_memory=True, persistent_workers=True)`."),
        (_SOME, "Vectorise pre- and post-processing, and move it to the GPU."),
        (_MORE, "Prepare the next batch while this one is computed, in other processes, or prepare the data once and save it."),
    ),
    Label.LAUNCH: (
        (_LESS, "Raise the batch, or add a batch dimension: as many launches then do more."),
        (_SOME, "Vectorise loops over items or layers."),
        (_SOME, "Fuse small kernels and record them once: `torch.compile(mode='reduce-overhead')` or CUDA graphs."),
        (_SOME, "Use the fused forms of the framework, such as `fused=True` of optimisers."),
    ),
    Label.START_UP: ((_LESS, "Trace later: --delay, or a --range of the program that leaves its beginning out."),),
    Label.WAITING: (
        (_LESS, "See which stream or process the GPU waits for: the gaps name the call before each of them."),
        (_SOME, "Remove waits between streams that the data does not need; balance the work between ranks."),
    ),
    Label.IDLE: ((_LESS, "Trace the part of the program that uses the GPU: --delay, --duration or --range."),),
    Label.MIXED: (
        (_LESS, "Raise the batch, which helps with most patterns, and trace again."),
        (_SOME, "Look at the three largest gaps."),
    ),
    Label.UNKNOWN: (
        (_LESS, "Trace again with what is missing: a later --delay, a longer --duration, nsys instead of PyTorch's profiler."),
    ),
}


def advice(label: Label) -> list[TraceAdvice]:
    """What to do, the least effort first."""
    return [TraceAdvice(effort, text) for effort, text in _ADVICE[label]]
