"""Advice against evidence: each piece names its rows, the rows say what it rests on, and what they contradict is not advised."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.catalog import read as catalog
from provision.errors import FactsInvalidError
from provision.structs import replace
from provision.watch.trace import evidence
from provision.watch.trace.classify import Label
from provision.watch.trace.document import DeviceVerdict, KernelEvidence, TraceDocument
from provision.watch.trace.model import Card, Cut, Kind, Op, Trace, TracePart
from provision.watch.trace.read import read

from .timelines import (
    H100,
    MS,
    STEP,
    STEPS,
    Line,
    communicating,
    computing,
    copying,
    events,
    export,
    kineto,
    launching,
    migrating,
    starting,
    syncing,
    working,
)

RECORDED = sorted((Path(__file__).parents[2] / "data" / "traces").glob("*.json.gz"))
REAL = sorted((Path(__file__).parents[4] / "shared" / "traces").glob("*.sqlite"))
A_CARD = Card("NVIDIA H100 80GB HBM3", 132, "9.0")
ONE_THREAD, FULL = (1, 1, 1, 1, 1, 1), (1056, 1, 1, 256, 1, 1)


def shaped(line: Line, shape: tuple[int, ...], name: str = "gemm") -> Line:
    line.ops = [op._replace(shape=shape, name=name) if op.kind is Kind.KERNEL else op for op in line.ops]
    return line


def told(trace: Trace, *, ran: bool = False) -> TraceDocument:
    return evidence.document(trace, "t", ran=ran)


def texts(document: TraceDocument) -> str:
    return "\n".join(item.text for item in document.advice)


def within() -> Line:
    """Copies within the GPU take a seventh of the time, and nothing else stands out."""
    line = computing(0.7)
    for at in range(0, STEPS * STEP, STEP):
        line.op(at + 0.7 * STEP, at + 0.85 * STEP, (max(0, at - 50 * MS), max(0, at - 50 * MS) + 1), kind=Kind.COPY, name="DtoD", bytes=9)
    return line


MADE: dict[str, Trace] = {
    "launches": launching(0.5).trace(),
    "computes": shaped(computing(0.95), FULL).trace(gpus={0: A_CARD}),
    "one thread": shaped(computing(0.95), ONE_THREAD).trace(gpus={0: A_CARD}),
    "waits": syncing(0.3).trace(),
    "works": working(0.5, waits=True).trace(),
    "pageable": copying(0.5, pageable=True).trace(),
    "pinned": copying(0.5, pageable=False).trace(),
    "copies of unknown memory": copying(0.5, pageable=None).trace(),
    "communicates": communicating(0.5).trace(),
    "starts": starting(0.5).trace(),
    "managed memory": migrating(0.5).trace(),
    "queues": computing(0.5).trace(),
    "within": within().trace(),
    "few": launching(0.5, Line(steps=50)).trace(),
    "none": Trace("nsys", 0, 0, [], []),
    "no calls": replace(launching(0.5).trace(), calls=[], missing=frozenset({TracePart.CALLS})),
}


def held(document: TraceDocument) -> None:
    """Hold each piece of advice against the rows that it names, by rules of the test's own."""
    first = document.devices[0]
    kernels = {f"kernels[{number}]": kernel for number, kernel in enumerate(first.kernels)}
    copies = {f"copies[{number}]": copy for number, copy in enumerate(first.copies)}
    known = {*kernels, *copies, *(f"gaps[{n}]" for n in range(len(first.gaps))), *(f"doubts[{n}]" for n in range(len(first.doubts)))}
    for item in document.advice:
        at = [row.partition(":")[0] for row in item.rows]
        assert at, item
        for each in at:
            table, _, share = each.partition(".")
            assert getattr(first.shares, share) >= 0.05 if table == "shares" else each in known, (item, each)
        rested = [kernels[each] for each in at if each in kernels]
        memories = {copies[each].memory for each in at if each in copies}
        if item.text.startswith("Pin "):
            assert memories <= {"pageable", "unknown"}, item
        if "cudaMemPrefetchAsync" in item.text:
            assert memories == {"unified"}, item
        if item.text.startswith("Lower the precision"):
            assert not [kernel for kernel in rested if re.search("bf16|f16|half|fp8|tensorop|nvjet|tf32", kernel.name, re.IGNORECASE)], item
            generation = int((first.compute_capability or "0").split(".", maxsplit=1)[0])
            assert ("TF32, then" in item.text) == (generation >= 8), item
            assert ("if the card" in item.text) == (generation == 0), item
            assert generation not in range(1, 7), item
        if item.text.startswith("Take a bigger GPU"):
            assert [kernel for kernel in rested if not is_small(kernel, first)], item
        if item.text.startswith("GPU "):
            assert all(is_small(kernel, first) for kernel in rested), item
    assert first.label != Label.UNDERFILLED or "Take a bigger GPU" not in texts(document)


