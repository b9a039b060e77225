"""What a figure is compared with: one truth with the acceptance of `verify`, each with its source, and what was taken by hand."""

from __future__ import annotations

import json

import pytest

from provision.catalog import read
from provision.verify.bench.figures import LoadState, Measured
from provision.verify.bench.heard import replayed
from provision.verify.bench.references import Reference, is_lacking, is_reported, reference_of
from tests.watch.bench.stand_in import DATA, recorded


def figure(key: str, value: float = 1.0, **more: object) -> Measured:
    recipe, _, name = key.partition(".")
    return Measured(recipe, name, 0, "TFLOPS", value, **more)  # type: ignore[arg-type]


def reference(card: str, key: str) -> Reference | None:
    return reference_of(read.gpu(card), figure(key))


def test_a_figure_that_verify_measures_has_verifys_reference() -> None:
    gates = read.gpus().acceptance
    for card, healthy in gates.healthy.items():
        memory, tensor = reference(card, "memory.copy"), reference(card, f"gemm.{'fp16' if card in {'v100', 't4'} else 'bf16'}.8192.burst")
        own = read.bench().cards.get(card, {})
        assert memory is None or memory.value == healthy.memory_gb_s or healthy.memory_gb_s is None
        assert tensor is not None
        # bench.yaml may have the same figure from the same people, never another one.
        assert tensor.value == pytest.approx(healthy.tensor_tflops or tensor.value, rel=0.01), (card, own)
        assert (tensor.warn, tensor.fail) == (gates.warn_share, gates.fail_share)
    assert reference("h100", "peers.all_reduce.8") == Reference(470, gates.source, 0.85, 0.70)


@pytest.mark.parametrize(
    ("card", "key", "expected"),
    [
        ("h100", "gemm.bf16.8192.settled", (678, 0.90, 0.80)),
        ("t4", "gemm.fp16.8192.settled", (24, 0.90, 0.80)),
        ("l4", "gemm.bf16.8192.settled", None),  # 72 W: nobody knows what it settles at
        ("a100-80gb", "gemm.bf16.8192.settled", (268, 0.70, 0.70)),  # not below what a burst may be
        ("h100", "peers.p2p.0-1", (335, 1.0, 1.0)),
        ("h100", "amp.speed_up.tf32", (1.47, 0.85, 0.70)),
        ("t4", "amp.speed_up.fp32", None),
        ("h100", "gemm.fp64.8192.burst", (67, None, None)),
        ("h100", "gemm.fp8.8192.settled", (1979, None, None)),
        ("t4", "gemm.fp8.8192.settled", None),
        ("t4", "gemm.int8.8192.settled", (130, None, None)),
        ("a100-80gb", "gemm.fp64.8192.settled", (19.5, None, None)),  # the tensor cores' figure
        ("v100", "gemm.fp64.8192.settled", (7.8, None, None)),
    ],
)
def test_what_is_known_of_a_card(card: str, key: str, expected: tuple[float | None, ...] | None) -> None:
    known = reference(card, key)
    assert (None if known is None else (known.value, known.warn, known.fail)) == expected


@pytest.mark.parametrize(("generation", "width", "rate", "expected"), [(5, 16, 40.0, 47.256), (3, 16, 10.0, 11.82), (1, 16, 50.0, None)])
def test_copies_of_a_card_without_a_floor_are_compared_with_the_link_unless_they_exceed_it(
    generation: int, width: int, rate: float, expected: float | None
) -> None:
    link = reference_of(None, figure("copies.pinned.to_host", rate, load=LoadState(link_generation=generation, link_width=width)))
    assert (link and link.value) == pytest.approx(expected)


