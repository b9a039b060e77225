"""Cards that we have not, as their owners published them: what `nvidia-smi -q` printed of each, and what `verify` has to say of that.

A case has the lines that tell something, by the names of the probe's readings; what is left out is as on a healthy card. The files, as read
on 2026-11-28; `python -m tests.verify.world FILE` judges a whole one:

- `telegraf` influxdata/telegraf@b27263146617 plugins/inputs/nvidia_smi/testdata (MIT)
- `mokka` NVIDIA/k8s-test-infra@3b2b865d91b1 tests/e2e/go/assertions/nvidiasmi/testdata/hardware (Apache-2.0)
- `exporter` utkuozdemir/nvidia_gpu_exporter@e656cd81a180 internal/captures (MIT)
- `gls` thamada/gls@e20f22d0eec0 gls (Apache-2.0)
- `pai` microsoft/pai@a95d9420e63e src/job-exporter/test/data (MIT)
- `datakit` GuanceCloud/datakit@9264e037867e internal/plugins/inputs/nvidiasmi/testdata (MIT)
"""

from typing import Any
from xml.sax.saxutils import escape

import pytest

from provision.verify.judge import judge

from . import good, world

PLACES = {name: xml for name, xml, _, _ in world.READINGS} | {name: paths[0] for name, paths in world.LIMITS}
PLACES |= {
    "uncorrected": "ecc_errors/volatile/dram_uncorrectable",
    "uncorrected_ever": "ecc_errors/aggregate/dram_uncorrectable",
    "idle": "clocks_event_reasons/clocks_event_reason_gpu_idle",
    "capped": "clocks_event_reasons/clocks_event_reason_sw_power_cap",
    "architecture": "product_architecture",
    "route": "fabric/health/route_unhealthy",
}
HEALTHY = {
    "persistence": "Enabled",
    "compute_mode": "Default",
    "virtualization": "None",
    "ecc": "Enabled",
    "ecc_pending": "Enabled",
    "uncorrected": "0",
    "uncorrected_ever": "0",
    "remapped_correctable": "0",
    "remapped_uncorrectable": "0",
    "remapped_pending": "No",
    "remapped_failure": "No",
    "retired_pending": "N/A",
    "pcie_generation": "1",
    "pcie_generation_max": "4",
    "pcie_width": "16x",
    "pcie_width_max": "16x",
    "mig": "N/A",
    "mig_pending": "N/A",
    "idle": "Active",
    "gsp": "N/A",
}
GUEST = {"virtualization": "Pass-Through"}
OFF = {"persistence": "Disabled"}
NO_ECC = {"ecc": "N/A", "ecc_pending": "N/A"}
ECC_OFF = {"ecc": "Disabled", "ecc_pending": "Disabled"}
HALF = {"pcie_width": "8x"}
GEN3, GEN5, GEN6 = ({"pcie_generation_max": str(number)} for number in (3, 5, 6))
PAGES = {"retired_single": "0", "retired_double": "0", "retired_pending": "No", "remapped_failure": "N/A", **GEN3}
WHOLE = {"mig": "Disabled", "mig_pending": "Disabled"}
SPLIT = {"mig": "Enabled", "mig_pending": "Enabled"}
UNREMAPPED = dict.fromkeys(("remapped_correctable", "remapped_uncorrectable", "remapped_pending", "remapped_failure"), "N/A")
JOINED = {"fabric_state": "Completed", "fabric_status": "Success", "route": "False"}
OTHER = {"gpu": "fail"}

