"""What the checks of settings say to which facts: a case for each outcome that each can have."""

from .. import good  # noqa: TID252 - the tests have no root package
from .table import Case, Text, gpu, table, texts, two

CASES: list[Case] = [
    ("persistence-at-boot", {"gpu": good.NO_GPU}, {}, "pass", "--persistence-mode"),
    (
        "persistence-at-boot",
        {"persistence_unit__command": "nvidia-persistenced --no-persistence-mode"},
        {},
        "fail",
        "--no-persistence-mode",
    ),
    ("persistence-at-boot", {"persistence_unit__command": "nvidia-persistenced"}, {}, "fail", "enabled"),
    ("persistence-at-boot", {"persistence_unit__enabled": False}, {}, "fail", "not enabled"),
    ("persistence-at-boot", {"persistence_unit__exists": False}, {}, "fail", "no such unit"),
    ("persistence-at-boot", {"persistence_unit": None}, {}, "unknown", ""),
    ("persistence-at-boot", {}, {"gpu__persistence": False}, "not-applicable", ""),
    ("clocks-at-boot", {"gpu": good.NO_GPU}, {}, "pass", "enabled"),
    ("clocks-at-boot", {"clocks_unit__enabled": False}, {}, "fail", "not enabled"),
    ("clocks-at-boot", {"clocks_unit__exists": False}, {}, "fail", "no such unit"),
    ("clocks-at-boot", {"clocks_unit": None}, {}, "unknown", ""),
    ("clocks-at-boot", {}, {"gpu__application_clocks": "default"}, "not-applicable", ""),
    ("persistence", {}, {}, "pass", "now on, at boot on"),
    ("persistence", {"nvml__devices__0__persistence": {"value": 0}}, {}, "fail", "now off"),
    ("persistence", {"persistence_unit__command": "nvidia-persistenced --no-persistence-mode"}, {}, "warn", "at boot off"),
    ("persistence", {"persistence_unit__enabled": False}, {}, "warn", "at boot off"),
    ("persistence", {"nvml__devices__0__persistence": {"unknown": "Not Supported"}}, {}, "unknown", "Not Supported"),
    ("persistence", {"nvml__devices": []}, {}, "fail", ""),
    ("persistence", {}, {"gpu__persistence": False}, "not-applicable", ""),
    ("application-clocks", {}, {}, "pass", "5001,1590"),
    ("application-clocks", {"nvml__devices__0__app_graphics_mhz": {"value": 585}}, {}, "fail", "5001,585"),
    (
        "application-clocks",
        {"nvml__devices__0__app_graphics_mhz": {"value": 585}},
        {"gpu__model": "h100"},
        "unknown",
        "locked instead",
    ),
    ("application-clocks", {"clocks_unit__enabled": False}, {}, "warn", "no unit"),
    ("application-clocks", {"nvml__devices__0__app_memory_mhz": {"unknown": "deprecated"}}, {}, "unknown", "deprecated"),
    ("application-clocks", {"nvml__devices": []}, {}, "unknown", "no device"),
    ("application-clocks", {}, {"gpu__application_clocks": "max"}, "pass", ""),
    ("application-clocks", {}, {"gpu__application_clocks": "default"}, "not-applicable", ""),
    ("persistence", two(good.GOOD, {"persistence": 1}, {"persistence": 0}), {}, "fail", "=now off, at boot on"),
    ("persistence", {"persistence_unit__exists": False}, {}, "warn", "at boot off"),
    ("application-clocks", {"clocks_unit__exists": False}, {}, "warn", "no unit"),
    ("application-clocks", two(good.GOOD, {}, {"app_graphics_mhz": 585}), {}, "fail", "=5001,1590 MHz, 5001,585 MHz"),
    # Clocks are locked from compute capability 8.0 on: A100 is 8.0.
    ("application-clocks", gpu(app_graphics_mhz=585), {"gpu__model": "a100-40gb"}, "unknown", "locked instead"),
    ("application-clocks", gpu(app_graphics_mhz=585), {"gpu__model": "v100"}, "fail", "5001,585"),
    ("application-clocks", gpu(max_graphics_mhz=2000), {"gpu__application_clocks": "max"}, "fail", "=5001,1590 MHz"),
]
TEXTS: list[Text] = [
    ("persistence", gpu(persistence=0), {}, "persistence mode on now, and by the daemon at boot", "without --no-persistence-mode"),
    (
        "persistence",
        {"persistence_unit__enabled": False},
        {},
        "persistence mode on now, and by the daemon at boot",
        "lost at the next boot",
    ),
    ("application-clocks", {}, {"gpu__application_clocks": "max"}, "application clocks 5001,1590 MHz, set again at boot", ""),
    ("application-clocks", gpu(app_graphics_mhz=5), {}, "application clocks 5001,1590 MHz, set again at boot", "nvidia-smi -ac"),
    ("clocks-at-boot", {"clocks_unit__exists": False}, {}, "gpuprov-clocks.service sets the clocks at boot", "--role clocks"),
]

test_table = table(CASES)
test_texts = texts(TEXTS)
