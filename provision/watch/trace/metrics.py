"""Which metric of ncu replaced one of nvprof, on which card."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from provision.errors import UsageError
from provision.nearest import suggested
from provision.structs import Struct

_DATA: Final = Path(__file__).parent / "metrics.json"


class _Metric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    now: str
    note: str
    not_on: list[str] = []


class _Metrics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: str
    chips: dict[str, tuple[str, str]]
    metrics: dict[str, _Metric]


class Replacement(Struct):
    """A metric of nvprof and what is asked instead of it; `metric` is empty where the card has none."""

    old: str
    card: str
    compute_capability: str
    metric: str
    note: str
    command: str
    source: str


@cache
def _metrics() -> _Metrics:
    return msgspec.json.decode(_DATA.read_bytes(), type=_Metrics)


def cards() -> dict[str, str]:
    """The cards for which ncu's own list was read: name → compute capability."""
    return {card: capability for capability, (card, _) in _metrics().chips.items()}


def known() -> list[str]:
    """The metrics of nvprof that have an entry."""
    return sorted(_metrics().metrics)


def replacement(old: str, card: str) -> Replacement:
    """What replaced a metric on a card.

    Raises:
        UsageError: there is no entry for the metric.
    """
    table = _metrics()
    entry = table.metrics.get(old)
    if entry is None:
        msg = f"nothing is known about a metric {old[:60]!a}"
        listed = "`ncu --query-metrics` lists what your card has; `gpuprov explain-metric` what is known here"
        raise UsageError(msg, hint=suggested(old, table.metrics) or listed)
    capability = cards()[card]
    if capability in entry.not_on:
        note = f"{card} has no metric for it: `ncu --query-metrics` of its chip does not list {entry.now.partition('.')[0]}"
        return Replacement(old, card, capability, "", note, "", table.source)
    return Replacement(old, card, capability, entry.now, entry.note, f"ncu --metrics {entry.now} COMMAND", table.source)