def is_small(kernel: KernelEvidence, device: DeviceVerdict) -> bool:
    return kernel.grid is not None and kernel.block is not None and math.prod(kernel.grid) < (device.sms or 20)


@pytest.mark.parametrize("name", MADE)
def test_each_piece_of_advice_rests_on_rows_that_are_there(name: str) -> None:
    document = told(MADE[name])
    assert document.advice
    held(document)


@pytest.mark.parametrize("path", [*RECORDED, *REAL], ids=lambda path: path.name)
def test_advice_on_a_recorded_trace_rests_on_it(path: Path) -> None:
    document = told(read(path, Cut()))
    assert document.advice
    held(document)


# --- grid and block --------------------------------------------------------------------------------------------------


def by_nsys(tmp_path: Path, line: Line) -> Trace:
    return read(export(tmp_path / "t.sqlite", line), Cut(skip=0))


def by_kineto(tmp_path: Path, line: Line) -> Trace:
    return read(kineto(tmp_path / "t.json", events(line)), Cut(skip=0))


@pytest.mark.parametrize("by", [by_nsys, by_kineto])
def test_a_kernel_of_one_thread_is_no_case_for_a_bigger_gpu(tmp_path: Path, by: Callable[[Path, Line], Trace]) -> None:
    document = told(by(tmp_path, shaped(computing(0.95), ONE_THREAD)))
    assert (document.label, document.confidence) == (Label.UNDERFILLED, "high")
    first = document.devices[0]
    assert (first.kernels[0].grid, first.kernels[0].block, first.sms, first.compute_capability) == ([1, 1, 1], [1, 1, 1], 132, "9.0")
    assert document.advice[0].text.startswith("GPU nearly empty: launch more blocks and threads")
    assert document.advice[0].rows == ["kernels[0]: gemm 95.0%"]
    assert "Take a bigger GPU" not in texts(document)
    full = told(by(tmp_path, shaped(computing(0.95), FULL)))
    assert full.label == Label.COMPUTE
    assert "Take a bigger GPU: this is the only pattern" in texts(full)


@pytest.mark.parametrize(
    ("shape", "card", "label"),
    [
        ((131, 1, 1, 256, 1, 1), A_CARD, Label.UNDERFILLED),
        ((11, 12, 1, 256, 1, 1), A_CARD, Label.COMPUTE),
        ((2000, 1, 1, 1, 1, 1), A_CARD, Label.UNDERFILLED),  # a thread in each block
        ((19, 1, 1, 256, 1, 1), Card(), Label.UNDERFILLED),  # no card has fewer than 20 multiprocessors
        ((20, 1, 1, 256, 1, 1), Card(), Label.COMPUTE),
        ((), A_CARD, Label.COMPUTE),
    ],
)
def test_a_kernel_fills_the_gpu_from_as_many_blocks_as_it_has_multiprocessors(shape: tuple[int, ...], card: Card, label: Label) -> None:
    document = told(shaped(computing(0.95), shape).trace(gpus={0: card}))
    assert document.label == label
    assert ("if the kernels fill this one" in texts(document)) == (not shape)
    assert ("GPU not full" in texts(document)) == (shape[:1] in {(131,), (19,)})


def test_small_kernels_that_run_beside_each_other_fill_the_gpu() -> None:
    line = shaped(computing(0.95), (50, 1, 1, 256, 1, 1))
    beside = [op._replace(correlation=op.correlation) for op in line.ops for _ in range(3)]
    assert told(replace(line.trace(gpus={0: A_CARD}), ops=sorted(beside))).label == Label.COMPUTE


