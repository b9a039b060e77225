"""A sample of the product of GPU, system, component, MIG and build; `python -m tests.profile.product` takes all of it."""

from collections import Counter

from tests.profile import product

STEP = 131  # the sample has every system, component and build


def test_every_combination_is_locked_without_contradiction_or_refused_with_a_hint() -> None:
    every = product.product()
    sample = every[::STEP]
    counts = Counter(product.outcome(point) for point in sample)
    assert counts.keys() == {"locked", "refused"}
    for axis in ("system", "build", "extra", "split"):
        assert {getattr(point, axis) for point in sample} == {getattr(point, axis) for point in every}
