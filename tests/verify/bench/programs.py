"""What dcgmi and all_reduce_perf print, in the forms of their sources; the values are ours."""

from __future__ import annotations

import json
from typing import Any

from provision.verify.bench.figures import ToolMessage
from tests.watch.bench.stand_in import DATA

PERSISTENCE = {
    "error_category": 8,
    "error_id": 29,
    "error_severity": 5,
    "warning": "Persistence Mode: it is disabled for GPU 1.",
}


def result(gpu: int, status: str = "Pass", **more: Any) -> dict[str, Any]:
    return {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": status, **more}


def dcgm4(*results: dict[str, Any], summary: str = "Pass", **more: Any) -> dict[str, Any]:
    """A run of level 1 with DCGM 4."""
    test = {"name": "software", "results": list(results), "test_summary": {"status": summary}}
    return {
        "DCGM Diagnostic": {"test_categories": [{"category": "Deployment", "tests": [test]}]},
        "entity_groups": [{"entities": [{"device_id": "2330", "entity_id": 0}], "entity_group": "GPU", "entity_group_id": 1}],
        "metadata": {"Driver Version Detected": "580.82.09", "version": "4.2.3"},
        **more,
    }


def dcgm3(**statuses: str) -> dict[str, Any]:
    """A run of level 1 with DCGM 3, on the first of the GPUs."""
    tests = [{"name": name.replace("_", " "), "results": [{"gpu_id": "0", "status": status}]} for name, status in statuses.items()]
    return {"DCGM GPU Diagnostic": {"test_categories": [{"category": "Deployment", "tests": tests}], "version": "3.3.8"}}


def dcgmi(document: object, **more: Any) -> ToolMessage:
    text = document if isinstance(document, str) else json.dumps(document, indent=8)
    return ToolMessage(**{"tool": "dcgm", "gpus": 2, "path": "/usr/bin/dcgmi", "code": 0, "output": text, "seconds": 3.0, **more})


NCCL = (DATA / "all_reduce_perf.txt").read_text()
"""On two GPUs the bus carries what the algorithm does."""


def nccl(text: str = NCCL, **more: Any) -> ToolMessage:
    path = "/opt/nccl-tests/build/all_reduce_perf"
    return ToolMessage(**{"tool": "nccl", "gpus": 2, "path": path, "code": 0, "output": text, "seconds": 4.0, **more})
