"""What a host says is believed within bounds, or not at all."""

from __future__ import annotations

import pytest

from provision.errors import ProbeFailedError
from provision.verify.bench.figures import Measured, parse
from tests.watch.bench.stand_in import recorded

GOOD = '{"kind": "figure", "recipe": "gemm", "name": "bf16", "gpu": 0, "unit": "TFLOPS", "value": 1.5}'


def test_what_an_h100_said_is_understood_in_every_line() -> None:
    lines = [*recorded("h100-quick"), *recorded("h100-cells")]
    figures = [message for message in (parse(line, "h") for line in lines) if isinstance(message, Measured)]
    assert len(figures) == sum(b'"kind": "figure"' in line for line in lines) > 40
    assert {figure.recipe for figure in figures} >= {"gemm", "memory", "copies", "launch", "amp", "minibatch"}


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("1.5", "NaN"),
        ("1.5", "1e999"),
        ("1.5", "Infinity"),
        ("1.5", "1e16"),
        ("1.5", '"1.5"'),
        ("1.5}", '1.5, "load": {"sm_mhz": -1}}'),
        ("1.5}", '1.5, "load": {"reasons": {"x": 1}}}'),
        ("1.5}", '1.5, "series": [[1, 2]]}'),
        ("1.5}", f'1.5, "detail": {{{", ".join(f"{chr(34)}{n}{chr(34)}: 1" for n in range(65))}}}}}'),
        ('"gpu": 0', '"gpu": 64'),
        ('"gpu": 0', '"gpu": -1'),
        ("bf16", "b" * 101),
        ('"figure"', '"order"'),
        ("{", "["),
    ],
)
def test_what_is_out_of_bounds_is_refused(was: str, now: str) -> None:
    assert isinstance(parse(GOOD.encode(), "h"), Measured)
    with pytest.raises(ProbeFailedError, match="h sent a figure that is not one"):
        parse(GOOD.replace(was, now, 1).encode(), "h")
