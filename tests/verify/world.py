"""What `nvidia-smi -q`, with or without `-x`, says of a host, in the probe's form: a stranger's capture, judged on an otherwise good host.

    python -m tests.verify.world FILE …

judges each by `gpuprov verify` under a profile of its first card. The probe asks NVML, and nvidia-smi prints what NVML says: N/A is "Not
Supported", a line that an older release lacks is a function that its library lacks.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import yaml

from provision.catalog import read

from . import good

ABSENT = {"unknown": "Function Not Found"}
# What nvidia-smi prints of a card, as the probe's readings: the reading, where it is in XML, where in text, and the words of its numbers.
STATE = {"Disabled": 0, "Enabled": 1, "No": 0, "Yes": 1}
MODES = {"Default": 0, "Exclusive_Thread": 1, "Prohibited": 2, "Exclusive_Process": 3}
VIRTUAL = {"None": 0, "Pass-Through": 1, "VGPU": 2, "Host VGPU": 3, "VSGA": 4}
FABRIC = {"Not Supported": 0, "Not Started": 1, "In Progress": 2, "Completed": 3}
HEALTH = {"route_recovery_in_progress": 2, "route_unhealthy": 4, "access_timeout_recovery": 6}
LIMITS = (
    ("power_limit_mw", ("gpu_power_readings/current_power_limit", "gpu_power_readings/power_limit", "power_readings/enforced_power_limit")),
    ("power_default_mw", ("gpu_power_readings/default_power_limit", "power_readings/default_power_limit")),
)
RECOVERY = {"None": 0, "Reset": 1, "Reboot": 2, "Drain P2P": 3, "Drain and Reset": 4}
READINGS: tuple[tuple[str, str, str, dict[str, int]], ...] = (
    ("name", "product_name", "product_name", {}),
    ("uuid", "uuid", "gpu_uuid", {}),
    ("memory_mib", "fb_memory_usage/total", "fb_memory_usage/total", {}),
    ("persistence", "persistence_mode", "persistence_mode", STATE),
    ("compute_mode", "compute_mode", "compute_mode", MODES),
    ("app_memory_mhz", "applications_clocks/mem_clock", "applications_clocks/memory", {}),
    ("app_graphics_mhz", "applications_clocks/graphics_clock", "applications_clocks/graphics", {}),
    ("memory_mhz", "clocks/mem_clock", "clocks/memory", {}),
    ("sm_mhz", "clocks/sm_clock", "clocks/sm", {}),
    ("max_memory_mhz", "max_clocks/mem_clock", "max_clocks/memory", {}),
    ("max_graphics_mhz", "max_clocks/graphics_clock", "max_clocks/graphics", {}),
    ("virtualization", "gpu_virtualization_mode/virtualization_mode", "gpu_virtualization_mode/virtualization_mode", VIRTUAL),
    ("ecc", "ecc_mode/current_ecc", "ecc_mode/current", STATE),
    ("ecc_pending", "ecc_mode/pending_ecc", "ecc_mode/pending", STATE),
    ("sram_threshold", "ecc_errors/aggregate/sram_threshold_exceeded", "ecc_errors/aggregate/sram_threshold_exceeded", STATE),
    ("retired_single", "retired_pages/multiple_single_bit_retirement/retired_count", "retired_pages/single_bit_ecc", {}),
    ("retired_double", "retired_pages/double_bit_retirement/retired_count", "retired_pages/double_bit_ecc", {}),
    ("retired_pending", "retired_pages/pending_retirement", "retired_pages/pending_page_blacklist", STATE),
    ("remapped_correctable", "remapped_rows/remapped_row_corr", "remapped_rows/correctable_error", {}),
    ("remapped_uncorrectable", "remapped_rows/remapped_row_unc", "remapped_rows/uncorrectable_error", {}),
    ("remapped_pending", "remapped_rows/remapped_row_pending", "remapped_rows/pending", STATE),
    ("remapped_failure", "remapped_rows/remapped_row_failure", "remapped_rows/remapping_failure_occurred", STATE),
    ("recovery_action", "gpu_recovery_action", "gpu_recovery_action", RECOVERY),
    ("pcie_generation", "pci/pci_gpu_link_info/pcie_gen/current_link_gen", "pci/gpu_link_info/pcie_generation/current", {}),
    ("pcie_generation_max", "pci/pci_gpu_link_info/pcie_gen/max_link_gen", "pci/gpu_link_info/pcie_generation/max", {}),
    ("pcie_generation_gpu", "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen", "pci/gpu_link_info/pcie_generation/device_max", {}),
    ("pcie_width", "pci/pci_gpu_link_info/link_widths/current_link_width", "pci/gpu_link_info/link_width/current", {}),
    ("pcie_width_max", "pci/pci_gpu_link_info/link_widths/max_link_width", "pci/gpu_link_info/link_width/max", {}),
    ("mig", "mig_mode/current_mig", "mig_mode/current", STATE),
    ("mig_pending", "mig_mode/pending_mig", "mig_mode/pending", STATE),
    ("fabric_state", "fabric/state", "fabric/state", FABRIC),
    ("fabric_status", "fabric/status", "fabric/status", {"Success": 0}),
    ("gsp", "gsp_firmware_version", "gsp_firmware_version", {}),
)
REASONS = {  # NVML's bits; the names lose their prefix, which changed with driver 535
    "gpu_idle": 0x1,
    "idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
    "display_clock_setting": 0x100,
}
CAPABILITY = {
    "Pascal": "6.1",
    "Volta": "7.0",
    "Turing": "7.5",
    "Ampere": "8.6",
    "Ada Lovelace": "8.9",
    "Hopper": "9.0",
    "Blackwell": "12.0",
}
CHIPS = (
    ("GB300", "10.3"),
    ("GB200", "10.0"),
    ("B300", "10.3"),
    ("B200", "10.0"),
    ("A100", "8.0"),
    ("A10G", "8.6"),
    ("A10", "8.6"),
    ("P100", "6.0"),
    ("V100", "7.0"),
    ("T4", "7.5"),
    ("L4", "8.9"),
)


def tree(text: str) -> ET.Element:
    """The log as XML, whichever way it was printed; the labels of the text are made into tags."""
    if "<nvidia_smi_log>" in text:
        return ET.fromstring(re.sub(r"\A.*?(?=<nvidia_smi_log>)", "", text, flags=re.DOTALL))  # noqa: S314 - no entities: its DTD is cut off
    root = ET.Element("nvidia_smi_log")
    path: list[tuple[int, ET.Element]] = [(-1, root)]
    for line in text.partition("NVSMI LOG")[2].splitlines()[1:]:
        if line.startswith("#"):
            break  # the next command of a collection
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        found = re.match(r"\s*(GPU [0-9A-F]{8}:\S+|[^:]*\S)\s*(?::\s(.*))?$", line)
        if found is None:
            continue
        while path[-1][0] >= indent:
            path.pop()
        label = "gpu" if indent == 0 and found[1].startswith("GPU 0000") else re.sub(r"[^a-z0-9]+", "_", found[1].lower()).strip("_")
        node = ET.SubElement(path[-1][1], label or "_", {"id": found[1].partition(" ")[2]} if label == "gpu" else {})
        node.text = (found[2] or "").strip()
        path.append((indent, node))
    return root


def reading(node: ET.Element, paths: tuple[str, ...], words: dict[str, int]) -> dict[str, Any]:
    """One value as NVML gives it, or its reason for none."""
    said = next(((found.text or "").strip() for path in paths if (found := node.find(path)) is not None), None)
    if said is None:  # a whole group may be N/A
        return {"unknown": "Not Supported"} if any(node.findtext(path.split("/")[0], "").strip() == "N/A" for path in paths) else ABSENT
    if said in words:
        return {"value": words[said]}
    if said in {"N/A", "", "[N/A]"}:
        return {"unknown": "Not Supported"}
    if number := re.fullmatch(r"(\d+)(?:\.\d+)?x?(?: (?:MiB|MHz|us|W|bank\(s\)))?", said):
        return {"value": int(number[1])}
    if words or said in {"GPU is lost", "Unknown Error", "Requested functionality has been deprecated"}:
        return {"unknown": said}
    return {"value": said}


def device(gpu: ET.Element) -> dict[str, Any]:
    """One card in the probe's form."""
    made = {name: reading(gpu, (xml, label), words) for name, xml, label, words in READINGS}
    if "value" in made["gsp"]:
        made["gsp"] = {"value": 1}
    elif made["gsp"] != ABSENT:
        made["gsp"] = {"value": 0}
    name = str(made["name"].get("value", ""))
    made["capability"] = {
        "value": next(
            (c for chip, c in CHIPS if chip in re.split(r"[ -]", name)), CAPABILITY.get(gpu.findtext("product_architecture", ""), "6.1")
        )
    }
    for kind, reading_name in (("volatile", "uncorrected"), ("aggregate", "uncorrected_ever")):
        made[reading_name] = _uncorrected(gpu.find(f"ecc_errors/{kind}"), made["ecc"])
    reasons = next((found for tag in ("clocks_event_reasons", "clocks_throttle_reasons") if (found := gpu.find(tag)) is not None), None)
    leaves = [] if reasons is None else [node for node in reasons.iter() if node.text and node.text.strip() == "Active"]
    bits = {REASONS[re.sub(r"^clocks_(event|throttle)_reason_", "", node.tag)] for node in leaves}
    made["event_reasons"] = ABSENT if reasons is None else {"unknown": "Not Supported"} if len(reasons) == 0 else {"value": sum(bits)}
    counters = "clocks_event_reasons_counters/"
    for name, xml, label in (
        ("hw_thermal", "hw_therm_slowdown", "hw_thermal_slowdown"),
        ("hw_power_brake", "hw_power_brake", "hw_power_braking"),
    ):
        made[name] = reading(gpu, (f"{counters}clocks_event_reasons_counters_{xml}", counters + label), {})
    for name, paths in LIMITS:
        made[name] = reading(gpu, paths, {})
        made[name] = {"value": 1000 * made[name]["value"]} if isinstance(made[name].get("value"), int) else made[name]
    mask = sum(1 << shift for name, shift in HEALTH.items() if (gpu.findtext(f"fabric/health/{name}") or "") == "True")
    made["fabric_health"] = {"value": mask} if gpu.find("fabric/health") is not None else ABSENT
    lost = any(node.text and "GPU is lost" in node.text for node in gpu.iter())
    made["error"] = {"value": 15 if lost else 0}
    split = gpu.findall("mig_devices/mig_device") + gpu.findall("mig_device")
    made["mig_slices"] = made["mig"] if "unknown" in made["mig"] else {"value": " ".join(["?"] * len(split))}
    return {
        **made,
        **dict.fromkeys(("unrepairable", "links", "links_up"), ABSENT),
        "inforom": {"value": 1},
        "pci": {"value": gpu.get("id", "").lower()},
    }