Said = dict[str, str]
# file, driver, cards, what is not right of gpu, device-nodes, pcie, fabric, mig, persistence, gpu-health, throttling and gsp
Row = tuple[str, str, list[Said], dict[str, str]]
CASES: list[Row] = [
    ("telegraf tesla-t4.xml", "515.105.01", [{"name": "Tesla T4", **PAGES, **GUEST, **OFF, **HALF}], {"persistence": "fail"}),
    ("telegraf a10g.xml", "515.105.01", [{"name": "NVIDIA A10G", **GUEST, **OFF, **HALF}], {"persistence": "fail"}),
    (
        "telegraf a100-sxm4-v12.xml",
        "535.54.03",
        [{"name": "NVIDIA A100-SXM4-80GB", **SPLIT, **UNREMAPPED, **OFF}],
        {"mig": "fail", "persistence": "fail"},
    ),
    (
        "telegraf rtx-3090-v12.xml",
        "525.147.05",
        [{"name": "NVIDIA GeForce RTX 3090", **NO_ECC, **GUEST, "power_limit_mw": "200.00 W", "power_default_mw": "350.00 W"}],
        {**OTHER, "throttling": "warn"},
    ),
    ("telegraf rtx-3060-v12.xml", "570.124.04", [{"name": "NVIDIA GeForce RTX 3060", **NO_ECC}], OTHER),
    ("telegraf gtx-1660-ti.xml", "418.43", [{"name": "Graphics Device", **NO_ECC, **OFF, **GEN3}], {**OTHER, "persistence": "fail"}),
    ("telegraf quadro-p2000-v12.xml", "525.125.06", [{"name": "Quadro P2000", **NO_ECC, **HALF, **GEN3}], {**OTHER, "pcie": "warn"}),
    (
        "telegraf rtx-4000-sff-ada-v13.xml",
        "595.84",
        [{"name": "NVIDIA RTX 4000 SFF Ada Generation", **ECC_OFF, "gsp": "595.84"}],
        {**OTHER, "gpu-health": "warn"},
    ),
    ("mokka qx-t4.xml", "595.91.07", [{"name": "Tesla T4", **PAGES, **GUEST, **HALF}], {}),
    ("mokka qx-l40s.xml", "595.91.07", [{"name": "NVIDIA L40S", **GUEST, **HALF}], {}),
    ("mokka qx-a100.xml", "570.148.08", [{"name": "NVIDIA A100-SXM4-40GB", **GUEST, **WHOLE}], {}),
    ("mokka qx-h100.xml", "580.105.08", [{"name": "NVIDIA H100 80GB HBM3", **GUEST, **WHOLE, **GEN5, **JOINED}] * 8, {}),
    # Whether a fabric manager runs in this guest, the file does not say; the good host of the tests has none.
    (
        "mokka qx-b200.xml",
        "580.105.08",
        [{"name": "NVIDIA B200", **GUEST, **WHOLE, **GEN5, **JOINED, **OFF}] * 8,
        {"fabric": "fail", "persistence": "fail"},
    ),
    ("mokka qx-gb200.xml", "580.173.02", [{"name": "NVIDIA GB200", **GUEST, **WHOLE, **GEN5, **JOINED}] * 4, OTHER),
    ("mokka qx-gb300.xml", "580.173.02", [{"name": "NVIDIA GB300", **WHOLE, **GEN6, **JOINED}] * 4, OTHER),
    (
        "mokka ../qx-gb200-fabric-degraded.xml, of NVIDIA's emulator",
        "580.65.06",
        [{"name": "NVIDIA GB200", **WHOLE, **GEN6, **JOINED}, {"name": "NVIDIA GB200", **WHOLE, **GEN6, **JOINED, "route": "True"}],
        {**OTHER, "fabric": "fail"},
    ),
    ("exporter h100-80gb-hbm3__590.48.01", "590.48.01", [{"name": "NVIDIA H100 80GB HBM3", **GUEST, **WHOLE, **GEN5, **JOINED}], {}),
    (
        "exporter h100-mig__590.48.01",
        "590.48.01",
        [{"name": "NVIDIA H100 80GB HBM3", **GUEST, **SPLIT, **UNREMAPPED, **GEN5, **JOINED}],
        {"mig": "fail"},
    ),
    ("exporter h200__590.48.01", "590.48.01", [{"name": "NVIDIA H200", **GUEST, **WHOLE, **GEN5, **JOINED}], {}),
    (
        "exporter h200-mig__590.48.01",
        "590.48.01",
        [{"name": "NVIDIA H200", **GUEST, **SPLIT, **UNREMAPPED, **GEN5, **JOINED}],
        {"mig": "fail"},
    ),
    ("exporter l40s__595.80", "595.80", [{"name": "NVIDIA L40S", **GUEST, **OFF}], {"persistence": "fail"}),
    (
        "exporter rtx-2080-super__610.57.04",
        "610.57.04 [Deprecated; will be removed in CUDA 14.0. Use KMD Version instead]",
        [{"name": "NVIDIA GeForce RTX 2080 SUPER", **NO_ECC, **GEN3, **OFF}],
        {**OTHER, "persistence": "fail"},
    ),
    ("gls V100_x8", "550.127.05", [{"name": "Tesla V100-SXM2-16GB", **PAGES, "retired_single": n} for n in "00100000"], {}),
    ("gls L4", "550.90.07", [{"name": "NVIDIA L4", **HALF}], {"pcie": "warn"}),
    ("gls L40S", "550.127.05", [{"name": "NVIDIA L40S"}], {}),
    ("gls A10", "550.90.12", [{"name": "NVIDIA A10", **GUEST, "capped": "Active"}], OTHER),
    (
        "gls A100SXMx4",
        "555.42.02",
        [{"name": "NVIDIA A100-SXM4-80GB", **WHOLE, "remapped_pending": said} for said in ("No", "Yes", "No", "No")],
        {"gpu-health": "fail"},
    ),
    ("gls H100NVLx2", "550.54.14", [{"name": "NVIDIA H100 NVL", **WHOLE, **GEN5}] * 2, OTHER),
    ("gls H100SXMx8", "565.57.01", [{"name": "NVIDIA H100 80GB HBM3", **WHOLE, **GEN5, **JOINED}] * 8, {}),
    (
        "gls GH200",
        "550.127.05",
        [
            {
                "name": "NVIDIA GH200 480GB",
                **GUEST,
                **WHOLE,
                "pcie_width": "1x",
                "pcie_width_max": "1x",
                "uncorrected_ever": "1",
                "remapped_uncorrectable": "1",
                "power_limit_mw": "700.00 W",
                "power_default_mw": "900.00 W",
            }
        ],
        {**OTHER, "pcie": "fail", "gpu-health": "warn", "throttling": "warn"},
    ),
    ("gls RTX4000Ada", "550.90.07", [{"name": "NVIDIA RTX 4000 Ada Generation", **ECC_OFF}], {"gpu-health": "warn"}),
    ("gls RTX6000Ada_x8", "550.127.05", [{"name": "NVIDIA RTX 6000 Ada Generation", **ECC_OFF}] * 8, {"gpu-health": "warn"}),
    ("gls RTX5090", "570.124.06", [{"name": "NVIDIA GeForce RTX 5090", **NO_ECC, **HALF, **GEN5}], {**OTHER, "pcie": "warn"}),
    ("datakit gtx-1card.xml", "460.39", [{"name": "Tesla V100-PCIE-32GB", **PAGES, **GUEST, **OFF}], {"persistence": "fail"}),
    (
        "datakit gtx-8card.xml",
        "460.73.01",
        [{"name": "Tesla V100S-PCIE-32GB", **PAGES, **GUEST, **OFF}] * 8,
        {**OTHER, "persistence": "fail"},
    ),
    (
        "pai nvidia_smi_out_of_order.xml",
        "430.26",
        [{"name": "Tesla K80", **PAGES, **GUEST, **OFF, "uncorrected_ever": number, "retired_pending": "N/A"} for number in "7400"],
        {**OTHER, "persistence": "fail", "gpu-health": "warn"},
    ),
    (
        "pai nvidia_smi_sample.xml",
        "384.66",
        [{"name": "GeForce GTX 1070", **NO_ECC, **GEN3, **OFF, "pcie_width": "1x"}],
        {**OTHER, "persistence": "fail", "pcie": "fail"},
    ),
    # awslabs/amazon-eks-ami, issue 2443: gr6f.4xlarge.
    ("gr6f.4xlarge", "570.172.08", [{"name": "NVIDIA L4-12Q", **NO_ECC, "virtualization": "VGPU"}], OTHER),
]
JUDGED = ("gpu", "device-nodes", "pcie", "fabric", "mig", "persistence", "gpu-health", "throttling", "gsp")


