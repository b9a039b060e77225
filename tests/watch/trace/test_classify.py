"""Labels on both sides of every threshold, by timelines whose shares are known; what stays the same, and what is not said."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.structs import replace
from provision.watch.trace.classify import (
    COMMUNICATION,
    COMPUTE,
    CPU,
    LAUNCH,
    QUEUE,
    START_UP,
    SYNC,
    TRANSFER,
    Confidence,
    Label,
    verdicts,
)
from provision.watch.trace.doubts import DoubtKind
from provision.watch.trace.model import Kind, Range, Trace, TracePart
from provision.watch.trace.shares import shares

from .timelines import MS, STEP, STEPS, Line, communicating, computing, copying, launching, starting, syncing, working

SMALL = settings(max_examples=6, deadline=None)
ABOVE = st.floats(0.005, 0.05)


def label(trace: Trace) -> Label:
    return verdicts(trace)[0].label


@SMALL
@given(ABOVE)
def test_launches_bind_from_their_threshold_and_not_below(delta: float) -> None:
    assert label(launching(LAUNCH + delta).trace()) is not Label.LAUNCH  # 0.80 and more is computed: that comes first
    assert label(launching(1 - COMPUTE + delta).trace()) is Label.LAUNCH
    assert label(launching(1 - COMPUTE - delta).trace()) is Label.COMPUTE


@SMALL
@given(ABOVE)
def test_kernels_bind_from_their_threshold_and_not_below(delta: float) -> None:
    assert label(computing(COMPUTE + delta).trace()) is Label.COMPUTE
    assert label(computing(COMPUTE - delta).trace()) is (Label.WAITING if 1 - COMPUTE + delta >= QUEUE else Label.MIXED)


@SMALL
@given(ABOVE)
def test_copies_bind_from_their_threshold_and_not_below(delta: float) -> None:
    assert label(copying(TRANSFER + delta).trace()) is Label.TRANSFER
    assert label(copying(TRANSFER - delta).trace()) is not Label.TRANSFER


@SMALL
@given(ABOVE)
def test_communication_binds_from_its_threshold_and_not_below(delta: float) -> None:
    assert label(communicating(COMMUNICATION + delta).trace()) is Label.COMMUNICATION
    assert label(communicating(COMMUNICATION - delta).trace()) is Label.COMPUTE


@SMALL
@given(ABOVE)
def test_waits_bind_where_no_other_cause_of_gaps_is_larger(delta: float) -> None:
    found = verdicts(syncing(1 - COMPUTE + delta).trace())[0]
    assert found.label is Label.SYNC
    assert found.shares
    assert found.shares.sync == pytest.approx(1 - COMPUTE + delta, abs=0.01)
    assert found.shares.sync >= SYNC


@SMALL
@given(ABOVE, st.booleans())
def test_work_of_the_host_binds_and_its_waits_count_as_that(delta: float, waits: bool) -> None:  # noqa: FBT001 - hypothesis gives it
    found = verdicts(working(1 - COMPUTE + delta, waits=waits).trace())[0]
    assert found.label is Label.CPU
    assert found.shares
    assert (found.shares.host_wait > CPU) is waits
    assert (found.shares.cpu > CPU) is not waits


@SMALL
@given(ABOVE)
def test_start_up_binds_from_its_threshold_and_not_below(delta: float) -> None:
    assert label(starting(START_UP + delta).trace()) is Label.START_UP
    assert label(starting(START_UP - delta).trace()) is Label.MIXED


def test_a_loop_that_reads_single_values_binds_although_its_launches_take_longer() -> None:
    line = Line()
    for at in range(0, STEPS * STEP, STEP):
        line.op(at, at + 1.1 * MS, (at - 10_000, at - 5_000))
        line.op(at + 1.1 * MS, at + 1.11 * MS, (at - 4_000, at - 3_000), kind=Kind.COPY, name="DtoH", bytes=4, pageable=True)
        line.calls[-1] = line.calls[-1]._replace(end=round(at + 1.3 * MS))
        line.call(at + 1.11 * MS + 1, at + 1.3 * MS, "cudaStreamSynchronize")
        line.op(at + STEP - 1000, at + STEP - 500, (at + 1.3 * MS, at + STEP - 2000))
    found = verdicts(line.trace())[0]
    assert found.shares
    assert found.shares.launch > found.shares.sync >= 0.05
    assert found.label is Label.SYNC


@SMALL
@given(st.randoms(use_true_random=False), st.sampled_from([launching(0.4), syncing(0.3), working(0.4), copying(0.4)]))
def test_a_shift_of_all_times_changes_nothing(rng: random.Random, line: Line) -> None:
    shift = rng.choice([-(10**15), 1, 10**9, 1_790_000_000 * 10**9])
    whole = line.trace()
    moved = replace(
        whole,
        began=whole.began + shift,
        ended=whole.ended + shift,
        ops=[op._replace(start=op.start + shift, end=op.end + shift) for op in whole.ops],
        calls=[call._replace(start=call.start + shift, end=call.end + shift) for call in whole.calls],
    )
    one, two = verdicts(whole)[0], verdicts(moved)[0]
    assert (one.label, one.runner_up) == (two.label, two.runner_up)
    assert one.shares
    assert two.shares
    assert one.shares.launch == pytest.approx(two.shares.launch)


@SMALL
@given(st.floats(0.02, 0.9), st.sampled_from([launching, computing, syncing, working, copying, communicating]))
def test_the_shares_make_the_whole(share: float, make: object) -> None:
    assert callable(make)
    for each in shares(make(share).trace()):
        assert each.busy + each.exposed_copies + each.other + each.idle == pytest.approx(1)
        causes = each.launch + each.sync + each.cpu + each.host_wait + each.start_up + each.queue + each.unexplained
        assert causes == pytest.approx(each.idle)


def test_processes_with_the_same_correlation_ids_are_not_confused() -> None:
    slow, quick = launching(0.5), computing(0.95)
    quick.pid, quick.device = 8, 1
    quick.ops = [op._replace(pid=8, device=1) for op in quick.ops]
    quick.calls = [call._replace(pid=8, thread=8 << 24 | 1) for call in quick.calls]
    whole = slow.trace()
    both = replace(whole, ops=sorted([*slow.ops, *quick.ops]), calls=sorted([*slow.calls, *quick.calls]))
    found = {verdict.shares.device: verdict.label for verdict in verdicts(both) if verdict.shares}
    assert found == {0: Label.LAUNCH, 1: Label.COMPUTE}


def test_a_whole_graph_is_work() -> None:
    line = Line(kind=Kind.GRAPH)
    for at in range(0, STEPS * STEP, STEP):
        line.op(at, at + STEP - 100_000, (max(0, at - 50 * MS), max(0, at - 50 * MS) + 5_000))
    found = verdicts(line.trace())[0]
    assert found.label is Label.COMPUTE
    assert found.shares
    assert found.shares.graphs == STEPS


def test_what_is_missing_is_not_guessed() -> None:
    gaps = verdicts(replace(launching(0.5).trace(), calls=[], missing=frozenset({TracePart.CALLS})))[0]
    assert gaps.label is Label.UNKNOWN
    assert "calls of the CUDA API" in str(gaps.doubts[0])
    # What needs no calls is said all the same, with its doubt.
    busy = verdicts(replace(computing(0.95).trace(), calls=[], missing=frozenset({TracePart.CALLS})))[0]
    assert (busy.label, busy.confidence) == (Label.COMPUTE, Confidence.LOW)


def test_gaps_before_work_whose_calls_are_elsewhere_are_not_explained() -> None:
    line = launching(0.5)
    line.calls = [call._replace(correlation=call.correlation + 10**6) for call in line.calls]
    found = verdicts(line.trace())[0]
    assert found.label is Label.UNKNOWN
    assert found.shares
    assert found.shares.unexplained == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(("steps", "word"), [(99, "too few"), (0, "no GPU work")])
def test_too_little_work_gives_no_label(steps: int, word: str) -> None:
    found = verdicts(launching(0.5, Line(steps=steps)).trace())
    assert [each.label for each in found] == [Label.UNKNOWN]
    assert word in str(found[0].doubts[0])


@pytest.mark.parametrize(("steps", "confidence"), [(180, Confidence.LOW), (6000, Confidence.MEDIUM)])
def test_a_short_time_is_a_doubt_and_the_larger_one_where_it_holds_few_operations(steps: int, confidence: Confidence) -> None:
    whole = launching(0.5, Line(steps=steps)).trace()
    times = steps * STEP // (180 * MS)
    ops = [op._replace(start=op.start // times, end=op.end // times) for op in whole.ops]
    calls = [call._replace(start=call.start // times + 1, end=call.end // times) for call in whole.calls]
    found = verdicts(replace(whole, ops=ops, calls=calls, ended=whole.ended // times))[0]
    assert (found.label, found.confidence) == (Label.LAUNCH, confidence)
    assert [doubt.kind for doubt in found.doubts] == [DoubtKind.TOO_SHORT]


def one_gap(share: float) -> Line:
    """One gap of this share of the time, whose work was submitted before it; then kernels without a gap."""
    line = Line()
    first = share * STEPS * STEP
    line.op(0, 1000, (0, 1))
    for number in range(STEPS):
        at = first + number * (STEPS * STEP - first) / STEPS
        line.op(at, at + (STEPS * STEP - first) / STEPS, (10, 20))
    return line


def test_one_gap_is_a_doubt_and_the_same_time_in_many_is_none() -> None:
    found = verdicts(one_gap(0.97).trace())[0]
    assert (found.label, found.confidence) == (Label.WAITING, Confidence.LOW)
    assert DoubtKind.ONE_GAP in {doubt.kind for doubt in found.doubts}
    assert verdicts(computing(0.5).trace())[0].confidence is Confidence.HIGH


@pytest.mark.parametrize(("other", "confidence"), [(0.10, Confidence.HIGH), (0.27, Confidence.MEDIUM), (0.35, Confidence.LOW)])
def test_another_cause_that_is_as_large_is_a_doubt(other: float, confidence: Confidence) -> None:
    line = Line()
    for at in range(0, STEPS * STEP, 10 * STEP):
        long, short = 0.3 * 10 * STEP, other * 10 * STEP
        line.op(at + long, at + 5 * STEP, (at + long - 2, at + long))  # the host worked before it
        line.op(at + 5 * STEP + short, at + 10 * STEP, (at, at + 1))  # this one waited in the queue
        for part in range(9):
            line.op(at + 10 * STEP - 1000 + part * 100, at + 10 * STEP - 950 + part * 100, (at, at + 1))
    found = verdicts(line.trace())[0]
    assert (found.label, found.confidence) == (Label.CPU, confidence)
    assert ({doubt.kind for doubt in found.doubts} == {DoubtKind.RIVAL}) is (confidence is not Confidence.HIGH)


@pytest.mark.parametrize("waits", [False, True])
def test_a_gap_in_which_a_graph_is_recorded_or_code_compiled_is_start_up(*, waits: bool) -> None:
    line = working(0.5)
    if waits:
        line.calls += [
            call._replace(start=call.start - 8 * STEP, end=call.start - 5 * STEP, name="hipDeviceSynchronize") for call in line.calls[::10]
        ]
    ranges = [
        Range(round(at), round(at + 5 * STEP), line.thread, "CUDAGraphNode.record (dynamo_timed)")
        for at in range(0, STEPS * STEP, 10 * STEP)
    ]
    assert label(line.trace()) is Label.CPU
    found = verdicts(line.trace(ranges=ranges))[0]
    assert found.label is Label.START_UP


def test_calls_of_hip_are_those_of_cuda() -> None:
    line = syncing(0.3)
    line.calls = [call._replace(name=call.name.replace("cuda", "hip")) for call in line.calls]
    assert label(line.trace()) is Label.SYNC


def test_the_thresholds_are_those_that_the_sources_name() -> None:
    assert (TRANSFER, COMPUTE, COMMUNICATION, SYNC, CPU, LAUNCH, START_UP, QUEUE) == (0.2, 0.8, 0.2, 0.1, 0.1, 0.1, 0.3, 0.2)


def test_a_gap_after_a_call_that_began_before_it_is_the_devices() -> None:
    line = Line()
    for at in range(0, STEPS * STEP, STEP):
        line.op(at + 0.5 * STEP, at + STEP, (at - 1000, at + 0.4 * STEP))
    found = verdicts(line.trace())[0]
    assert found.label is Label.WAITING
    assert found.shares
    assert found.shares.queue == pytest.approx(0.5, abs=0.01)


def test_halves_that_differ_lower_the_confidence() -> None:
    line, late = launching(0.5), computing(0.99)
    line.ops = [op for op in line.ops if op.start < STEPS * STEP / 2]
    line.ops += [op._replace(correlation=op.correlation + 1000) for op in late.ops if op.start >= STEPS * STEP / 2]
    line.calls += [call._replace(correlation=call.correlation + 1000) for call in late.calls]
    found = verdicts(line.trace())[0]
    assert found.confidence is Confidence.LOW
    assert any(doubt.kind is DoubtKind.HALVES_DIFFER for doubt in found.doubts)


def test_the_profilers_own_work_lowers_the_confidence() -> None:
    assert verdicts(launching(0.5).trace())[0].confidence is Confidence.HIGH
    assert verdicts(launching(0.5).trace(overhead_ns=30 * MS))[0].confidence is Confidence.LOW
    assert verdicts(launching(0.5).trace(overhead_ns=10 * MS))[0].confidence is Confidence.HIGH


def test_a_profiler_that_slows_the_host_puts_small_shares_in_doubt() -> None:
    assert verdicts(launching(0.9).trace(host_slowed=4))[0].confidence is Confidence.HIGH
    small = verdicts(launching(0.27).trace(host_slowed=4))[0]
    assert (small.label, small.confidence) == (Label.LAUNCH, Confidence.LOW)


def test_a_share_near_its_threshold_is_no_more_than_likely() -> None:
    assert verdicts(copying(0.22).trace())[0].confidence is Confidence.MEDIUM
    assert verdicts(copying(0.5).trace())[0].confidence is Confidence.HIGH


def test_the_runner_up_is_the_next_in_strength() -> None:
    found = verdicts(launching(0.5).trace())[0]
    assert found.runner_up is Label.COMPUTE