def test_communication_is_not_a_small_kernel() -> None:
    line = shaped(communicating(0.15), FULL)
    line.ops = [op._replace(name="ncclKernel", shape=ONE_THREAD) if number % 2 == 0 else op for number, op in enumerate(line.ops)]
    document = told(line.trace(gpus={0: A_CARD}))
    assert document.label == Label.COMPUTE
    assert document.devices[0].shares
    assert document.devices[0].shares.underfilled == 0


def test_a_card_that_the_file_does_not_name_is_known_by_the_blocks_on_each_multiprocessor(tmp_path: Path) -> None:
    found = events(shaped(computing(0.95), (54, 1, 1, 256, 1, 1)))
    for event in found:
        if event.get("cat") == "kernel":
            event["args"]["blocks per SM"] = 0.5
    trace = read(kineto(tmp_path / "t.json", found, None), Cut())
    assert trace.gpus == {0: Card(sms=108)}
    assert told(trace).label == Label.UNDERFILLED


# --- the card --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("card", "says"),
    [
        (Card("Tesla V100-SXM2-32GB", 80, "7.0"), "FP16 by autocast with `GradScaler`"),
        (Card("Tesla T4"), "FP16 by autocast with `GradScaler`"),
        (Card("NVIDIA A100-SXM4-40GB"), "TF32, then BF16 or FP16"),
        (A_CARD, "TF32, then BF16 or FP16"),
        (Card("Tesla P100-PCIE-16GB"), ""),
        (Card("GeForce GTX 1080", 20, "6.1"), ""),
        (Card(), "if the card (unknown here) has tensor cores"),
    ],
)
def test_no_precision_is_advised_that_the_card_does_not_have(card: Card, says: str) -> None:
    advised = texts(told(shaped(computing(0.95), FULL, "sgemm").trace(gpus={0: card})))
    assert advised.count("Lower the precision") == bool(says)
    assert says in advised
    assert ("tensor cores compute" in advised) == bool(says)
    assert "TF32" not in advised.replace("no tensor cores for TF32 or BF16", "") or "TF32, then" in says


@pytest.mark.parametrize("cores", catalog.gpus().tensor_cores, ids=lambda cores: cores.compute_capability)
def test_the_precisions_are_those_of_the_catalog(cores: object) -> None:
    capability, takes = getattr(cores, "compute_capability"), getattr(cores, "takes")  # noqa: B009 - a record of the catalog
    advised = texts(told(shaped(computing(0.95), FULL, "sgemm").trace(gpus={0: Card("card", 20, capability)})))
    assert ("TF32, then BF16 or FP16" in advised) == ({"tf32", "bf16"} <= takes.keys())
    assert ("FP16 by autocast with" in advised) == ("fp16" in takes and "tf32" not in takes)


def test_a_card_of_amd_has_no_compute_capability_of_cuda(tmp_path: Path) -> None:
    card = {**H100, "name": "AMD Instinct MI300X", "warpSize": 64, "computeMinor": 4, "numSms": 304}
    trace = read(kineto(tmp_path / "t.json", events(shaped(computing(0.95), FULL, "sgemm")), card), Cut())
    assert trace.gpus == {0: Card("AMD Instinct MI300X", 304)}
    assert "if the card (unknown here)" in texts(told(trace))


@pytest.mark.parametrize(
    "name",
    [
        "cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128",
        "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::Half>>",
        "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN",
        "volta_fp16_s884gemm_fp16_128x128",
        "sm80_xmma_gemm_f16f16_f16f32",
        "flash_fwd_kernel",
        "bmm_MxE4m3_MxE2m1",
        "Cijk_Alik_Bljk_BBS_BH_Bias",
    ],
)
def test_the_precision_of_kernels_that_run_in_a_lower_one_is_left_alone(name: str) -> None:
    advised = texts(told(shaped(computing(0.95), FULL, name).trace(gpus={0: A_CARD})))
    assert "Lower the precision" not in advised
    assert "Take a bigger GPU" in advised


@pytest.mark.parametrize(("pageable", "says"), [(True, "beside kernels"), (None, "unless it is"), (False, "")])
def test_memory_that_is_pinned_already_is_not_to_be_pinned(*, pageable: bool | None, says: str) -> None:
    document = told(copying(0.5, pageable=pageable).trace())
    assert document.label == Label.TRANSFER
    assert texts(document).count("Pin the host's memory") == bool(says)
    assert says in texts(document)


