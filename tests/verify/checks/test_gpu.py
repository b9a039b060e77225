"""What the checks of gpu say to which facts: a case for each outcome that each can have."""

from typing import Any

from .. import good  # noqa: TID252 - the tests have no root package
from .table import Case, Text, gpu, image_has, table, texts, two

NODES = {"gpu__nodes": ["/dev/nvidia0", "/dev/nvidia1"]}
KERNELS = [{"kernel": "6.8.0-1", "built": True}, {"kernel": "6.8.0-2", "built": False}]
# Signed modules need no headers, and the newest kernel alone has them.
SIGNED = {"stack__driver_build": "signed"}
BARE = {
    "modules__kernels": [],
    "modules__installed": [{"kernel": "6.8.0-10-gcp", "built": True}, {"kernel": "6.8.0-9-gcp", "built": False}],
}
# The image's own driver may have come without headers too.
OWN = image_has(driver="580")
OLD_AND_NEW = [{"kernel": f"6.8.0-{number}", "built": True, "version": version} for number, version in ((10, "580.2"), (9, "580.3"))]
SECURE: dict[str, Any] = {"secure_boot": {"firmware": "uefi", "on": True, "setup_mode": False, "lockdown": "integrity"}}
SILENT = {"name": {"unknown": "GPU is lost"}}
LOST = [
    ({**SILENT, "error": code}, words)
    for code, words in {
        8: "its power cables are not attached",
        11: "the kernel has a problem with its interrupts",
        15: "it has fallen off the bus",
        16: "it requires a reset before it can be used again",
        999: "the driver does not reach it",
    }.items()
]
# User space of another version than the module, the same on disk and loaded (tinygrad/open-gpu-kernel-modules, issue 47).
SILENT_SPACE: dict[str, Any] = {"nvml": {"unknown": "NVML: Driver/library version mismatch"}, "driver__nvidia_smi": None}
SAID = {"driver__nvidia_smi_said": "exit 18: Failed to initialize NVML: Driver/library version mismatch NVML library version: 580.105"}
PACKAGES = {"fabric_on_disk__packages": {"libnvidia-compute-580": "580.105.08", "nvidia-dkms-580-open": "580.95.05"}}
MIXED: dict[str, Any] = {**SILENT_SPACE, **SAID, **PACKAGES}
VERSIONED = {"driver__library": "580.105.08", "modules__kernels": [{"kernel": "6.8.0-1", "built": True, "version": "580.95.05"}]}
UPGRADED = {"driver__installed": "580.105.08", "driver__library": "580.105.08"}
NONE: dict[str, Any] = {"nvml__devices": [], "driver__nvidia_smi_said": "exit 6: No devices were found"}
VFIO = {"gpu__drivers": {"0000:00:1e.0": "vfio-pci"}}
# Two cards of which the second is for a display, as the driver calls it.
DISPLAY = {
    **two(good.GOOD, {}, {"name": "NVIDIA DGX Display", "pci": "00000000:00:1f.0", "uuid": "GPU-d"}),
    "gpu__pci": ["0000:00:1e.0", "0000:00:1f.0"],
    "gpu__displays": ["0000:00:1f.0"],
    "gpu__nodes": ["/dev/nvidia0", "/dev/nvidia1"],
}
SECOND = {"gpu__pci": ["0000:00:1e.0", "0000:00:1f.0"]}


def cause(kind: str, last: str = "NVRM: requires use") -> dict[str, Any]:
    """Why the driver did not start a card."""
    return {
        "xids__causes": [{"kind": kind, "last": last}, {"kind": "start", "last": "NVRM: RmInitAdapter failed!"}][: 1 + (kind == "flavour")]
    }