def _uncorrected(errors: ET.Element | None, ecc: dict[str, Any]) -> dict[str, Any]:
    """The sum that NVML gives: of both memories from Ampere on, before it of the double-bit errors."""
    if errors is None or "unknown" in ecc:
        return {"unknown": "Not Supported"}
    total = errors.find("double_bit/total")
    words = [total] if total is not None else [node for node in errors.iter() if "uncorrectable" in node.tag]
    numbers = [int(text) for node in words if node is not None and (text := (node.text or "").strip()).isdigit()]
    return {"value": sum(numbers)} if numbers else {"unknown": "Not Supported"}


def changes(text: str) -> dict[str, Any]:
    """What a good host's facts have to be changed to: for `good.facts`."""
    log = tree(text)
    devices = [device(gpu) for gpu in log.findall("gpu")]
    driver = (log.findtext("driver_version") or "").strip()
    addresses = [str(made["pci"]["value"])[4:] for made in devices]
    arches = ["sm_" + str(made["capability"]["value"]).replace(".", "") for made in devices]
    nodes = [f"/dev/nvidia{number}" for number in range(len(devices))]
    ran = [{"capability": arch, "code": arch, "sum": 2147450880, "error": ""} for arch in arches]
    return {
        "gpu__pci": addresses,
        "gpu__nodes": nodes,
        "gpu__modes": dict.fromkeys((*nodes, "/dev/nvidiactl", "/dev/nvidia-uvm"), 0o666),
        "nvml__driver__value": driver,
        "nvml__cuda__value": (log.findtext("cuda_version") or "").strip(),
        "nvml__devices": devices,
        "driver__loaded": driver,
        "driver__installed": driver,
        "driver__nvidia_smi": driver,
        "fabric_on_disk__packages": {f"libnvidia-compute-{driver.split('.')[0]}": driver},
        "fabric_on_disk__module": driver,
        "nvcc_runs__gpus": sorted(set(arches)),
        "nvcc_runs__lists": sorted(set(arches)),
        "nvcc_runs__built": sorted(set(arches)),
        "nvcc_runs__devices": ran,
        "pytorch__found__devices": [{"capability": arch, "product": 256.0**3} for arch in arches],
        "pytorch__found__arch_list": sorted({"sm_75", *arches}),
    }


