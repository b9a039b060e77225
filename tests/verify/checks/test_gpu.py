"""What the checks of gpu say to which facts: a case for each outcome that each can have."""

from .. import good  # noqa: TID252 - the tests have no root package
from .table import Case, table

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
    ("driver-on-disk", {}, {}, "pass", "6.8.0-1030-aws built; held: nvidia-dkms-open"),
    ("driver-on-disk", {"gpu": good.NO_GPU}, {}, "pass", "built"),
    ("driver-on-disk", {"modules__kernels": []}, {}, "fail", "no kernel has headers"),
    ("driver-on-disk", {"modules__kernels__0__built": False}, {}, "fail", "NOT built"),
    ("driver-on-disk", {"modules__held": ["tmux"]}, {}, "warn", "nothing of the driver"),
    ("driver-on-disk", {"modules": None}, {}, "unknown", ""),
]

test_table = table(CASES)