def test_effects_tables_and_rates_of_the_host_are_reported_and_not_judged() -> None:
    h100, l4 = read.gpu("h100"), read.gpu("l4")
    for key in (
        "alignment.fp16.512.8",
        "intensity.linear.1",
        "minibatch.lstm.gpu",
        "gemm.bf16.4096.settled",
        "gemm.fp8.4096.settled",
        "peers.p2p.0-1.both",
    ):
        assert is_reported(h100, figure(key)), key
    assert is_reported(h100, figure("copies.pinned.to_host", alone=False))
    assert (is_reported(l4, figure("peers.p2p.0-1")), is_reported(h100, figure("peers.p2p.0-1"))) == (True, False)
    assert (is_reported(h100, figure("amp.speed_up.fp32")), is_reported(read.gpu("t4"), figure("amp.speed_up.fp32"))) == (True, False)


def test_the_peak_of_a_datasheet_cannot_be_exceeded() -> None:
    for card in ("t4", "a100-80gb", "l4", "l40s", "h100", "h200", "b200"):
        for precision in ("fp8", "int8", "fp64"):
            known = reference(card, f"gemm.{precision}.8192.burst")
            assert known is None or known.most == known.value, (card, precision)


@pytest.mark.parametrize(
    ("card", "lacks"),
    [
        ("p100", {"bf16", "tf32", "fp8", "int8"}),
        ("v100", {"bf16", "tf32", "fp8", "int8"}),  # dp4a is not a product of matrices
        ("t4", {"bf16", "tf32", "fp8"}),
        ("a100-80gb", {"fp8"}),
        ("l4", set()),
        ("h200", set()),
        ("b300", set()),
        ("rtx-pro-6000", set()),
    ],
)
def test_the_catalogue_says_which_products_a_card_lacks(card: str, lacks: set[str]) -> None:
    every = ("bf16", "fp16", "tf32", "fp32", "fp8", "int8", "fp64")
    assert {name for name in every if is_lacking(read.gpu(card), figure(f"gemm.{name}.8192.settled"))} == lacks - {"fp16"}
    assert not is_lacking(read.gpu(card), figure("amp.fp8"))


def test_every_card_that_is_named_exists_and_every_figure_has_the_form_of_one() -> None:
    assert set(read.bench().cards) <= {gpu.model for gpu in read.gpus().gpus}
    for card in read.bench().cards.values():
        for key in card:
            assert key.split(".")[0] in {"gemm", "peers", "amp"}


def test_the_table_of_2016_has_a_row_a_device_and_a_column_a_framework() -> None:
    table = read.bench().published
    assert list(table.networks) == ["fcn-s", "alexnet-s", "resnet-50", "fcn-r", "alexnet-r", "resnet-56", "lstm"]
    assert {(len(rows), len(row)) for rows in table.networks.values() for row in rows} == {(len(table.devices), len(table.frameworks))}
    assert table.networks["resnet-50"][0][4] == 4.736


# Name of ours, what was taken by hand in the same hour on the same card, without our code.
BY_HAND = [
    ("gemm.bf16.8192.burst", ("gemm", "bf16", "first20")),
    ("gemm.bf16.8192.settled", ("gemm", "bf16", "settled")),
    ("gemm.fp16.8192.burst", ("gemm", "fp16", "first20")),
    ("gemm.fp16.8192.settled", ("gemm", "fp16", "settled")),
    ("gemm.tf32.8192.burst", ("gemm", "tf32", "first20")),
    ("gemm.tf32.8192.settled", ("gemm", "tf32", "settled")),
    ("gemm.fp32.8192.settled", ("gemm", "fp32", "settled")),
    ("memory.copy", ("copy_4gib_gb_s",)),
    ("copies.pinned.to_host", ("pinned_d2h_gb_s",)),
    ("launch.launch", ("launch_us",)),
]


@pytest.mark.parametrize(("key", "path"), BY_HAND, ids=[key for key, _ in BY_HAND])
def test_a_figure_of_an_h100_agrees_within_three_per_cent_with_the_one_taken_by_hand(key: str, path: tuple[str, ...]) -> None:
    by_hand = json.loads((DATA / "h100-byhand.json").read_text())
    for step in path:
        by_hand = by_hand[step]
    ours = next(each.value for each in replayed("h", recorded("h100-quick")).measured if each.key == key)
    assert ours == pytest.approx(by_hand, rel=0.03)