OPEN_ONLY = cause("flavour")
LEGACY = "NVRM:  supported through the NVIDIA 580.xx Legacy drivers. Please"
# What apt and dnf have installed, and a hold of a part of it.
PART = {
    "modules__held": ["nvidia-dkms-580-open"],
    "upgrades__packages": ["libnvidia-compute-580", "libnvidia-container1", "nvidia-dkms-580-open", "nvidia-utils-580"],
}
LOCKED = ["kmod-nvidia-latest-dkms-3:580.95.05-1.el9"]
ENTERPRISE = {"modules__held": LOCKED, "upgrades__packages": ["kmod-nvidia-latest-dkms", "nvidia-driver-cuda", "nvidia-driver-cuda-libs"]}
CASES: list[Case] = [
    ("gpu", {}, {}, "pass", "Tesla T4"),
    ("gpu", {"gpu": good.NO_GPU}, {}, "unknown", "no NVIDIA GPU on this host"),
    ("gpu", {"gpu__nouveau": True}, {}, "fail", "nouveau"),
    ("gpu", {"gpu__module": False}, {}, "fail", "no NVIDIA driver is loaded"),
    ("gpu", {"nvml__devices__0__name": {"value": "NVIDIA L40S"}}, {"gpu__model": "l4"}, "fail", "L40S"),
    ("gpu", {"gpu__readable": False}, {}, "fail", "not usable"),
    ("gpu", {}, {"gpu__count": 2}, "fail", "Tesla T4"),
    ("gpu", {"nvml": {"unknown": "NVML: Driver/library version mismatch"}}, {}, "unknown", "mismatch"),
    ("driver", {}, {}, "pass", "580.95.05"),
    ("driver", {}, {"stack__driver": "580"}, "pass", ""),
    ("driver", {}, {"stack__driver": "570"}, "fail", ""),
    ("driver", {"driver__installed": "590.44.01"}, {}, "fail", "installed 590.44.01"),
    ("driver", {"driver__loaded": None}, {}, "fail", "no driver is loaded"),
    ("driver", {"driver__installed": None}, {}, "warn", "on disk was not seen"),
    (
        "driver",
        {"nvml": {"unknown": "no library"}, "driver__nvidia_smi": None, "driver__nvidia_smi_said": "exit 12"},
        {},
        "unknown",
        "exit 12",
    ),
    ("driver", MIXED, {}, "fail", "=loaded 580.95.05, installed 580.95.05, user space on disk 580.105.08"),
    ("driver", {**SILENT_SPACE, "driver__library": "580.105.08"}, {}, "fail", "user space on disk 580.105.08"),
    ("driver", {**SILENT_SPACE, **SAID, "fabric_on_disk": None}, {}, "fail", "user space did not answer: exit 18: "),
    ("driver", {**SILENT_SPACE, **PACKAGES, "driver__library": "580.95.05"}, {}, "unknown", "user space did not answer: no NVML"),
    ("driver", PACKAGES, {}, "pass", "nvidia-smi 580.95.05"),  # it answers: what the packages say is not what is used
    ("driver-on-disk", {}, {}, "pass", "6.8.0-1030-aws built; held: nvidia-dkms-open"),
    ("driver-on-disk", MIXED, {}, "fail", "the module is 580.95.05 for the running kernel, and user space 580.105.08"),
    (
        "driver-on-disk",
        VERSIONED,
        {},
        "fail",
        "=6.8.0-1 built; held: nvidia-dkms-open; the module is 580.95.05 for 6.8.0-1, and user space 580.105.08",
    ),
    ("driver-on-disk", {**VERSIONED, "driver": None, "fabric_on_disk": None}, {}, "pass", "6.8.0-1 built"),
    ("driver-on-disk", {**MIXED, "modules__held": []}, {}, "fail", "held: no package of the driver; the module is"),
    *[
        ("driver-on-disk", {"driver__library": "580.1", "modules__installed": OLD_AND_NEW}, how, "fail", "is 580.2 for 6.8.0-10, and user")
        for how in (SIGNED, OWN)
    ],
    ("driver-on-disk", {"gpu": good.NO_GPU}, {}, "pass", "built"),
    ("driver-on-disk", {"modules__kernels": []}, {}, "fail", "no kernel headers"),
    ("driver-on-disk", {"modules__kernels__0__built": False}, {}, "fail", "NOT built"),
    ("driver-on-disk", {"modules__held": ["tmux"]}, {}, "warn", "no package of the driver"),
    ("driver-on-disk", {"modules__held": ["nvidia-container-toolkit"]}, {}, "warn", "no package of the driver"),
    # A part of what must be of one version is held: an upgrade moves user space past the module (lyulyul/shine-cluster, issue 30).
    ("driver-on-disk", PART, {}, "warn", "held: nvidia-dkms-580-open; NOT held: libnvidia-compute-580"),
    ("driver-on-disk", {**PART, "modules__held": ["libnvidia-compute-580"]}, {}, "warn", "580; NOT held: nvidia-dkms-580-open"),
    ("driver-on-disk", {**PART, "modules__held": ["libnvidia-compute-580", "nvidia-dkms-580-open"]}, {}, "pass", "580-open"),
    ("driver-on-disk", PART, OWN, "warn", "NOT held: libnvidia-compute-580"),
    ("driver-on-disk", PART, SIGNED, "warn", "NOT held: libnvidia-compute-580"),
    ("driver-on-disk", ENTERPRISE, {}, "warn", "580.95.05-1.el9; NOT held: nvidia-driver-cuda"),
    ("driver-on-disk", {**ENTERPRISE, "modules__held": [*LOCKED, "nvidia-driver-cuda-3:580.95.05-1.el9"]}, {}, "pass", "built"),
    ("driver-on-disk", {"upgrades": None}, {}, "pass", "held: nvidia-dkms-open"),
    ("driver-on-disk", {"modules": None}, {}, "unknown", ""),
    # Another card beside the right one, and more cards than device nodes.
    ("gpu", two(good.GOOD, {}, {"name": "NVIDIA L40S"}), {}, "fail", "=Tesla T4, NVIDIA L40S"),
    ("gpu", two(good.GOOD, {"name": "NVIDIA L40S"}, {}), {}, "fail", "=NVIDIA L40S, Tesla T4"),
    ("gpu", {**two(good.GOOD, {}, {}), **NODES}, {"gpu__count": 2}, "pass", "=Tesla T4, Tesla T4"),
    ("gpu", two(good.GOOD, {}, {}), {"gpu__count": 2}, "fail", "=Tesla T4, Tesla T4; device nodes /dev/nvidia0 not usable"),
    # One GPU that NVML cannot reach hides no other, and is no GPU that nobody looked at (XuehaiPan/nvitop, issue 139).
    *[("gpu", two(good.GOOD, {}, lost), {"gpu__count": 2}, "fail", f"=GPU 1: {words}; the others: Tesla T4") for lost, words in LOST],
    ("gpu", two(good.GOOD, *[LOST[2][0]] * 2), {"gpu__count": 2}, "fail", "GPU 1: it has fallen off the bus; the others: none"),
    ("gpu", two(good.GOOD, {}, {**SILENT, "error": 4}), {"gpu__count": 2}, "unknown", "GPU is lost"),  # no permission is no observation
    ("driver", two(good.GOOD, {}, LOST[2][0]), {}, "pass", "NVML 580.95.05"),
    ("gpu", {"gpu__nodes": []}, {}, "fail", "device nodes missing not usable"),
    # On the bus, and not started (NVIDIA/open-gpu-kernel-modules, issue 789): this is the machine that the profile asks for.
    ("gpu", NONE, {}, "fail", "=none; on the bus and not started: 0000:00:1e.0"),
    ("gpu", {**NONE, **OPEN_ONLY}, {}, "fail", "=none; on the bus and not started: 0000:00:1e.0; NVRM: requires use"),
    ("gpu", {**NONE, **VFIO}, {}, "fail", "=none; on the bus and not started: 0000:00:1e.0 (vfio-pci)"),
    ("gpu", {**NONE, "xids": {"unknown": "the kernel log cannot be read"}}, {}, "fail", "not started: 0000:00:1e.0"),
    ("gpu", {**NONE, **cause("of-a-later-probe")}, {}, "fail", "=none; on the bus and not started: 0000:00:1e.0"),
    ("gpu", SECOND, {"gpu__count": 2}, "fail", "=Tesla T4; on the bus and not started: 0000:00:1f.0"),
    ("gpu", SECOND, {}, "pass", "=Tesla T4"),
    ("gpu", {**NONE, "gpu__pci": []}, {}, "fail", "=none"),
    (
        "gpu",
        {"gpu__module": False, "gpu__drivers": {"0000:00:1e.0": "nouveau"}},
        {},
        "fail",
        "=1 on the bus (0000:00:1e.0 (nouveau)), and no NVIDIA driver is loaded",
    ),
    # A card for a display beside those of the profile (rapidsai/dask-cuda, issue 777) counts for nothing, and programs see it.
    ("gpu", DISPLAY, {}, "warn", "=Tesla T4; beside them, for a display: NVIDIA DGX Display"),
    ("gpu", DISPLAY, {"gpu__count": 2}, "fail", "=Tesla T4; beside them, for a display: NVIDIA DGX Display"),
    (
        "gpu",
        {**DISPLAY, "gpu__displays": ["0000:00:1e.0", "0000:00:1f.0"]},
        {},
        "fail",
        "none; beside them, for a display: Tesla T4, NVIDIA",
    ),
    ("gpu", {**DISPLAY, "gpu__nodes": ["/dev/nvidia1"], "gpu__readable": False}, {}, "fail", "not usable"),
    # Another form of the card of the profile.
    *[
        ("gpu", gpu(name=f"NVIDIA H100 {form}"), {"gpu__model": "h100"}, "fail", ": of another form than H100 SXM")
        for form in ("PCIe", "NVL")
    ],
    ("gpu", gpu(name="NVIDIA H100 80GB HBM3"), {"gpu__model": "h100"}, "pass", "=NVIDIA H100 80GB HBM3"),
    ("gpu", gpu(name="NVIDIA A100-PCIE-40GB"), {"gpu__model": "a100-40gb"}, "pass", "=NVIDIA A100-PCIE-40GB"),  # no form is asked for
    ("gpu", gpu(name="T4"), {}, "pass", "T4"),
    # One name for several cards: a share of it (awslabs/amazon-eks-ami, issue 2443), and builds with less memory traffic or power.
    *[
        ("gpu", gpu(name=name), {"gpu__model": model}, outcome, f"={name}")
        for name, model, outcome in [
            ("NVIDIA L4-12Q", "l4", "fail"),
            ("GRID T4-16Q", "t4", "fail"),
            ("NVIDIA A10G-24Q", "a10g", "fail"),
            ("NVIDIA H100 80GB HBM3", "h100", "pass"),
            ("NVIDIA A100 80GB PCIe", "a100-80gb", "pass"),
            ("NVIDIA RTX 4000 SFF Ada Generation", "rtx-4000-ada", "fail"),
            ("NVIDIA RTX 4000 Ada Generation", "rtx-4000-ada", "pass"),
            ("NVIDIA RTX 4000 Ada Generation Laptop GPU", "rtx-4000-ada", "fail"),
            ("Tesla V100-SXM2-16GB", "v100", "pass"),
        ]
    ],
    # The driver has left the card behind, and the kernel does not keep the module (NixOS/nixos-hardware, issue 1880).
    ("gpu", {"gpu__module": False, **cause("branch", LEGACY)}, {}, "fail", f"=1 on the bus, and no NVIDIA driver is loaded; {LEGACY}"),
    ("gpu", {"gpu__module": False, **cause("start")}, {}, "fail", "=1 on the bus, and no NVIDIA driver is loaded"),
    ("driver", {"driver__loaded": None, **cause("branch", LEGACY)}, {}, "fail", "no driver is loaded"),
    ("driver", {"driver__loaded": None, "driver__installed": None, "driver__nvidia_smi": None, "nvml": None}, {}, "fail", "(none)"),
    ("driver", {"nvml": None}, {}, "pass", "=loaded 580.95.05, installed 580.95.05, nvidia-smi 580.95.05"),
    ("driver", {"driver__nvidia_smi": None}, {}, "pass", "=loaded 580.95.05, installed 580.95.05, NVML 580.95.05"),
    ("driver", {"nvml": {"unknown": "x"}, "driver__nvidia_smi": None}, {}, "unknown", "user space did not answer: no NVML"),
    ("driver", {"nvml__driver": {"value": "590.1"}}, {}, "fail", "NVML 590.1"),
    ("driver", {"driver__nvidia_smi": "590.1"}, {}, "fail", "nvidia-smi 590.1"),
    ("driver", {}, {"stack__driver": "58"}, "fail", "580.95.05"),
    ("driver-on-disk", {"modules__kernels": KERNELS}, {}, "fail", "6.8.0-1 built, 6.8.0-2 NOT built"),
    ("driver-on-disk", BARE, SIGNED, "pass", "6.8.0-9-gcp has NOT, 6.8.0-10-gcp has it; held: nvidia-dkms-open"),
    ("driver-on-disk", BARE | {"modules__held": []}, SIGNED, "warn", "held: no package"),
    ("driver-on-disk", BARE | {"modules__installed__0__built": False}, SIGNED, "fail", "6.8.0-10-gcp has NOT"),
    ("driver-on-disk", BARE | {"modules__installed": None}, SIGNED, "unknown", "no installed kernels"),
    ("driver-on-disk", BARE | {"modules__installed": []}, SIGNED, "fail", "no kernel is installed"),
    ("driver-on-disk", {}, SIGNED, "pass", "=6.8.0-1030-aws has it; held: nvidia-dkms-open"),
    ("driver", {}, OWN, "pass", "=loaded 580.95.05, installed 580.95.05, NVML 580.95.05, nvidia-smi 580.95.05"),
    ("driver", {}, image_has(driver="570"), "fail", "loaded 580.95.05"),
    ("driver-on-disk", {}, OWN, "pass", "=6.8.0-1030-aws has it; held: nvidia-dkms-open"),
    ("driver-on-disk", BARE, OWN, "pass", "=6.8.0-9-gcp has NOT, 6.8.0-10-gcp has it; held: nvidia-dkms-open"),
    ("driver-on-disk", BARE | {"modules__installed__0__built": False}, OWN, "fail", "6.8.0-10-gcp has NOT"),
    ("driver-on-disk", {"modules__installed": None}, OWN, "pass", "6.8.0-1030-aws has it"),
    ("driver-on-disk", BARE | {"modules__installed": []}, OWN, "unknown", "=no kernel is seen; held: nvidia-dkms-open"),
    ("driver-on-disk", {"modules__held": ["tmux"]}, OWN, "warn", "=6.8.0-1030-aws has it; held: no package of the driver"),
    ("driver-on-disk", {"modules": None}, OWN, "unknown", "no fact"),
]
BUILT = "the driver's module built for every kernel that has headers, and its packages held"
ONE = "one driver: loaded = installed = user space"
NEWEST = "the signed module for the newest kernel, and the driver's packages held"
BOOTED = "the image's own driver for every kernel that can be booted, and its packages held"
TEXTS: list[Text] = [
    ("gpu", {"gpu__module": False}, {}, "1 x T4", "install the driver, or reboot into it"),
    # NVIDIA/gpu-driver-container, issue 44: the module is there, and its key is not enrolled.
    ("gpu", {"gpu__module": False, **SECURE}, {}, "1 x T4", "Secure Boot is on, and the kernel loads no module whose key is not enrolled"),
    ("driver", {"driver__loaded": None, **SECURE}, {}, "one driver: loaded = installed = user space", "`mokutil --import`"),
    ("gpu", {"gpu__module": False, "secure_boot": {"unknown": "x"}}, {}, "1 x T4", "install the driver, or reboot into it"),
    ("gpu", {}, {"gpu__count": 2}, "2 x T4", "compare instance type"),
    (
        "gpu",
        two(good.GOOD, {}, LOST[2][0]),
        {"gpu__count": 2},
        "2 x T4",
        "drain the host; `sudo reboot`; where it comes again, stop and start the machine",
    ),
    ("gpu", NONE, {}, "1 x T4", "`journalctl -k -b | grep NVRM`"),
    *[
        ("gpu", {**NONE, **cause(kind)}, {}, "1 x T4", words)
        for kind, words in {
            "branch": "another one in stack.driver of the profile",
            "proprietary": "the open kernel modules require a GSP",
            "flavour": "this card requires the open kernel modules",
            "firmware": "the driver did not find its firmware",
            "address-space": "`Above 4G Decoding`",
            "other-driver": "`lspci -nnk -d 10de:`",
            "versions": "which no reboot cures",
            "reset": "reboot the host",
            "start": "power the host off and on again",
            "of-a-later-probe": "`journalctl -k -b | grep NVRM`",
        }.items()
    ],
    ("gpu", {**NONE, **VFIO}, {}, "1 x T4", "`lspci -nnk -d 10de:`"),
    # A display card beside the others (rapidsai/dask-cuda, issue 777), and another card instead of them.
    ("gpu", two(good.GOOD, {}, {"name": "NVIDIA DGX Display"}), {}, "1 x T4", "the cards of the profile are there, and others beside them"),
    ("gpu", two(good.GOOD, {}, {"name": "NVIDIA DGX Display"}), {"gpu__count": 2}, "2 x T4", "compare instance type"),
    ("gpu", DISPLAY, {}, "1 x T4", "`CUDA_VISIBLE_DEVICES=GPU-b36054ef-4009-8fab-1448-b522020ac506`"),
    ("gpu", gpu(name="NVIDIA H100 PCIe"), {"gpu__model": "h100"}, "1 x H100", "the profile asks for H100 SXM: a card for a PCIe slot has"),
    ("gpu", {"gpu__module": False, **cause("branch", LEGACY)}, {}, "1 x T4", "another one in stack.driver of the profile"),
    ("gpu", {"gpu__module": False, **SECURE, **cause("proprietary")}, {}, "1 x T4", "which this card does not have"),
    ("driver", {"driver__loaded": None, **cause("branch", LEGACY)}, {}, "one driver: loaded = installed = user space", "another one in"),
    *[("gpu", gpu(name=f"{maker}Graphics Device"), {}, "1 x T4", "it is older than the card") for maker in ("", "NVIDIA ")],
    ("gpu", {"gpu__readable": False}, {}, "1 x T4", "the modes of /dev/nvidia*"),
    ("gpu", {"gpu__nouveau": True}, {}, "1 x T4", "blacklist nouveau"),
    ("gpu", {"gpu__module": False}, {}, "1 x T4", "install the driver"),
    ("driver", {}, {}, "one driver: loaded = installed = user space", ""),
    ("driver", {}, {"stack__driver": "570"}, "one driver: loaded = installed = user space, branch 570", "install driver branch 570"),
    ("driver", {"driver__installed": "590.1"}, {}, ONE, "install both in one version"),  # NVML answers of 580.95.05
    ("driver", {**SILENT_SPACE, "driver__installed": "590.1", "fabric_on_disk": None}, {}, ONE, "a reboot is pending"),
    # The loaded one is older than both on disk: a reboot is pending, or came from an old initramfs.
    ("driver", UPGRADED, {}, ONE, "a reboot is pending"),
    ("driver", UPGRADED, {}, ONE, "`update-initramfs -u -k all`"),
    ("driver", MIXED, {}, ONE, "which no reboot cures"),
    ("driver", {**SILENT_SPACE, **SAID, "fabric_on_disk": None}, {}, ONE, "which no reboot cures"),
    ("driver", SILENT_SPACE, {}, ONE, "install the driver's user space, at exactly 580.95.05"),
    ("driver", {**SILENT_SPACE, "driver__nvidia_smi_said": "exit 12: x"}, {}, ONE, "install the driver's user space, at exactly 580.95.05"),
    ("driver", {**SILENT_SPACE, "driver__nvidia_smi_said": "exit 15: x"}, {}, ONE, "`journalctl -k -b | grep NVRM`"),
    ("driver-on-disk", MIXED, {}, BUILT, "which no reboot cures"),
    ("driver", {"driver__installed": None}, {}, "one driver: loaded = installed = user space", "modinfo"),
    ("driver-on-disk", {"modules__held": []}, {}, BUILT, "--role nvidia_driver"),
    ("driver-on-disk", {"modules__kernels": []}, {}, BUILT, "--role nvidia_driver"),
    ("driver-on-disk", {"modules__held": []}, SIGNED, NEWEST, "--role nvidia_driver"),
    ("driver", {"driver__loaded": None}, {}, "one driver: loaded = installed = user space", "reboot into it"),
    (
        "driver",
        {"driver__loaded": None},
        OWN,
        "one driver: loaded = installed = user space, branch 580, as the image has it",
        "name an image",
    ),
    (
        "driver",
        {},
        image_has(driver="570"),
        "one driver: loaded = installed = user space, branch 570, as the image has it",
        "name an image",
    ),
    ("driver-on-disk", {}, OWN, BOOTED, ""),
    ("driver-on-disk", {"modules__held": []}, OWN, BOOTED, "hold its packages in the image"),
    ("driver-on-disk", {"modules__installed__0__built": False}, OWN, BOOTED, "name an image"),
    ("driver-on-disk", BARE | {"modules__installed": []}, OWN, BOOTED, "modinfo nvidia"),
]

test_table = table(CASES)
test_texts = texts(TEXTS)