def xml(driver: str, cards: list[Said]) -> str:
    """The log of a host with these cards."""
    made = []
    for index, said in enumerate(cards):
        tree: dict[str, Any] = {}
        for name, text in {**HEALTHY, **said}.items():
            *groups, last = PLACES[name].split("/")
            node = tree
            for group in groups:
                node = node.setdefault(group, {})
            node[last] = text
        made.append(f'<gpu id="00000000:{index + 1:02X}:00.0">{_nested(tree)}</gpu>')
    return f"<?xml version='1.0'?><!DOCTYPE x><nvidia_smi_log><driver_version>{driver}</driver_version>{''.join(made)}</nvidia_smi_log>"


def _nested(tree: dict[str, Any]) -> str:
    return "".join(f"<{tag}>{_nested(node) if isinstance(node, dict) else escape(node)}</{tag}>" for tag, node in tree.items())


@pytest.mark.parametrize(("file", "driver", "cards", "expected"), CASES, ids=[case[0].replace(" ", "-") for case in CASES])
def test_a_host_of_the_world_gets_the_verdict_that_fits_it(file: str, driver: str, cards: list[Said], expected: dict[str, str]) -> None:
    text = xml(driver, cards)
    findings = {
        found.check: found for found in judge(good.facts(**world.changes(text)), good.profile(**world.asks_for(text)), host=file).findings
    }
    assert {check: findings[check].outcome for check in JUDGED if findings[check].outcome not in {"pass", "not-applicable"}} == expected
    assert [found.check for found in findings.values() if found.outcome == "unknown" and found.check != "skew"] == []