def test_a_few_pageable_bytes_beside_pinned_copies_are_no_reason() -> None:
    line = copying(0.5, pageable=False)
    line.op(100, 200, (0, 1), kind=Kind.COPY, name="HtoD", bytes=8, pageable=True)
    assert "Pin the host's memory" not in texts(told(line.trace()))


# --- unified memory --------------------------------------------------------------------------------------------------


def test_managed_memory_is_named_and_prefetched(tmp_path: Path) -> None:
    trace = by_nsys(tmp_path, migrating(0.5))
    document = told(trace)
    (copies,) = document.devices[0].copies
    assert (copies.kind, copies.memory, copies.count) == ("DtoH", "unified", 10 * STEPS)
    assert document.label == Label.TRANSFER
    assert document.doubts == []
    assert document.devices[0].shares
    assert document.devices[0].shares.migration == pytest.approx(0.5, abs=0.02)
    assert "cudaMemPrefetchAsync" in document.advice[0].text
    assert not re.search("Pin |Record|again", texts(document))


def test_what_the_label_says_comes_first(tmp_path: Path) -> None:
    for line, word in ((shaped(migrating(0.7), ONE_THREAD), "Managed memory"), (shaped(migrating(0.05), ONE_THREAD), "GPU nearly empty")):
        first, second, *_ = told(by_nsys(tmp_path, line)).advice
        assert first.text.startswith(word)
        assert {first.text[:7], second.text[:7]} == {"Managed", "GPU nea"}


def test_a_kernel_that_began_long_before_the_window_has_its_call(tmp_path: Path) -> None:
    line = Line(steps=5000)
    line.op(0, 9_000 * MS, (0, 5_000), shape=ONE_THREAD)
    line.ops += [Op(9_000 * MS + at * MS, 9_000 * MS + at * MS + 1000, Kind.COPY, 0, 7, 0, "DtoH", 4096, unified=True) for at in range(300)]
    document = told(read(export(tmp_path / "t.sqlite", line), Cut()))
    assert (document.label, document.doubts) == (Label.UNDERFILLED, [])


# --- what a user can do ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["few", "starts"])
def test_options_that_trace_again_are_named_where_gpuprov_ran_the_program(name: str) -> None:
    assert not re.search("--d|nsys instead", texts(told(MADE[name])))
    assert re.search("--delay", texts(told(MADE[name], ran=True)))


def test_copies_within_the_gpu_are_seen_where_nothing_stands_out() -> None:
    document = told(MADE["within"])
    assert document.label == Label.MIXED
    assert [item.rows for item in document.advice if ".clone()" in item.text] == [["copies[0]: DtoD device 60.00 ms"]]


@pytest.mark.parametrize(
    ("category", "word"),
    [("mtia_ccp_events", "another accelerator (mtia)"), ("cpu_op", "ProfilerActivity.CUDA"), ("cuda_runtime", "another profiler")],
)
def test_why_there_is_no_work_is_said(tmp_path: Path, category: str, word: str) -> None:
    found = [{"ph": "X", "cat": cat, "name": "x", "pid": 1, "tid": 1, "ts": n, "dur": 1} for n, cat in enumerate(["cpu_op", category])]
    document = told(read(kineto(tmp_path / "t.json", found, None), Cut()))
    assert word in document.doubts[0].text
    assert "nsys instead" not in texts(document)


def test_an_export_without_a_table_of_cuda_says_so(tmp_path: Path) -> None:
    tables = [f"CUPTI_ACTIVITY_KIND_{name}" for name in ("KERNEL", "GRAPH_TRACE", "MEMCPY", "MEMSET", "RUNTIME")]
    document = told(read(export(tmp_path / "t.sqlite", launching(0.5), without=tuple(tables)), Cut()))
    assert "no table of CUDA" in document.doubts[0].text
    assert "-t cuda" in texts(document)


@pytest.mark.parametrize("event", [{"cat": "v8"}, {"cat": "node,node.bootstrap"}, {}])
def test_events_of_another_program_are_refused(tmp_path: Path, event: dict[str, str]) -> None:
    found = [{"ph": "X", "name": "V8.GCScavenger", "pid": 1, "tid": 1, "ts": n, "dur": 1, **event} for n in range(9)]
    with pytest.raises(FactsInvalidError, match="none of its events is PyTorch's"):
        read(kineto(tmp_path / "t.json", found), Cut())
