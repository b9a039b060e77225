"""Sums over machines: which count, by what, and what is said of those without a price."""

from __future__ import annotations

import pytest

from provision.structs import replace
from provision.workflow.cost import CostSum, report
from provision.workflow.ls import Inventory, InventoryRow

ROW = InventoryRow("a", "running", "aws", "r", "rz", "g4dn.xlarge", "on-demand", "192.0.2.1", 2.0, 1.1, "", "ada", "t4", "i-1")
PRICED = replace(ROW, tags={"Team": "Vision"}, usd_per_hour=0.55, to_deadline_usd=5.5)
ROWS = (
    PRICED,
    replace(PRICED, name="b", cloud="gcp", owner="bob", cost_usd=2.2, unpriced=("public IPv4 address",)),
    replace(ROW, name="c", owner="bob", market="spot", cost_usd=None),
    replace(PRICED, name="d", rehearsal=True, cost_usd=100.0),
)


@pytest.mark.parametrize(
    ("by", "sums"),
    [
        ("owner", [CostSum("ada", 1, 1.1, 5.5, 0), CostSum("bob", 2, 2.2, 5.5, 2)]),
        ("cloud", [CostSum("aws", 2, 1.1, 5.5, 1), CostSum("gcp", 1, 2.2, 5.5, 1)]),
        ("profile", [CostSum("t4", 3, 3.3, 11.0, 2)]),
        ("tag:Team", [CostSum("", 1, 0.0, 0.0, 1), CostSum("Vision", 2, 3.3, 11.0, 1)]),
    ],
)
def test_machines_are_summed_up_and_those_without_a_whole_price_are_counted(by: str, sums: list[CostSum]) -> None:
    found = report(Inventory(ROWS, ("gcp: no credentials",)), by=by, rehearsal=False)
    assert list(found.sums) == sums
    assert found.total == CostSum("", 3, 3.3, 11.0, 2)
    assert found.problems == ("gcp: no credentials",)


def test_the_embedded_cloud_counts_only_where_it_is_meant() -> None:
    assert [row.name for row in report(Inventory(ROWS, ()), by="owner", rehearsal=False).rows] == ["a", "b", "c"]
    assert report(Inventory(ROWS, ()), by="owner", rehearsal=True).total.so_far_usd == 103.3
