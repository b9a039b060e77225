"""`gpuprov explain-metric`."""

from __future__ import annotations

import json

from tests.cli.conftest import Call


def test_ten_old_names_have_their_new_ones_on_three_cards(call: Call) -> None:
    names = "tensor_precision_fu_utilization sm_efficiency ipc gld_throughput gld_efficiency l2_utilization warp_execution_efficiency"
    names += " achieved_occupancy dram_utilization half_precision_fu_utilization"
    code, out, _ = call("explain-metric", *names.split(), "--json")
    assert code == 0
    found = {(each["old"], each["card"]): each["metric"] for each in json.loads(out)}
    assert len(found) == 30
    assert found["tensor_precision_fu_utilization", "T4"] == "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active"
    assert [key for key, metric in found.items() if not metric] == [("half_precision_fu_utilization", "H100")]


def test_one_card_and_a_wrong_name(call: Call) -> None:
    code, out, _ = call("explain-metric", "ipc", "--gpu", "t4")
    assert (code, len(out.splitlines())) == (0, 2)
    code, _, err = call("explain-metric", "ipcc")
    assert code == 2
    assert "did you mean ipc?" in err
