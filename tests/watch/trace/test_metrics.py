"""The metrics of nvprof and what replaced them, card by card."""

from __future__ import annotations

import pytest

from provision.errors import UsageError
from provision.watch.trace import metrics


@pytest.mark.parametrize("card", ["T4", "A100", "H100"])
def test_every_metric_has_an_answer_on_every_card(card: str) -> None:
    found = [metrics.replacement(name, card) for name in metrics.known()]
    assert len(found) == 20
    assert all(each.metric.count(".") >= 1 or "has no metric" in each.note for each in found)
    assert {each.compute_capability for each in found} == {{"T4": "7.5", "A100": "8.0", "H100": "9.0"}[card]}


def test_a_card_that_lost_a_metric_is_not_given_the_others_name() -> None:
    assert metrics.replacement("half_precision_fu_utilization", "A100").metric
    lost = metrics.replacement("half_precision_fu_utilization", "H100")
    assert (lost.metric, lost.command) == ("", "")
    assert "smsp__inst_executed_pipe_fp16" in lost.note


def test_a_metric_that_is_not_known_gets_the_nearest() -> None:
    with pytest.raises(UsageError) as refused:
        metrics.replacement("tensor_precision_utilization", "T4")
    assert "tensor_precision" in refused.value.hint
    with pytest.raises(UsageError, match=r"x1b"):
        metrics.replacement("\x1b[31m", "T4")