def asks_for(text: str) -> dict[str, Any]:
    """The profile that a host of this log would have: its first card of the catalog, as many as there are, and no clocks."""
    names = [(gpu.findtext("product_name") or "").replace("-", " ").upper().split() for gpu in tree(text).findall("gpu")]
    models = [record.model for record in read.gpus().gpus if names and {word.upper() for word in record.nvml_words} <= set(names[0])]
    return {
        "places": [],
        "gpu__model": (models or ["t4"])[0],
        "gpu__count": max(1, len(names)),
        "gpu__application_clocks": "default",
        "disks__data": None,
    }


def main(paths: list[str]) -> None:
    """Judge each file by the command line, and write what does not pass."""
    for path in map(Path, paths):
        text = path.read_text(encoding="utf-8", errors="replace")
        with tempfile.TemporaryDirectory() as folder:
            facts, profile = Path(folder, "facts.json"), Path(folder, "profile.yml")
            facts.write_text(json.dumps(good.facts(**changes(text)).as_dict()))
            profile.write_text(yaml.safe_dump(good.profile(**asks_for(text)).dump()))
            words = [sys.executable, "-m", "provision", "verify", "--facts", str(facts), "-p", str(profile), "--json"]
            done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
        lines = [f"== {path.name}: {asks_for(text)['gpu__count']} x {asks_for(text)['gpu__model']}, ends with {done.returncode}"]
        lines += [
            f"   {found['outcome']:7} {found['check']:18} {found['observed'][:300]} | {found['hint'][:200]}"
            for found in json.loads(done.stdout).get("hosts", [{"findings": []}])[0]["findings"]
            if found["outcome"] not in {"pass", "not-applicable"}
        ]
        sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main(sys.argv[1:])
