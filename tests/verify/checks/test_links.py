"""What the checks of links say to which facts: a case for each outcome that each can have."""

from typing import Any

from .. import good  # noqa: TID252 - the tests have no root package
from .table import H100, NOT_SUPPORTED, Case, Text, gpu, table, texts, two


def lost(reading: str) -> dict[str, Any]:
    """A GPU that does not answer this reading."""
    return {reading: {"unknown": "GPU is lost"}}


LINKED = {"links": 18, "links_up": 18}
JOINED = gpu(fabric_state=3, fabric_status=0)
MANAGER = {"exists": True, "enabled": True, "active": True, "command": "/usr/bin/nv-fabricmanager"}
SAME = {"libnvidia-compute": "580.95.05", "nvidia-fabricmanager": "580.95.05"}
SWITCHED = {**JOINED, "fabric": {"switches": 4, "manager": MANAGER, "cuda_init": 0}, "fabric_on_disk__packages": SAME}
EIGHT = {"gpu__model": "h100", "gpu__count": 8, "places": ()}
BLACKWELL = {**EIGHT, "gpu__model": "b200"}
DISK = {"fabric_on_disk": {"packages": SAME, "module": "580.95.05", "unit": MANAGER}}
OPEN = {"/dev/nvidia0": 0o666, "/dev/nvidiactl": 0o666, "/dev/nvidia-uvm": 0o666}
FABRIC = "the fabric manager is active at the loaded driver's version, every GPU has joined the fabric, and CUDA starts"
DARK: dict[str, Any] = {"links": 18, "links_up": 0}
SLOT, SXM = {**DARK, "name": "NVIDIA A100 80GB PCIe"}, {**DARK, "name": "Tesla V100-SXM2-16GB"}
NODES = "device nodes that every user may open, one for each GPU, no nouveau, and GPUs that several programs may use"
STOPPED = {**MANAGER, "active": False}
SAID = {"lines": ["warning: Dependency failed"]}
CASES: list[Case] = [
    ("pcie", gpu(**H100), {"gpu__model": "h100"}, "pass", "generation 5 of 5, 16 of 16 lanes"),
    ("nvlink", gpu(**H100), {"gpu__model": "h100"}, "not-applicable", "no NVLink"),
    ("fabric", gpu(**H100), {"gpu__model": "h100"}, "not-applicable", "no NVSwitch"),
    ("pcie", two(good.GOOD, lost("pcie_width"), {"pcie_width": 1}), {}, "fail", "GPU 1: generation 1 of 3 now, not judged, 1 of 8"),
    ("device-nodes", {}, {}, "pass", "open to all"),
    ("device-nodes", {"gpu__modes": None}, {}, "unknown", "no modes"),
    ("device-nodes", {"gpu__nouveau": True}, {}, "fail", "nouveau"),
    ("device-nodes", {"gpu__nodes": []}, {}, "fail", "device nodes: 0; GPUs of NVML: 1"),
    ("device-nodes", {"gpu__modes": {"/dev/nvidia0": 0o666}}, {}, "fail", "missing: /dev/nvidiactl"),
    ("device-nodes", {"gpu__modes": {"/dev/nvidia0": 0o660, "/dev/nvidiactl": 0o666}}, {}, "fail", "/dev/nvidia0 0660"),
    ("device-nodes", {"gpu__modes": {"/dev/nvidia0": 0o666, "/dev/nvidiactl": 0o666}}, {}, "warn", "no /dev/nvidia-uvm"),
    ("device-nodes", gpu(compute_mode=3), {}, "warn", "=GPU 0: for one program at a time (compute mode EXCLUSIVE_PROCESS)"),
    ("device-nodes", gpu(compute_mode=1), {}, "warn", "GPU 0: for one thread"),
    ("device-nodes", gpu(compute_mode=2), {}, "fail", "=GPU 0: prohibited to all programs (compute mode)"),
    ("device-nodes", gpu(compute_mode={"unknown": "GPU is lost"}), {}, "pass", "open to all"),
    ("device-nodes", {"gpu": good.NO_GPU}, {}, "unknown", "no NVIDIA GPU"),
    ("pcie", {}, {}, "pass", "generation 1 of 3 now, not judged, 8 of 8 lanes"),
    ("pcie", gpu(virtualization=0), {}, "pass", ""),
    ("pcie", gpu(pcie_generation_max=2), {}, "fail", "of 2"),
    ("pcie", gpu(pcie_width=4), {}, "fail", "4 of 8 lanes"),
    ("pcie", gpu(pcie_generation=3), {}, "pass", "GPU 0: generation 3 of 3, 8 of 8 lanes"),
    ("pcie", gpu(pcie_width_max=16, virtualization=0), {}, "warn", "8 of 16 lanes"),
    # As four real hosts of g4dn, g5 and g6e say; an L4 of g6 has no more (aws/aws-parallelcluster-cookbook, pull request 2803).
    *[
        ("pcie", gpu(pcie_width_max=16, pcie_generation_max=4), {"gpu__model": m}, "pass", "8 of 16")
        for m in ("t4", "t4g", "a10g", "l4", "l40s")
    ],
    ("pcie", gpu(pcie_width=4, pcie_width_max=16), {"gpu__model": "l4"}, "fail", "4 of 16 lanes"),
    ("pcie", {}, {"gpu__model": "v100"}, "fail", "8 of 8 lanes"),
    ("pcie", gpu(pcie_width=NOT_SUPPORTED), {}, "unknown", "Not Supported"),
    ("nvlink", {}, {}, "not-applicable", "no NVLink"),
    ("nvlink", gpu(**LINKED), {}, "not-applicable", "one GPU"),
    ("nvlink", two(good.GOOD, LINKED, LINKED), {}, "pass", "GPU 1: 18 of 18"),
    ("nvlink", two(good.GOOD, LINKED, {"links": 18, "links_up": 17}), {}, "fail", "GPU 1: 17 of 18"),
    # Cards for slots: nothing is broken where no bridge is fitted (NVIDIA/NVSentinel, issue 1481).
    ("nvlink", two(good.GOOD, SLOT, SLOT), {}, "not-applicable", "no bridge connects these cards"),
    ("nvlink", two(good.GOOD, DARK, LINKED), {}, "fail", "0 of 18"),
    ("nvlink", two(good.GOOD, SXM, SXM), {}, "fail", "0 of 18"),
    ("nvlink", two(good.GOOD, *[{**DARK, "name": "NVIDIA H100 80GB HBM3"}] * 2), {}, "fail", "0 of 18"),
    ("nvlink", two(good.GOOD, *[{**DARK, "name": NOT_SUPPORTED}] * 2), {}, "unknown", "Not Supported"),
    ("nvlink", {**two(good.GOOD, DARK, DARK), "fabric__switches": 4}, {}, "fail", "0 of 18"),
    # Where one of them is no such card, or there is a switch, or a machine with switches is asked for, links must be up.
    ("nvlink", two(good.GOOD, SLOT, SXM), {}, "fail", "0 of 18"),
    ("nvlink", two(good.GOOD, SXM, SLOT), {}, "fail", "0 of 18"),
    ("nvlink", two(good.GOOD, SLOT, {**SLOT, "links_up": 1}), {}, "fail", "1 of 18"),
    ("nvlink", {**two(good.GOOD, SLOT, SLOT), "fabric__switches": 1}, {}, "fail", "0 of 18"),
    ("nvlink", two(good.GOOD, SLOT, SLOT), EIGHT, "fail", "0 of 18"),
    ("nvlink", two(good.GOOD, LINKED, {"links": "x", "links_up": 0}), {}, "unknown", "no count"),
    ("fabric", {}, {}, "not-applicable", "no NVSwitch"),
    ("fabric", SWITCHED, {}, "pass", "GPU 0: joined"),
    ("fabric", JOINED, {}, "pass", "0 switches"),
    ("fabric", {**SWITCHED, **gpu(fabric_state=2)}, {}, "fail", "in progress"),
    # Joined, and not well: NVIDIA/k8s-test-infra, issue 677. A GB200 that is well answers 2 to each question and 1 to the last.
    ("fabric", {**SWITCHED, **gpu(fabric_health=0b0001_10101010)}, {}, "pass", "GPU 0: joined"),
    ("fabric", {**SWITCHED, **gpu(fabric_health=0b0001_10011010)}, {}, "fail", "GPU 0: joined, cuInit 0; GPU 0: route unhealthy"),
    (
        "fabric",
        {**SWITCHED, **gpu(fabric_health=0b0101_01010101)},
        {},
        "fail",
        "degraded, route recovery in progress, route unhealthy, recov",
    ),
    ("fabric", {**SWITCHED, **gpu(fabric_health=0b0100_00000000)}, {}, "fail", "; GPU 0: configured wrong"),
    ("fabric", {**SWITCHED, **gpu(fabric_health=0)}, {}, "pass", "GPU 0: joined"),
    ("fabric", {**SWITCHED, **gpu(fabric_health=-1)}, {}, "pass", "GPU 0: joined"),
    ("fabric", {**SWITCHED, **gpu(fabric_status=999)}, {}, "fail", "refused with status 999"),
    ("fabric", {**SWITCHED, "fabric__manager": {**MANAGER, "active": False}}, {}, "fail", "not active"),
    ("fabric", {**SWITCHED, "fabric__manager": {**MANAGER, "enabled": False}}, {}, "warn", "not enabled at boot"),
    ("fabric", {**SWITCHED, "fabric__manager": None}, {}, "unknown", "not seen"),
    ("fabric", {"fabric": None}, {}, "unknown", "no fact"),
    ("pcie", gpu(pcie_generation_max=4, pcie_width=8), {"gpu__model": "l40s"}, "pass", "1 of 4"),
    ("pcie", {}, {"gpu__model": "l40s"}, "fail", "1 of 3"),
    ("pcie", {}, {"gpu__model": "a10g"}, "pass", "1 of 3 now, not judged, 8 of 8"),
    *[("pcie", gpu(pcie_width=7), {"gpu__model": model}, "fail", "7 of 8 lanes") for model in ("t4", "a10g", "l40s")],
    *[("pcie", gpu(pcie_generation_max=2), {"gpu__model": model}, "fail", "1 of 2") for model in ("t4", "a10g")],
    ("pcie", gpu(pcie_width=16, pcie_width_max=16), {"gpu__model": "v100"}, "pass", "1 of 3 now, not judged, 16 of 16 lanes"),
    ("pcie", gpu(pcie_width=15, pcie_width_max=15), {"gpu__model": "v100"}, "fail", "15 of 15 lanes"),
    ("pcie", gpu(pcie_generation_max=2, pcie_width=16, pcie_width_max=16), {"gpu__model": "v100"}, "fail", "1 of 2"),
    ("pcie", gpu(virtualization=0), {}, "pass", "=GPU 0: generation 1 of 3 now, not judged, 8 of 8 lanes"),
    *[("pcie", gpu(virtualization=kind), {}, "pass", "; in a virtual machine the link can be made up") for kind in (1, 2)],
    ("pcie", gpu(virtualization=3), {}, "pass", "=GPU 0: generation 1 of 3 now, not judged, 8 of 8 lanes"),
    ("pcie", two(good.GOOD, {"virtualization": 0}, {"virtualization": 2}), {}, "pass", "; in a virtual machine"),
    ("pcie", two(good.GOOD, {}, {"pcie_width": 4}), {}, "fail", "GPU 1: generation 1 of 3 now, not judged, 4 of 8 lanes"),
    ("pcie", two(good.GOOD, {"pcie_width": 4}, {}), {}, "fail", "GPU 0: generation 1 of 3 now, not judged, 4 of 8 lanes"),
    ("device-nodes", {"nvml__devices": []}, {}, "fail", "=device nodes: 1; GPUs of NVML: 0"),
    ("device-nodes", two(good.GOOD, {}, {}), {}, "fail", "=device nodes: 1; GPUs of NVML: 2"),
    ("device-nodes", {"gpu__modes": {**OPEN, "/dev/nvidia-uvm": 0o664}}, {}, "fail", "=closed to others: /dev/nvidia-uvm 0664"),
    ("device-nodes", {"gpu__modes": {**OPEN, "/dev/nvidiactl": 0o662}}, {}, "fail", "=closed to others: /dev/nvidiactl 0662"),
    ("nvlink", two(good.GOOD, LINKED, {"links": NOT_SUPPORTED}), {}, "unknown", "Not Supported"),
    ("nvlink", two(good.GOOD, {"links": 18, "links_up": 1}, {"links": 18, "links_up": 1}), {}, "pass", "GPU 1: 1 of 18"),
    ("fabric", {"fabric__manager": {**MANAGER, "active": False}, "fabric__switches": 4}, {}, "fail", "not active, GPU 0: no state told"),
    (
        "fabric",
        {"fabric__switches": 4, "fabric__manager": MANAGER, **DISK},
        {},
        "pass",
        "4 switches, fabric manager active, GPU 0: no state",
    ),
    ("fabric", {**JOINED, "fabric__manager": None}, {}, "pass", "0 switches, fabric manager not seen, GPU 0: joined"),
    ("fabric", {**JOINED, **DISK, "fabric__manager": {**MANAGER, "enabled": False}}, {}, "warn", "not enabled at boot"),
    ("fabric", {**SWITCHED, "fabric__manager": {**MANAGER, "exists": False, "active": False}}, {}, "fail", "manager not installed"),
    (
        "fabric",
        {**SWITCHED, "fabric__manager": {**STOPPED, **SAID}},
        {},
        "fail",
        "fabric manager not active (warning: Dependency failed), GPU 0",
    ),
    (
        "fabric",
        {**SWITCHED, "fabric__manager": {**STOPPED, "starting": True}},
        {},
        "unknown",
        "not active, GPU 0: joined, cuInit 0; its unit is",
    ),
    ("fabric", gpu(fabric_state=1, fabric_status=0), {}, "fail", "GPU 0: not started"),
    ("fabric", gpu(fabric_state=2, fabric_status=0), {}, "fail", "GPU 0: in progress"),
    ("fabric", gpu(fabric_state=4, fabric_status=0), {}, "fail", "GPU 0: state 4"),
    ("fabric", gpu(fabric_state=3, fabric_status=1), {}, "fail", "GPU 0: refused with status 1"),
    ("fabric", two(good.GOOD, {"fabric_state": 3, "fabric_status": 0}, {"fabric_state": 1, "fabric_status": 0}), {}, "fail", "not started"),
    ("fabric", two(good.GOOD, {"fabric_state": 3, "fabric_status": 0}, {"fabric_state": 0}), {}, "pass", "GPU 1: no state told"),
    ("fabric", gpu(fabric_state={"unknown": "GPU is lost"}), {}, "unknown", "GPU is lost"),
    ("fabric", SWITCHED, {}, "pass", "cuInit 0"),
    ("fabric", {**SWITCHED, "fabric__cuda_init": 802}, {}, "fail", "GPU 0: joined, cuInit 802"),
    ("fabric", {**SWITCHED, "fabric__cuda_init": 999}, {}, "fail", "cuInit 999"),
    ("fabric", {**SWITCHED, "fabric__cuda_init": None}, {}, "pass", "=4 switches, fabric manager active, GPU 0: joined"),
    ("fabric", {**SWITCHED, "driver__loaded": "580.95.06"}, {}, "fail", "its package is 580.95.05, the loaded driver 580.95.06"),
    ("fabric", {**SWITCHED, "driver__loaded": None}, {}, "unknown", "driver None, package 580.95.05"),
    ("fabric", {**SWITCHED, "fabric_on_disk__packages": {}}, {}, "unknown", "driver 580.95.05, package None"),
    ("fabric", {**SWITCHED, "fabric_on_disk": None}, {}, "unknown", "no fact"),
    ("fabric", JOINED, EIGHT, "pass", "0 switches, fabric manager not installed"),  # a hypervisor configured it
    ("fabric", {}, EIGHT, "not-applicable", "no NVSwitch"),  # eight cards in PCIe slots
    ("fabric", JOINED, BLACKWELL, "fail", "0 switches, fabric manager not installed"),
    ("fabric", {}, BLACKWELL, "fail", "0 switches, fabric manager not installed"),
    ("fabric", {**JOINED, **DISK, "fabric__manager": MANAGER}, BLACKWELL, "pass", "0 switches, fabric manager active"),
    ("fabric-on-disk", {}, {}, "not-applicable", "g4dn.xlarge"),
    ("fabric-on-disk", {}, {**EIGHT, "gpu__count": 7}, "not-applicable", "7 x H100: no board with NVSwitches"),
    ("fabric-on-disk", DISK, EIGHT, "pass", "=fabric manager 580.95.05, driver 580.95.05; enabled"),
    ("fabric-on-disk", {}, EIGHT, "fail", "no package of the fabric manager"),
    ("fabric-on-disk", {"fabric_on_disk": None}, EIGHT, "unknown", "no fact"),
    ("fabric-on-disk", {**DISK, "fabric_on_disk__module": "580.95.06"}, EIGHT, "fail", "fabric manager 580.95.05, driver 580.95.06"),
    # No kernel module, so the driver's packages count: one of another version, and none at all.
    *[
        ("fabric-on-disk", {"fabric_on_disk": {"packages": packages, "module": None, "unit": MANAGER}}, EIGHT, outcome, words)
        for packages, outcome, words in (
            (SAME, "pass", "driver 580.95.05; enabled"),
            ({**SAME, "nvidia-dkms-open": "580.105.08"}, "fail", "driver 580.105.08 and 580.95.05"),
            ({"nvidia-fabricmanager": "580.95.05"}, "unknown", "driver not seen"),
            ({**SAME, "nvidia-fabric-manager": "575.57.08"}, "pass", "fabric manager 580.95.05"),
        )
    ],
    ("fabric-on-disk", {**DISK, "fabric_on_disk__unit": {**MANAGER, "enabled": False}}, EIGHT, "fail", "not enabled"),
    ("fabric-on-disk", {**DISK, "fabric_on_disk__unit": {**MANAGER, "exists": False}}, EIGHT, "fail", "the unit is not there"),
    ("fabric-on-disk", {**DISK, "fabric_on_disk__unit": None}, EIGHT, "unknown", "no systemd"),
    ("fabric-on-disk", DISK, BLACKWELL, "fail", "no nvlsm"),
    ("fabric-on-disk", {**DISK, "fabric_on_disk__packages": {**SAME, "nvlsm": "2025.10.14"}}, BLACKWELL, "pass", "nvlsm 2025.10.14"),
]
BESIDE = "the fabric manager at the driver's own version"
TEXTS: list[Text] = [
    ("device-nodes", gpu(compute_mode=3), {}, NODES, "`sudo nvidia-smi -i 0 -c DEFAULT`"),
    ("device-nodes", {"nvml__devices": []}, {}, NODES, "the driver starts no GPU: see the check gpu"),
    ("fabric-on-disk", DISK, EIGHT, f"{BESIDE} and its unit enabled", ""),
    ("fabric-on-disk", DISK, BLACKWELL, f"{BESIDE}, the subnet manager of NVLink 5, and its unit enabled", ""),
    ("fabric", {**SWITCHED, "fabric__cuda_init": 802}, {}, FABRIC, "exactly the driver's version"),
    ("fabric", {**SWITCHED, "fabric__cuda_init": 100}, {}, FABRIC, "another reason than the fabric"),
    ("pcie", {}, {}, "PCIe generation 3 or later, 8 lanes or more", ""),
    ("pcie", {}, {"gpu__model": "v100"}, "PCIe generation 3 or later, 16 lanes or more", "another slot, riser or machine"),
    ("pcie", gpu(pcie_width_max=16, virtualization=0), {}, "PCIe generation 3 or later, 8 lanes or more", "reseat the card"),
    ("fabric", {**SWITCHED, **gpu(fabric_health=0b010110)}, {}, FABRIC, "see `nvidia-smi nvlink -s`"),
    ("fabric", JOINED, BLACKWELL, FABRIC, "the fabric is up, and nothing here brings it up again"),
    ("fabric", {}, BLACKWELL, FABRIC, "until then cuInit fails with 802"),
]

test_table = table(CASES)
test_texts = texts(TEXTS)
