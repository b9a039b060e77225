"""The report for programs."""

from __future__ import annotations

import json

from provision.verify.finding import Report, exit_code, summary

__all__ = ["render"]


def render(*reports: Report) -> str:
    """One JSON document, keys sorted: schema `gpuprov-report/1` for one host, `gpuprov-reports/1` with a list `hosts` for several."""
    if len(reports) == 1:
        return json.dumps(reports[0].as_dict(), indent=2, sort_keys=True)
    data = {
        "schema": "gpuprov-reports/1",
        "hosts": [report.as_dict() for report in reports],
        "summary": summary(reports),
        "exit_code": exit_code(reports),
    }
    return json.dumps(data, indent=2, sort_keys=True)
