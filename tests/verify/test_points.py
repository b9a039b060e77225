"""What was measured lies below the roof of its card, and a part without a measurement has no point."""

import pytest

from provision.catalog import read
from provision.catalog.roofline import roofs
from provision.verify.facts import load
from provision.verify.points import measurement_of, points

from . import good


def test_of_two_lie_below_the_roof_of_their_card() -> None:
    roof = next(r for r in roofs(read.gpu("h200")) if r.precision == "bf16")
    of_two = points(load(good.RECORDED / "h200-perf.json"))
    assert len(of_two) == 4
    assert all(0.4 * roof.attainable_tflops(p.intensity) < p.tflops <= roof.attainable_tflops(p.intensity) for p in of_two)
    assert of_two[0].intensity == pytest.approx(8192 / 3)
    assert len(points(good.under_load(gpus=1, gemm={"reason": "timeout", "unknown": "it did not end within 15 s"}))) == 1


def test_a_host_has_a_card_only_if_all_its_gpus_are_that_card() -> None:
    alike, mixed = measurement_of("a", good.under_load()), measurement_of("b", good.under_load(name="Tesla T4"))
    assert alike is not None
    assert alike.card is not None
    assert (alike.host, alike.card.model, len(alike.points)) == ("a", "h200", 16)
    assert mixed is not None
    assert mixed.card is None
    assert measurement_of("c", good.facts()) is None
    assert measurement_of("d", None) is None
