"""`cost`: what the machines have cost so far and may cost until they end, one by one and in sums."""

from collections.abc import Sequence

from provision.structs import Struct
from provision.workflow.ls import Inventory, InventoryRow

OF_TAG = "tag:"
"""What stands before the key of a tag that machines are summed up by."""


class CostSum(Struct):
    """The cost of some machines together.

    Attributes:
        of: what they have in common, such as their owner; empty where they have none, and for the sum of all.
        so_far_usd: at most, by the catalog's prices; machines without a price are not in it.
        to_deadline_usd: from now until they end, if they run until then.
        unpriced: how many machines, or parts of them, have no known price: the sums are then less than what is billed.
    """

    of: str
    machines: int
    so_far_usd: float
    to_deadline_usd: float
    unpriced: int


class CostReport(Struct):
    """Machines, their sums by owner or another key, the sum of all, what could not be asked, and whether the sum is known all the same."""

    rows: tuple[InventoryRow, ...]
    sums: tuple[CostSum, ...]
    total: CostSum
    problems: tuple[str, ...]
    unknown: bool = False


def report(found: Inventory, *, by: str, rehearsal: bool) -> CostReport:
    """Sum up what exists.

    Args:
        found: the machines.
        by: `owner`, `profile`, `cloud`, `fleet`, or `tag:KEY`.
        rehearsal: whether those of the embedded cloud are meant; otherwise they are left out, because they cost nothing.
    """
    rows = tuple(row for row in found.rows if rehearsal or not row.rehearsal)
    keys = sorted({_key(row, by) for row in rows})
    sums = tuple(_sum(key, [row for row in rows if _key(row, by) == key]) for key in keys)
    return CostReport(rows, sums, _sum("", rows), found.problems, found.unknown)


def _key(row: InventoryRow, by: str) -> str:
    if by.startswith(OF_TAG):
        return row.tags.get(by.removeprefix(OF_TAG), "")
    return {"owner": row.owner, "profile": row.profile, "cloud": row.cloud, "fleet": row.fleet}[by]


def _sum(of: str, rows: Sequence[InventoryRow]) -> CostSum:
    so_far = round(sum(row.cost_usd or 0.0 for row in rows), 2)
    to_deadline = round(sum(row.to_deadline_usd or 0.0 for row in rows), 2)
    return CostSum(of, len(rows), so_far, to_deadline, sum(row.usd_per_hour is None or bool(row.unpriced) for row in rows))
