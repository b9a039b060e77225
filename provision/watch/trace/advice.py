"""What a label means, and what to do about it, the least effort first (docs/sources/trace.md, "Advice").

Each piece of advice names the rows of the evidence that it rests on, and is not given where there are none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from provision.watch.trace.classify import UNDERFILLED, Label
from provision.watch.trace.document import CopyEvidence, DeviceVerdict, KernelEvidence, TraceAdvice
from provision.watch.trace.doubts import DoubtKind
from provision.watch.trace.shares import FEWEST_SMS, blocks

_LESS, _SOME, _MORE = "little", "some", "much"
# Less than this is no reason for advice: of the window, and of all copies between host and device.
_NOTICED: Final = 0.05
_SMALL_COPY: Final = 256 << 10
_CALLED: Final = ("pageable", "pinned", "unknown")
# Generations of cards by compute capability: tensor cores came with Volta for FP16, and with Ampere for TF32 and BF16.
_UNNAMED, _VOLTA, _AMPERE = 0, 7, 8
# What the name of a kernel shows: a precision below FP32 or tensor cores, a product of matrices, a single operation of PyTorch.
_REDUCED: Final = re.compile(
    r"(?i)b?fp?16|fp8|bfloat|half|e4m3|e5m2|e2m1|s8s8|i8i8|[hs](884|1688|16816)|tensorop|tf32|[hqwg]mma|nvjet|flash_|fmha|cijk_.*_[bh]_?[bh]s_"
)
_SENDS: Final = re.compile(r"(?i)nccl")
_MATRICES: Final = re.compile(r"(?i)gemm|gemv|conv(?!ert)|[dw]grad|fprop|cutlass|nvjet|cijk_")
_OPERATIONS: Final = re.compile(r"(?i)at::native|elementwise")

MEANING: Final = {
    Label.TRANSFER: "The GPU waits for copies between the host and itself.",
    Label.COMPUTE: "The GPU computes nearly all the time: the kernels themselves decide how long it takes.",
    Label.UNDERFILLED: "Kernels run nearly all the time in a part of the GPU: they have too few blocks for its multiprocessors.",
    Label.COMMUNICATION: "The GPU waits for other GPUs: communication that no computation hides.",
    Label.SYNC: "The host waits for the GPU, then the GPU for the host, again and again.",
    Label.CPU: "The GPU waits while the host computes or waits for data.",
    Label.LAUNCH: "The host cannot submit work as fast as the GPU does it.",
    Label.START_UP: "Most of this is start-up: contexts, memory, modules, graphs, compiled code.",
    Label.WAITING: "Work was submitted in time and waited on the device: for another stream, an event or another process.",
    Label.IDLE: "The GPU has hardly anything to do.",
    Label.MIXED: "Nothing stands out.",
    Label.UNKNOWN: "This trace does not say why the program is slow.",
}


def _crosses(copy: CopyEvidence, each: DeviceVerdict, *memories: str) -> bool:
    """Whether it is of these memories and takes a noticed part of what crosses the link."""
    return copy.memory in memories and copy.ms >= _NOTICED * sum(other.ms for other in each.copies if other.memory != "device")


def _share(each: DeviceVerdict, name: str) -> float:
    return getattr(each.shares, name, 0.0)


def _generation(each: DeviceVerdict) -> int:
    return int((each.compute_capability or "0").partition(".")[0])


def _precise(kernel: KernelEvidence, each: DeviceVerdict) -> bool:
    """Whether it runs in full precision, as most of the time of the costliest kernels does."""
    return not _REDUCED.search(kernel.name) and sum(-k.share if _REDUCED.search(k.name) else k.share for k in each.kernels) > 0


def _fills(kernel: KernelEvidence, each: DeviceVerdict) -> bool:
    return blocks((*(kernel.grid or ()), *(kernel.block or ()))) >= (each.sms or FEWEST_SMS)


def _emptied(each: DeviceVerdict) -> bool:
    return _share(each, "underfilled") >= max(_NOTICED, (_share(each, "busy") - _share(each, "communication")) * UNDERFILLED)


# Which rows a piece of advice rests on, by the word that names them: the table where they stand, and whether a row counts.
_COUNTS: Final[dict[str, tuple[str, Callable[[Any, DeviceVerdict], object]]]] = {
    "gaps": ("gaps", lambda *_: True),
    "one gap": ("gaps", lambda gap, each: gap is each.gaps[0] and any(doubt.kind == DoubtKind.ONE_GAP for doubt in each.doubts)),
    "pageable": ("copies", lambda copy, each: _crosses(copy, each, "pageable")),
    "unknown": ("copies", lambda copy, each: _crosses(copy, each, "unknown")),
    "unified": ("copies", lambda copy, each: _crosses(copy, each, "unified")),
    "sent": ("copies", lambda copy, each: copy.kind == "HtoD" and _crosses(copy, each, *_CALLED)),
    "fetched": ("copies", lambda copy, each: copy.kind == "DtoH" and _crosses(copy, each, *_CALLED)),
    "small": ("copies", lambda copy, each: copy.bytes < copy.count * _SMALL_COPY and _crosses(copy, each, *_CALLED)),
    "within": ("copies", lambda copy, each: copy.memory == "device" and _share(each, "other") >= _NOTICED),
    "kernels": ("kernels", lambda *_: True),
    "empty": ("kernels", lambda kernel, each: not _fills(kernel, each) and not _SENDS.search(kernel.name) and _emptied(each)),
    "full": ("kernels", lambda kernel, each: kernel.grid and _fills(kernel, each)),
    "no grids": ("kernels", lambda _, each: all(kernel.grid is None for kernel in each.kernels)),
    "ampere": ("kernels", lambda kernel, each: _generation(each) >= _AMPERE and _precise(kernel, each)),
    "volta": ("kernels", lambda kernel, each: _generation(each) == _VOLTA and _precise(kernel, each)),
    "unnamed": ("kernels", lambda kernel, each: _generation(each) == _UNNAMED and _precise(kernel, each)),
    "matrices": ("kernels", lambda kernel, each: _generation(each) not in range(1, _VOLTA) and _MATRICES.search(kernel.name)),
    "operations": ("kernels", lambda kernel, _: _OPERATIONS.search(kernel.name)),
}
_TEXTS: Final[dict[str, Callable[[Any], str]]] = {
    "doubts": lambda doubt: doubt.kind,
    "gaps": lambda gap: ", ".join(filter(None, (f"{gap.ms:.3f} ms at {gap.at_ms:.3f} ms", gap.range, gap.during))),
    "copies": lambda copy: f"{copy.kind} {copy.memory} {copy.ms:.2f} ms",
    "kernels": lambda kernel: f"{kernel.name[:40]} {kernel.share:.1%}",
}
# Whatever the label is, the first before its own and the others behind them.
_EMPTY: Final = (
    _LESS,
    "GPU {empty}: launch more blocks and threads, several blocks a multiprocessor. A bigger GPU does not help.",
    "empty",
)
_ALWAYS: Final = (
    (_LESS, "Look at what fills the largest gap; a --range without it tells about the rest.", "one gap"),
    (_LESS, "Managed memory moves when it is touched: `cudaMemPrefetchAsync` moves it ahead, `cudaMemAdvise` places it.", "unified"),
    _EMPTY,
    (_SOME, "Copy less within the GPU: `.contiguous()`, `.clone()`, `torch.cat`, changes of layout.", "within"),
)
_ADVICE: Final = {
    Label.TRANSFER: (
        (_LESS, "Pin the host's memory (`pin_memory=True`) and copy with `non_blocking=True`, beside kernels.", "pageable"),
        (_LESS, "Pin the host's memory (`pin_memory=True`), unless it is: this trace does not say.", "unknown"),
        (_LESS, "Copy once what does not change, keep it on the GPU, and copy bytes instead of floats.", "sent"),
        (_SOME, "Gather small copies into one.", "small"),
        (_SOME, "Do on the GPU what is copied back only to be computed on the host.", "fetched"),
        (_MORE, "Load the next batch in a stream of its own while this one is computed.", "sent"),
    ),
    Label.COMPUTE: (
        (_LESS, "Lower the precision: TF32, then BF16 or FP16 by autocast, 2 to 4 times faster on tensor cores.", "ampere"),
        (_LESS, "Lower the precision: FP16 by autocast with `GradScaler`; this card has no tensor cores for TF32 or BF16.", "volta"),
        (_LESS, "Lower the precision, if the card (unknown here) has tensor cores: FP16 from V100 and T4, BF16 from A100 on.", "unnamed"),
        (_LESS, "Make sizes multiples of 8 (FP16) or 16 (INT8), better of 64, where tensor cores compute.", "matrices"),
        (_SOME, "Fuse operations with a compiler: `torch.compile`, or TensorRT for inference.", "operations"),
        (_MORE, "Prune the model, or choose a cheaper one; look at the costliest kernel with --ncu.", "kernels"),
        (_MORE, "Take a bigger GPU: this is the only pattern in which it helps.", "full"),
        (_MORE, "Take a bigger GPU, if the kernels fill this one: the trace does not have their grids.", "no grids"),
    ),
    Label.UNDERFILLED: (_EMPTY, (_MORE, "Look at the costliest kernel with --ncu.", "empty")),
    Label.COMMUNICATION: (
        (_LESS, "Raise the batch for each GPU, so that there is more to compute for each exchange.", "communication"),
        (_LESS, "Send less: gradients in BF16, and fewer exchanges by accumulating gradients.", "communication"),
        (_SOME, "Let the exchange run beside the backward pass: other sizes of buckets in DistributedDataParallel.", "communication"),
        (_MORE, "See what links the GPUs (`nvidia-smi topo -m`): a place with NVLink exchanges several times faster.", "communication"),
    ),
    Label.SYNC: (
        (_LESS, "Raise the batch: as many waits then serve more items. It helps in proportion and no more.", "sync"),
        (_LESS, "Take `.item()`, `.cpu()`, `print` of a tensor and `if tensor` out of the loop; read results once at its end.", "sync"),
        (_SOME, "Vectorise the loop on the GPU: masks and reductions instead of an item at a time.", "sync"),
        (_SOME, "Split the work: first all that is batched on the GPU, then one copy, then the loop on the host.", "sync"),
    ),
    Label.CPU: (
        (_LESS, "Look for a part of the model or of the data that is on the CPU by mistake, and move it.", "cpu"),
        (_LESS, "Load data with workers: `DataLoader(num_workers=…, pin_memory=True, persistent_workers=True)`.", "cpu host_wait"),
        (_SOME, "Vectorise pre- and post-processing, and move it to the GPU.", "cpu"),
        (_MORE, "Prepare the next batch in other processes while this one is computed, or once, and save it.", "cpu host_wait"),
    ),
    Label.LAUNCH: (
        (_LESS, "Raise the batch, or add a batch dimension: as many launches then do more.", "launch"),
        (_SOME, "Fuse small kernels and record them once: `torch.compile(mode='reduce-overhead')` or CUDA graphs.", "launch"),
        (_SOME, "Vectorise loops over items or layers; use fused forms, such as `fused=True` of optimisers.", "launch"),
    ),
    Label.START_UP: ((_LESS, "Trace later{delay}, or look at a --range of the program that leaves its beginning out.", "start_up"),),
    Label.WAITING: (
        (_LESS, "See which stream or process the GPU waits for: the gaps name the call before each of them.", "gaps"),
        (_SOME, "Remove waits between streams that the data does not need; balance the work between ranks.", "queue"),
    ),
    Label.IDLE: ((_LESS, "Trace the part of the program that uses the GPU{longer}, or look at it with --range.", "idle"),),
    Label.MIXED: (
        (_LESS, "Raise the batch, which helps with most patterns, and trace again.", "launch sync cpu"),
        (_SOME, "Look at the three largest gaps.", "gaps"),
    ),
    Label.UNKNOWN: (
        (_LESS, "If a GPU worked, record it: `nsys profile -t cuda`, or `ProfilerActivity.CUDA` of PyTorch.", DoubtKind.NO_WORK),
        (_LESS, "Record more steps{longer}.", DoubtKind.TOO_FEW),
        (_LESS, "Record the host's calls as well: `nsys profile -t cuda`, or `ProfilerActivity.CPU` of PyTorch.", DoubtKind.PART_MISSING),
        (_LESS, "Begin to record before the program submits this work{delay}.", DoubtKind.UNEXPLAINED),
    ),
}


def advice(each: DeviceVerdict, *, ran: bool) -> list[TraceAdvice]:
    """What to do about a GPU, the least effort first; gpuprov's options are named where it `ran` the program."""
    most = max((blocks((*k.grid, *(k.block or ()))) for k in each.kernels if k.grid and not _fills(k, each)), default=0.0)
    known = {
        "delay": " (--delay)" if ran else "",
        "longer": " (--delay, --duration)" if ran else "",
        "empty": "nearly empty" if most < (each.sms or FEWEST_SMS) / 2 else "not full",
    }
    always = _ALWAYS if each.label != Label.UNKNOWN else ()
    found = dict.fromkeys((*always[:1], *_ADVICE[Label(each.label)], *always[1:]))
    items = sorted(found, key=lambda item: (_LESS, _SOME, _MORE).index(item[0]))
    return [TraceAdvice(effort, text.format(**known), rows) for effort, text, words in items if (rows := _rows(words, each))]


def _rows(words: str, each: DeviceVerdict) -> list[str]:
    if words in _COUNTS or isinstance(words, DoubtKind):
        table, counts = _COUNTS.get(words, ("doubts", lambda doubt, _: doubt.kind == words))
        found = enumerate(getattr(each, table))
        return [f"{table}[{number}]: {_TEXTS[table](row)}" for number, row in found if counts(row, each)]
    shares = {word: _share(each, word) for word in words.split()}
    return [f"shares.{word}: {share:.1%}" for word, share in shares.items() if share >= _NOTICED]
