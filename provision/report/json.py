"""The report for programs."""

from __future__ import annotations

import json

from provision.verify.finding import Report

__all__ = ["render"]


def render(report: Report) -> str:
    """One JSON document, schema `gpuprov-report/1`, keys sorted."""
    return json.dumps(report.as_dict(), indent=2, sort_keys=True)
