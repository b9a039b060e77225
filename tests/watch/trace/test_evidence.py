"""The evidence beside a verdict: gaps with their call, thread and range, kernels, copies against the link, the step."""

from __future__ import annotations

import jsonschema
import msgspec
import pytest

from provision.watch.trace import compare, evidence
from provision.watch.trace.document import json_schema
from provision.watch.trace.model import Card, Range, Trace

from .timelines import MS, STEP, STEPS, Line, copying, launching, working


def with_steps(line: Line, name: str = "step", every: int = STEP) -> Trace:
    ranges = [Range(at, at + every - 1000, line.thread, name) for at in range(0, STEPS * STEP, every)]
    return line.trace(ranges=ranges, gpus={0: Card("NVIDIA H100 80GB HBM3")})


def test_the_three_largest_gaps_name_their_call_thread_and_range() -> None:
    line = launching(0.4)
    for number, length in ((50, 900_000), (90, 1_000_000), (130, 1_100_000), (170, 850_000)):
        at = number * STEP
        line.ops[number] = line.ops[number]._replace(start=at + length)
        line.calls[number] = line.calls[number]._replace(end=at + length)
    line.call(130 * STEP + 2, 130 * STEP + 700_000, "cudaFuncGetName")
    found = evidence.document(with_steps(line), "t").devices[0].gaps
    assert [round(gap.ms, 3) for gap in found] == [1.1, 1.0, 0.9]
    first = found[0]
    assert (first.at_ms, first.cause, first.call, first.thread, first.range, first.then) == (
        130 * STEP / MS,
        "launch",
        "cudaLaunchKernel",
        line.thread & 0xFFFFFF,
        "step",
        "gemm",
    )


def test_what_a_thread_waited_in_is_told() -> None:
    found = evidence.document(working(0.5, waits=True).trace(), "t").devices[0].gaps
    assert {gap.during for gap in found} == {"pthread_cond_timedwait"}
    assert {gap.cause for gap in found} == {"host_wait"}


def test_a_gap_names_the_range_that_fills_it() -> None:
    line = working(0.5)
    at = round(evidence.document(line.trace(), "t").devices[0].gaps[0].at_ms * MS)
    spans = ((0, STEPS * STEP, "epoch"), (at + 1000, at + 5 * STEP, "load"), (at, at + 9, "x"))
    ranges = sorted(Range(start, end, line.thread, name) for start, end, name in spans)
    assert evidence.document(line.trace(ranges=ranges), "t").devices[0].gaps[0].range == "load"


def test_kernels_are_ranked_by_their_time_and_not_their_number() -> None:
    line = launching(0.4)
    line.ops = [op._replace(name="seldom" if number % 4 else "often") for number, op in enumerate(line.ops)]
    kernels = evidence.document(line.trace(), "t").devices[0].kernels
    assert [(each.name, each.count) for each in kernels] == [("seldom", 150), ("often", 50)]
    assert kernels[0].share == pytest.approx(0.45)
    assert kernels[0].mean_us == pytest.approx(1200)


@pytest.mark.parametrize(("pageable", "memory"), [(True, "pageable"), (False, "pinned"), (None, "unknown")])
def test_copies_are_told_by_kind_and_memory_against_the_link(*, pageable: bool | None, memory: str) -> None:
    (copies,) = evidence.document(with_steps(copying(0.5, pageable=pageable)), "t").devices[0].copies
    assert (copies.kind, copies.memory, copies.count) == ("HtoD", memory, STEPS)
    assert copies.gb_s == pytest.approx(25, rel=0.01)
    assert copies.link_gb_s == 63.0
    unknown = evidence.document(copying(0.5).trace(gpus={0: Card("Radeon")}), "t").devices[0].copies[0]
    assert unknown.link_gb_s is None


def test_a_range_that_repeats_is_the_step_and_an_operator_is_not() -> None:
    step = evidence.document(with_steps(launching(0.4)), "t").step
    assert step
    assert (step.name, step.count, step.ms) == ("step", STEPS, 2.0)
    operator = [Range(at, at + 100_000, launching(0.4).thread, "aten::copy_") for at in range(0, STEPS * STEP, STEP)]
    whole = launching(0.4).trace(ranges=operator)
    assert evidence.document(whole, "t").step is None
    named = evidence.document(whole, "t", "aten::copy_").step
    assert named
    assert named.ms == 2.0


def test_numbers_in_the_names_of_steps_do_not_hide_that_they_repeat() -> None:
    line = launching(0.4)
    ranges = [Range(at, at + STEP - 1000, line.thread, f"ProfilerStep#{at // STEP}") for at in range(0, STEPS * STEP, STEP)]
    step = evidence.document(line.trace(ranges=ranges), "t").step
    assert step
    assert step.name == "ProfilerStep##"


def test_what_is_said_holds_its_schema() -> None:
    one, two = (evidence.document(with_steps(line), "t") for line in (launching(0.6), copying(0.5)))
    empty = evidence.document(Trace("nsys", 0, 0, [], []), "t")
    schema = json_schema()
    for each in (one, empty, compare.compare(one, two), compare.compare(one, empty)):
        jsonschema.validate(msgspec.json.decode(msgspec.json.encode(each)), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**msgspec.to_builtins(one), "window_s": "long"}, schema)


def test_a_comparison_says_what_became_faster_and_which_share_moved() -> None:
    slow, quick = with_steps(launching(0.6)), launching(0.1)
    half = [Range(each.start // 2, each.end // 2, each.thread, each.name) for each in slow.ranges]
    both = compare.compare(evidence.document(slow, "a"), evidence.document(quick.trace(ranges=half), "b"))
    assert both.speed_up == pytest.approx(2.0)
    assert both.said[:2] == ["launch-bound became gpu-compute-bound", "a step is 2.00 times as fast"]
    assert "launch -50 points" in both.said
    change = next(each for each in both.changes if each.share == "launch")
    assert (round(change.before, 2), round(change.after, 2)) == (0.6, 0.1)


def test_without_a_step_in_common_no_speed_is_claimed() -> None:
    one = evidence.document(with_steps(launching(0.6)), "a")
    for other in (launching(0.1).trace(), with_steps(launching(0.1), "epoch")):
        both = compare.compare(one, evidence.document(other, "b"))
        assert both.speed_up is None
        assert "not known" in both.said[1]
    assert compare.compare(one, one).said[1] == "a step takes the same time"
