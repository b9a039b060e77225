"""What the checks of settings say to which facts: a case for each outcome that each can have."""

import copy
from typing import Any

import pytest

from provision.structs import replace
from provision.verify.facts import Facts

from .. import good  # noqa: TID252 - the tests have no root package
from .table import Case, Text, gpu, table, texts, two

PERF = {"tier": "perf"}
NO_SYSTEMD = {"persistence_unit": {"unknown": "no systemd answers on this host"}}
GONE = {"persistence": {"unknown": "GPU is lost"}, "error": 15}
STOPPED = {**good.GOOD["persistence_unit"], "active": False}
SAID = {"lines": ["error: Failed to start x", "modprobe: FATAL: y"]}
NOT_RUNNING = "the daemon is not running (error: Failed to start x; modprobe: FATAL: y)"
DEPRECATED = {"unknown": "Requested functionality has been deprecated"}
NO_CLOCKS = gpu(app_memory_mhz=DEPRECATED, app_graphics_mhz=DEPRECATED)
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
    ("persistence", {"nvml__devices": []}, {}, "unknown", "NVML lists no device"),
    ("persistence", {}, {"gpu__persistence": False}, "not-applicable", ""),
    ("persistence", NO_SYSTEMD, {}, "unknown", "now on, at boot not observed: no systemd answers"),
    ("persistence", {**gpu(persistence=0), **NO_SYSTEMD}, {}, "fail", "=now off, at boot not observed: no systemd answers on this host"),
    ("persistence", {**gpu(persistence=0), "persistence_unit": {**STOPPED, **SAID}}, {}, "fail", f"=now off, at boot on, {NOT_RUNNING}"),
    (
        "persistence",
        {**gpu(persistence=0), "persistence_unit": {**STOPPED, "unread": "no rights"}},
        {},
        "fail",
        "(why was not seen: no rights)",
    ),
    # A host that just booted: nothing has failed yet.
    ("persistence", {**gpu(persistence=0), "persistence_unit": {**STOPPED, "starting": True}}, {}, "unknown", "its unit is still starting"),
    ("persistence", {"persistence_unit": {**STOPPED, "starting": True}}, {}, "pass", "now on"),
    ("application-clocks", {**gpu(app_graphics_mhz=585), "clocks_unit__starting": True}, {}, "unknown", "its unit is still starting"),
    ("application-clocks", {}, {}, "pass", "5001,1590"),
    ("application-clocks", {"nvml__devices__0__app_graphics_mhz": {"value": 585}}, {}, "fail", "5001,585"),
    (
        "application-clocks",
        {"nvml__devices__0__app_graphics_mhz": {"value": 585}},
        {"gpu__model": "h100"},
        "not-applicable",
        "=5001,1590 MHz are locked, which no function of the driver tells; --tier perf proves it. Now: memory 5001, SM 300 MHz",
    ),
    ("application-clocks", {"clocks_unit__enabled": False}, {}, "warn", "no unit"),
    ("application-clocks", {"nvml__devices__0__app_memory_mhz": {"unknown": "deprecated"}}, {}, "unknown", "deprecated"),
    # As a real T4 of g4dn says under driver 595.91.07 (NVIDIA/k8s-test-infra, hardware/qx-t4.xml), and an H100 under 590.48.01.
    ("application-clocks", {**NO_CLOCKS, "clocks_report__lines": None}, {}, "fail", "this driver has none, and no unit has locked the"),
    ("application-clocks", {**NO_CLOCKS, "clocks_report__lines": ["0 locked-graphics 5001 1590"]}, {}, "not-applicable", "are locked"),
    ("application-clocks", NO_CLOCKS, {}, "unknown", "deprecated"),
    ("application-clocks", {"nvml__devices": []}, {}, "unknown", "no device"),
    ("application-clocks", {}, {"gpu__application_clocks": "max"}, "pass", ""),
    ("application-clocks", {}, {"gpu__application_clocks": "default"}, "not-applicable", ""),
    ("persistence", two(good.GOOD, {"persistence": 1}, {"persistence": 0}), {}, "fail", "=now off, at boot on"),
    ("persistence", {"persistence_unit__exists": False}, {}, "warn", "at boot off"),
    ("application-clocks", {"clocks_unit__exists": False}, {}, "warn", "no unit"),
    ("persistence", two(good.GOOD, {"persistence": 0}, GONE), {}, "fail", "; the others: now off, at boot on"),
    ("persistence", two(good.GOOD, {}, GONE), {}, "unknown", "GPU 1: it has fallen off the bus"),
    ("application-clocks", two(good.GOOD, {}, {"app_graphics_mhz": 585}), {}, "fail", "=5001,1590 MHz, 5001,585 MHz"),
    ("clocks-held", {}, {"gpu__application_clocks": "default", "verify": PERF}, "not-applicable", "defaults"),
    ("clocks-held", {}, {"verify": PERF}, "unknown", ""),
    # Clocks are locked from compute capability 8.0 on: A100 is 8.0.
    ("application-clocks", gpu(app_graphics_mhz=585), {"gpu__model": "a100-40gb"}, "not-applicable", "are locked"),
    ("application-clocks", {"clocks_report__lines": ["0 locked-graphics 5001 1590"]}, {}, "not-applicable", "are locked"),
    ("application-clocks", {"clocks_report__lines": ["0 none 5001 1590"]}, {}, "fail", "=GPU 0: the card took none, as the unit says"),
    ("application-clocks", {"clocks_report__lines": ["0 none 5001 1590"]}, {"gpu__model": "h100"}, "fail", "took none"),
    ("application-clocks", {"clocks_report__lines": ["0 fast 5001 1590"]}, {}, "unknown", "malformed: '0 fast"),
    ("application-clocks", {"clocks_report__lines": None}, {}, "pass", "5001,1590"),
    ("application-clocks", {"clocks_report": None}, {}, "unknown", ""),
    ("application-clocks", gpu(app_graphics_mhz=585), {"gpu__model": "v100"}, "fail", "5001,585"),
    ("application-clocks", gpu(max_graphics_mhz=2000), {"gpu__application_clocks": "max"}, "fail", "=5001,1590 MHz"),
    ("application-clocks", gpu(max_graphics_mhz=2000), {}, "pass", "=5001,1590 MHz, set by a unit at boot"),
    ("persistence-at-boot", {}, {}, "pass", "=enabled: /usr/bin/nvidia-persistenced --persistence-mode"),
]
STARTED = "nvidia-persistenced is started at boot, and told to switch the mode on"
TEXTS: list[Text] = [
    # The daemon runs and is told to switch it on: something has switched it off since.
    ("persistence", gpu(persistence=0), {}, "persistence mode on now, and by the daemon at boot", "`sudo systemctl restart nvidia-persist"),
    (
        "persistence",
        {**gpu(persistence=0), "persistence_unit__enabled": False},
        {},
        "persistence mode on now, and by the daemon at boot",
        "without --no-persistence-mode",
    ),
    # Enabled is not running (ublue-os/ucore, issue 419): the option is right, and the hint must not say that it is not.
    (
        "persistence",
        {**gpu(persistence=0), "persistence_unit__active": False},
        {},
        "persistence mode on now, and by the daemon at boot",
        "the daemon is enabled and does not run: `journalctl -u nvidia-persistenced`",
    ),
    ("persistence", {**gpu(persistence=0), **NO_SYSTEMD}, {}, "persistence mode on now, and by the daemon at boot", "nvidia-smi -pm 1"),
    (
        "persistence",
        {"persistence_unit__enabled": False},
        {},
        "persistence mode on now, and by the daemon at boot",
        "lost at the next boot",
    ),
    ("application-clocks", {}, {"gpu__application_clocks": "max"}, "application clocks 5001,1590 MHz, set again at boot", ""),
    ("application-clocks", gpu(app_graphics_mhz=5), {}, "application clocks 5001,1590 MHz, set again at boot", "--role clocks"),
    ("clocks-at-boot", {"clocks_unit__exists": False}, {}, "gpuprov-clocks.service sets the clocks at boot", "--role clocks"),
    ("persistence-at-boot", {"persistence_unit__exists": False}, {}, STARTED, "--role persistence"),
    ("persistence-at-boot", {"persistence_unit__enabled": False}, {}, STARTED, "--role persistence"),
]