def test_the_text_of_nvidia_smi_says_what_its_xml_says() -> None:
    text = """==============NVSMI LOG==============

Driver Version                            : 550.90.07
CUDA Version                              : 12.4

Attached GPUs                             : 1
GPU 00000000:01:00.0
    Product Name                          : NVIDIA L4
    Product Architecture                  : Ada Lovelace
    MIG Mode
        Current                           : N/A
        Pending                           : N/A
    PCI
        GPU Link Info
            Link Width
                Max                       : 16x
                Current                   : 8x
    Clocks Event Reasons
        Idle                              : Not Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Uncorrectable Parity     : 1
            DRAM Uncorrectable            : 2
    Remapped Rows                         : N/A

# the next command
"""
    (seen,) = world.changes(text)["nvml__devices"]
    said = {
        "name": "NVIDIA L4",
        "pcie_width": 8,
        "pcie_width_max": 16,
        "event_reasons": 0x48,
        "ecc": 1,
        "uncorrected": 3,
        "capability": "8.9",
    }
    assert {name: seen[name]["value"] for name in said} == said
    assert seen["mig"] == seen["remapped_failure"] == {"unknown": "Not Supported"}
    assert seen["recovery_action"] == {"unknown": "Function Not Found"}
    assert world.asks_for(text)["gpu__model"] == "l4"


def test_a_lost_card_and_a_dropped_function_are_told_apart() -> None:
    seen = world.device(world.tree(xml("580", [{"name": "NVIDIA H100 80GB HBM3", "fabric_state": "GPU is lost"}]))[1])
    assert (seen["error"], seen["fabric_state"]) == ({"value": 15}, {"unknown": "GPU is lost"})
    old = world.device(world.tree(xml("590", [{"name": "Tesla T4", "app_memory_mhz": "Requested functionality has been deprecated"}]))[1])
    assert (old["error"], old["app_memory_mhz"]) == ({"value": 0}, {"unknown": "Requested functionality has been deprecated"})
