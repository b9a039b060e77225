"""The recipes, as far as they can be told without a GPU: what they choose, and how a figure follows from a time.

PyTorch is a stand-in that computes nothing. The recipes themselves run on a machine with a GPU (docs/sources/bench.md says on which).
"""

from __future__ import annotations

import gc
import importlib
import sys
import weakref
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from provision.watch.bench.run import ROOT

TRAVEL = (
    "alignment",
    "amp",
    "copies",
    "crew",
    "gemm",
    "intensity",
    "launch",
    "memory",
    "meter",
    "minibatch",
    "models",
    "peers",
    "soak",
    "timing",
)


@pytest.fixture(scope="module")
def host() -> Iterator[Any]:
    """The modules, by the names that they have on the host."""
    folders = [str(ROOT / "onhost"), str(ROOT / "recipes")]
    sys.path[:0] = folders
    try:
        modules: dict[str, ModuleType] = {name: importlib.import_module(name) for name in TRAVEL}
        yield SimpleNamespace(**modules)
    finally:
        for name in TRAVEL:
            sys.modules.pop(name, None)
        for folder in folders:
            sys.path.remove(folder)


class FakeBench:
    """Every call takes a millisecond; figures are kept."""

    cuda, index, cache, device = True, 0, 50 << 20, "cuda:0"

    def __init__(self, capability: tuple[int, int] = (9, 0), **known: Any) -> None:
        self.torch, self.capability, self.meter = MagicMock(), capability, MagicMock(why="no NVML here")
        self.torch.cuda.get_device_properties.return_value.total_memory = 80 << 30
        self.known: dict[str, Any] = {"world": 1, "allowed": set(range(16)), "near": {0}, "ranks": [0], **known}
        self.values: dict[str, float] = {}
        self.details: dict[str, dict[str, Any]] = {}
        self.absent: dict[str, str] = {}
        self.timing = SimpleNamespace(median=0.001, best=0.0005, since=0.0, until=1.0)
        self.meter.load.return_value = {}

    def timed(self, _work: Any, _seconds: float, _least: int = 3) -> SimpleNamespace:
        return SimpleNamespace(**vars(self.timing))

    def block(self, _work: Any, _calls: int) -> float:
        return 0.001

    def warmed(self, _work: Any, _most: float) -> float:
        return 0.0

    def graphed(self, work: Any) -> Any:
        return work

    def bytes(self, most: int) -> int:
        return most

    def size(self, most: int) -> int:
        return most

    def sync(self) -> None:
        pass

    def figure(self, name: str, value: float, unit: str, _timing: Any = None, _more: Any = None, **detail: Any) -> None:
        assert unit
        self.values[name], self.details[name] = value, detail

    def missing(self, name: str, _unit: str, why: str) -> None:
        self.absent[name] = why


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ((7, 0), ["fp16", "fp32", "fp64"]),
        ((7, 5), ["fp16", "fp32", "int8", "fp64"]),
        ((8, 0), ["bf16", "fp16", "tf32", "fp32", "int8", "fp64"]),
        ((8, 9), ["bf16", "fp16", "tf32", "fp32", "fp8", "int8", "fp64"]),
    ],
)
def test_a_card_multiplies_in_the_precisions_that_it_has(
    host: Any, monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], expected: list[str]
) -> None:
    chosen: list[str] = []
    monkeypatch.setattr(host.gemm, "measure", lambda _bench, precision, _size, _seconds: chosen.append(precision))
    bench = FakeBench(capability, precisions=list(host.gemm.ALL))
    host.gemm.run(bench, 10)
    assert chosen == expected
    assert set(bench.absent) == {f"{name}.8192.settled" for name in set(host.gemm.ALL) - set(expected)}