test_table = table(CASES)


# What tier perf saw of one H200, whose highest clocks are 3201 and 1980 MHz; a power cap held it at 1485 MHz (bit 4 of the reasons).
@pytest.mark.parametrize(
    ("load", "mode", "at_rest", "verdict"),
    [
        ({}, "locked", 1980, ("pass", "memory 3201, SM 1485 MHz, held down by power cap; SM 1980 MHz at rest")),
        ({}, "locked", 1965, ("pass", "1965 MHz at rest")),
        ({}, "locked", 1964, ("fail", "SM 1964 MHz at rest, so it is not locked")),
        ({}, "locked-graphics", 345, ("fail", "so it is not locked")),
        ({}, "application", 345, ("pass", "held down by power cap")),
        ({}, "locked", None, ("unknown", "not watched at rest")),
        ({"rest__users": ["4711 python"]}, "locked", 1980, ("unknown", "in use by 4711 python, so it did not rest")),
        ({"rest__users": ["4711 python"]}, "locked", 345, ("fail", "so it is not locked")),
        ({"rest__users": None}, "locked", 1980, ("unknown", "may not have rested")),
        ({"rest": None}, "locked", 1980, ("unknown", "not watched at rest")),
        ({"rest": None}, "application", 1980, ("pass", "held down by power cap")),
        ({"reasons": {}}, "locked", 1980, ("fail", "although nothing holds it down")),
        ({"reasons": {"4": 0.1}}, "locked", 1980, ("fail", "although nothing holds it down")),
        ({"reasons": {}, "sm_mhz": 1965}, "locked", 1980, ("pass", "SM 1965 MHz; SM 1980")),
        ({"top_sm_mhz": 1995}, "locked", 1980, ("pass", "")),
        ({"top_sm_mhz": 1996}, "locked", 1980, ("fail", "up to 1996")),
        ({"memory_mhz": 2619}, "locked", 1980, ("fail", "memory 2619")),
        ({"memory_mhz": 3186}, "locked", 1980, ("pass", "memory 3186")),
        ({"memory_mhz": 3185}, "locked", 1980, ("fail", "memory 3185")),
        ({"memory_mhz": None}, "locked", 1980, ("unknown", "no clocks under load")),
        ({"sm_mhz": None}, "locked", 1980, ("unknown", "no clocks under load")),
        ({"top_sm_mhz": None}, "locked", 1980, ("unknown", "no clocks under load")),
    ],
)
def test_clocks_are_held_where_they_show_under_load_and_at_rest(
    load: dict[str, Any], mode: str, at_rest: int | None, verdict: tuple[str, str]
) -> None:
    changed = {name if name.startswith("rest") else f"load__{name}": value for name, value in load.items()}
    result = good.finding("clocks-held", h200(mode, at_rest, **changed), H200)
    assert (result.outcome, verdict[1] in result.observed) == (verdict[0], True), result
    assert verdict[0] == "unknown" or result.expected == HELD
    assert bool(result.hint) == (verdict[0] != "pass")


