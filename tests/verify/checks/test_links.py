"""What the checks of links say to which facts: a case for each outcome that each can have."""

from typing import Any

from .. import good  # noqa: TID252 - the tests have no root package
from .table import H100, NOT_SUPPORTED, Case, gpu, table, two


def lost(reading: str) -> dict[str, Any]:
    """A GPU that does not answer this reading."""
    return {reading: {"unknown": "GPU is lost"}}


LINKED = {"links": 18, "links_up": 18}
JOINED = gpu(fabric_state=3, fabric_status=0)
MANAGER = {"exists": True, "enabled": True, "active": True, "command": "/usr/bin/nv-fabricmanager"}
SWITCHED = {**JOINED, "fabric": {"switches": 4, "manager": MANAGER}}
CASES: list[Case] = [
    ("pcie", gpu(**H100), {"gpu__model": "h100"}, "pass", "generation 5 of 5, 16 of 16 lanes"),
    ("nvlink", gpu(**H100), {"gpu__model": "h100"}, "not-applicable", "no NVLink"),
    ("fabric", gpu(**H100), {"gpu__model": "h100"}, "not-applicable", "no NVSwitch"),
    ("pcie", two(good.GOOD, lost("pcie_width"), {"pcie_width": 1}), {}, "fail", "GPU 1: generation 1 of 3, 1 of 8"),
    ("device-nodes", {}, {}, "pass", "open to all"),
    ("device-nodes", {"gpu__modes": None}, {}, "unknown", "no modes"),
    ("device-nodes", {"gpu__nouveau": True}, {}, "fail", "nouveau"),
    ("device-nodes", {"gpu__nodes": []}, {}, "fail", "0 nodes for the 1 GPUs"),
    ("device-nodes", {"gpu__modes": {"/dev/nvidia0": 0o666}}, {}, "fail", "missing: /dev/nvidiactl"),
    ("device-nodes", {"gpu__modes": {"/dev/nvidia0": 0o660, "/dev/nvidiactl": 0o666}}, {}, "fail", "/dev/nvidia0 0660"),
    ("device-nodes", {"gpu__modes": {"/dev/nvidia0": 0o666, "/dev/nvidiactl": 0o666}}, {}, "warn", "no /dev/nvidia-uvm"),
    ("device-nodes", {"gpu": good.NO_GPU}, {}, "unknown", "no NVIDIA GPU"),
    ("pcie", {}, {}, "pass", "generation 1 of 3, 8 of 8 lanes"),
    ("pcie", gpu(virtualization=0), {}, "pass", ""),
    ("pcie", gpu(pcie_generation_max=2), {}, "fail", "of 2"),
    ("pcie", gpu(pcie_width=4), {}, "fail", "4 of 8 lanes"),
    ("pcie", gpu(pcie_width_max=16), {}, "warn", "8 of 16 lanes"),
    ("pcie", {}, {"gpu__model": "v100"}, "fail", "8 of 8 lanes"),
    ("pcie", gpu(pcie_width=NOT_SUPPORTED), {}, "unknown", "Not Supported"),
    ("nvlink", {}, {}, "not-applicable", "no NVLink"),
    ("nvlink", gpu(**LINKED), {}, "not-applicable", "one GPU"),
    ("nvlink", two(good.GOOD, LINKED, LINKED), {}, "pass", "GPU 1: 18 of 18"),
    ("nvlink", two(good.GOOD, LINKED, {"links": 18, "links_up": 17}), {}, "fail", "GPU 1: 17 of 18"),
    ("nvlink", two(good.GOOD, {"links": 18, "links_up": 0}, {"links": 18, "links_up": 0}), {}, "fail", "0 of 18"),
    ("nvlink", two(good.GOOD, LINKED, {"links": "x", "links_up": 0}), {}, "unknown", "no count"),
    ("fabric", {}, {}, "not-applicable", "no NVSwitch"),
    ("fabric", SWITCHED, {}, "pass", "GPU 0: joined"),
    ("fabric", JOINED, {}, "pass", "0 switches"),
    ("fabric", {**SWITCHED, **gpu(fabric_state=2)}, {}, "fail", "in progress"),
    ("fabric", {**SWITCHED, **gpu(fabric_status=999)}, {}, "fail", "refused with status 999"),
    ("fabric", {**SWITCHED, "fabric__manager": {**MANAGER, "active": False}}, {}, "fail", "not active"),
    ("fabric", {**SWITCHED, "fabric__manager": {**MANAGER, "enabled": False}}, {}, "warn", "not enabled at boot"),
    ("fabric", {**SWITCHED, "fabric__manager": None}, {}, "unknown", "not seen"),
    ("fabric", {"fabric": None}, {}, "unknown", "no fact"),
]

test_table = table(CASES)