def test_a_product_counts_two_operations_a_number_and_its_burst_is_the_fastest_moment(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = FakeBench()
    monkeypatch.setattr(host.gemm, "error", lambda *_: 0.001)
    monkeypatch.setattr(host.gemm.time, "sleep", lambda _: None)
    host.gemm.measure(bench, "bf16", 8192, 5)
    assert bench.values["bf16.8192.settled"] == pytest.approx(2 * 8192**3 / 0.001 / 1e12)
    assert bench.values["bf16.8192.burst"] == pytest.approx(2 * bench.values["bf16.8192.settled"])
    assert bench.details["bf16.8192.settled"]["error"] == 0.001


def test_inputs_rotate_through_more_than_twice_the_cache(host: Any) -> None:
    small = host.gemm.pairs(FakeBench(), "bf16", 1024)
    assert len(small) * 2 * 2 * 1024**2 > 2 * (50 << 20)
    assert len(host.gemm.pairs(FakeBench(), "bf16", 8192)) == 2


def test_memory_counts_reads_and_writes(host: Any) -> None:
    bench = FakeBench()
    host.memory.run(bench, 1)
    assert bench.values == {"copy": pytest.approx(2 * (2 << 30) / 1e6), "triad": pytest.approx(3 * (2 << 30) / 1e6)}


def test_copies_go_both_ways_from_pinned_and_from_pageable_memory(host: Any) -> None:
    bench = FakeBench()
    host.copies.run(bench, 1)
    assert bench.values == {
        f"{kind}.{way}": pytest.approx((256 << 20) / 1e6) for kind in ("pinned", "pageable") for way in ("to_host", "to_device")
    }
    pinned = [call.kwargs["pin_memory"] for call in bench.torch.empty.call_args_list]
    assert pinned == [True, False]


def test_each_alignment_is_a_multiple_and_of_no_larger_one_beside_a_side_one_larger(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs: dict[str, list[tuple[int, int, int]]] = {}
    monkeypatch.setattr(host.alignment, "pair", lambda _bench, name, _kind, shapes, _seconds: pairs.update({name: shapes}))
    host.alignment.run(FakeBench(), 1)
    assert pairs.pop("fp16.vocabulary") == [(4096, 1024, 33712), (4096, 1024, 33708)]
    assert len(pairs) == 2 * 2 * 4  # precisions, sizes, multiples
    for name, shapes in pairs.items():
        multiple, (side, beside) = int(name.rpartition(".")[2]), (shape[0] for shape in shapes)
        assert side % multiple == 0, name
        assert multiple == 64 or side % (2 * multiple), name
        assert beside == side + 1


def test_the_effect_of_alignment_is_per_operation(host: Any) -> None:
    bench = FakeBench()
    host.alignment.pair(bench, "x", None, [(100, 100, 100), (101, 101, 101)], 1)
    assert bench.values["x"] == pytest.approx(100 * ((100 / 101) ** 3 - 1))


class Numbers(MagicMock):
    """A tensor that knows how many numbers it has."""

    nbytes = 1 << 30

    def numel(self) -> int:
        return 1000


def test_the_intensities_are_those_of_nvidias_guide(host: Any) -> None:
    bench = FakeBench()
    bench.torch.randn.side_effect = lambda *_, **__: Numbers()
    host.intensity.run(bench, 1)
    found = {name: detail["intensity"] for name, detail in bench.details.items() if detail}
    assert found["linear.512"] == pytest.approx(315, abs=1)  # "Linear layer (4096 outputs, 1024 inputs, batch size 512)"
    assert found["linear.1"] == pytest.approx(1, abs=0.01)
    assert (found["activation"], found["pooling"]) == (0.25, 2.25)
    assert found["batch_norm"] < 10
    assert found["layer_norm"] < 10
    assert [name for name in found if name.startswith("linear.")] == [f"linear.{1 << n}" for n in range(13)]
    assert bench.values["activation"] == pytest.approx(1000 / 0.001 / 1e12)


def test_mixed_precision_is_compared_with_both_and_with_fp32_alone_where_there_is_no_tf32(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host.amp, "resnet50", MagicMock())
    hopper, turing = FakeBench(), FakeBench((7, 5))
    turing.torch.cuda.get_device_properties.return_value.total_memory = 16 << 30
    hopper.device = turing.device = MagicMock()
    for bench in (hopper, turing):
        host.amp.run(bench, 1)
    assert set(hopper.values) == {"resnet50.fp32", "resnet50.tf32", "resnet50.mixed", "speed_up.fp32", "speed_up.tf32"}
    assert set(turing.values) == {"resnet50.fp32", "resnet50.mixed", "speed_up.fp32"}
    assert hopper.values["resnet50.mixed"] == pytest.approx(256 / 0.001)
    assert turing.values["resnet50.mixed"] == pytest.approx(64 / 0.001)


@pytest.mark.parametrize(("memory_gb", "batch"), [(16, 64), (24, 64), (32, 256), (80, 256)])
def test_a_step_of_mixed_precision_is_long_enough_for_its_launches_where_the_memory_allows_it(
    host: Any, memory_gb: int, batch: int
) -> None:
    bench = FakeBench()
    properties = bench.torch.cuda.get_device_properties.return_value
    properties.total_memory = memory_gb << 30
    assert host.amp.batch_of(bench) == batch


def test_threads_that_would_take_too_long_are_left_out_with_the_reason_and_none_exceed_the_cores(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def cell(_bench: Any, name: str, count: int, *_: float) -> float:
        asked.append((name, count))
        return 16.0 / count

    monkeypatch.setattr(host.minibatch, "stand_on", lambda _: None)
    monkeypatch.setattr(host.minibatch, "cell", cell)
    bench = FakeBench(threads=[1, 4, 64], networks=["lstm", "fcn-r"], cell_s=5)
    host.minibatch.run(bench, 1000)
    assert asked == [("lstm", 16), ("lstm", 4), ("fcn-r", 16), ("fcn-r", 4)]
    assert bench.absent == {f"{name}.cpu1": "4 threads took 4 s, so these may take 16 s" for name in ("lstm", "fcn-r")}


def test_a_soak_tells_its_first_and_its_last_part_and_what_errors_came(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(host.soak.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(host.soak, "product", lambda *_: (None, None))
    bench = FakeBench()
    bench.meter.why = ""
    bench.meter.errors.side_effect = [{"ecc_uncorrected": 1}, {"ecc_uncorrected": 3}]
    host.soak.run(bench, 20)
    assert bench.values["first"] == bench.values["last"] == pytest.approx(2 * 8192**3 / 0.001 / 1e12)
    assert bench.details["last"]["ecc_uncorrected"] == 2


def test_a_soak_ends_when_the_hardware_slows_itself_down(host: Any) -> None:
    bench = FakeBench()
    part = SimpleNamespace(since=0, until=1)
    for reasons, hot in (({"64": 1.0}, True), ({"64": 0.4}, False), ({"4": 1.0}, False), (None, False)):
        bench.meter.load.return_value = {"reasons": reasons}
        assert host.soak.hot(bench, part) is hot


def test_sums_grow_over_two_four_and_all_gpus_and_copies_go_in_turn(host: Any) -> None:
    def rounds(ranks: str, count: int) -> list[list[int]]:
        return host.crew.rounds({"ranks": ranks}, count)  # type: ignore[no-any-return]

    assert rounds("sums", 8) == [[0, 1], [0, 1, 2, 3], list(range(8))]
    assert rounds("sums", 3) == [[0, 1], [0, 1, 2]]
    assert rounds("sums", 1) == []
    assert (rounds("each", 2), rounds("all", 2), rounds("first", 2)) == ([[0], [1]], [[0, 1]], [[0]])


def test_copies_between_two_gpus_are_measured_there_back_and_at_once_each_way_once(host: Any) -> None:
    names: set[str] = set()
    for index in (0, 1):
        bench = FakeBench(world=2, ranks=[index])
        bench.index = index
        bench.torch.cuda.device_count.return_value = 2
        host.peers.run(bench, 1)
        assert not names & set(bench.values)
        names |= set(bench.values)
    assert names == {"p2p.0-1", "p2p.0-1.both", "p2p.1-0"}
    assert host.peers.run(FakeBench(), 1) is None


# --- networks --------------------------------------------------------------------------------------------------------


class Weights:
    """A layer that knows how many weights it has."""

    def __init__(self, count: int = 0, *parts: Weights) -> None:
        self.count = count + sum(part.total() for part in parts)

    def total(self) -> int:
        return self.count


class Module(Weights):
    def __init__(self) -> None:
        super().__init__()

    def total(self) -> int:
        return sum(part.total() for part in vars(self).values() if isinstance(part, Weights))


NN = SimpleNamespace(
    Module=Module,
    Linear=lambda one, other: Weights(one * other + other),
    Conv2d=lambda one, other, side, _stride=1, _padding=0, bias=True: Weights(one * other * side * side + other * bias),
    BatchNorm2d=lambda channels: Weights(2 * channels),
    Embedding=lambda words, side: Weights(words * side),
    LSTM=lambda one, side, layers, **_: Weights(4 * side * (one + side + 2) + (layers - 1) * 4 * side * (2 * side + 2)),
    Sequential=lambda *parts: Weights(0, *parts),
    **{
        name: lambda *_, **__: Weights()
        for name in ("Sigmoid", "ReLU", "MaxPool2d", "AvgPool2d", "Flatten", "Identity", "AdaptiveAvgPool2d")
    },
)


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("fcn-s", 117_997_696),
        ("alexnet-s", 62_378_344),
        ("resnet-50", 25_557_032),  # as torchvision's
        ("fcn-r", 14_205_962),
        ("alexnet-r", 85_098),  # "85000": hclhkbu/dlbench, network-configs
        ("resnet-56", 855_770),  # "0.85M": the same
        ("lstm", 6_182_672),
    ],
)
def test_the_networks_have_the_weights_of_those_of_2016(host: Any, name: str, weights: int) -> None:
    make, *_ = host.models.NETWORKS[name]
    assert make(SimpleNamespace(nn=NN)).total() == weights


def test_the_mini_batches_are_those_of_2016(host: Any) -> None:
    assert {name: batch for name, (_, batch, *_) in host.models.NETWORKS.items()} == {
        "fcn-s": 64,
        "alexnet-s": 16,
        "resnet-50": 16,
        "fcn-r": 1024,
        "alexnet-r": 1024,
        "resnet-56": 128,
        "lstm": 128,
    }


def test_a_graph_keeps_the_tensors_that_it_reads_and_writes(host: Any) -> None:
    """Its replay uses their memory. Freed, that belongs to somebody else: a real H100 answered with an illegal memory access."""

    class Tensor:
        """Something to see die."""

    tensor = Tensor()
    alive = weakref.ref(tensor)
    replay = host.timing.Bench.graphed(SimpleNamespace(cuda=True, torch=MagicMock(), device="cuda:0"), lambda kept=tensor: kept)
    del tensor
    gc.collect()
    assert alive() is not None
    del replay
    gc.collect()
    assert alive() is None