HELD = "the clocks of the profile, under load and at rest: memory 3201, SM 1980 MHz"
H200 = good.profile(gpu__model="h200", gpu__application_clocks="max", verify=PERF)


def h200(mode: str, at_rest: int | None = 1980, *, gpus: int = 1, **changed: Any) -> Facts:
    raw = dict(good.under_load(gpus=gpus, **{"rest__sm_mhz": at_rest, **changed}).raw)
    card = copy.deepcopy(raw["nvml"])
    card["value"]["devices"][0] |= {"max_memory_mhz": {"value": 3201}, "max_graphics_mhz": {"value": 1980}}
    report = {"value": {"lines": [f"0 {mode} 3201 1980"]}}
    return replace(good.under_load(gpus=gpus), raw={**raw, "nvml": card, "clocks_report": report})


def test_a_gpu_that_was_not_measured_is_no_proof_of_its_clocks() -> None:
    result = good.finding("clocks-held", h200("locked", gpus=2), H200)
    assert (result.outcome, result.expected, result.observed) == ("unknown", HELD, "2 of 1 GPUs were measured")


def test_without_the_units_report_a_card_that_can_lock_both_clocks_must_have_locked_them() -> None:
    facts = h200("locked", 345)
    silent = replace(facts, raw={**facts.raw, "clocks_report": {"value": {"lines": None}}})
    assert good.finding("clocks-held", silent, H200).outcome == "fail"
    assert good.finding("clocks-held", silent, good.profile(gpu__application_clocks="max", verify=PERF)).outcome == "pass"
    assert good.finding("clocks-held", silent, good.profile(gpu__application_clocks="default", verify=PERF)).outcome == "not-applicable"


test_texts = texts(TEXTS)
