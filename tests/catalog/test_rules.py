"""The rules of compatibility, and the two choices that are made beside them."""

import datetime as dt

import pytest

from provision.catalog import read
from provision.catalog.rules import ClockRequest, gcc_for, rules, wheel_cudnn

TODAY = dt.date(2026, 11, 21)
RULES = {rule.id: rule for rule in rules(TODAY)}
SYSTEMS = {s.key: s for s in read.systems().systems}
TOOLKITS = {t.version: t for t in read.toolkits().toolkits}
BRANCHES = {b.branch: b for b in read.driver().branches}


def test_a_rule_that_forbids_something_says_why_in_one_sentence() -> None:
    rule = RULES["driver-drives-gpu"]
    assert rule.holds(read.gpu("v100"), BRANCHES["580"])
    assert not rule.holds(read.gpu("v100"), BRANCHES["590"])
    assert rule.says(read.gpu("v100"), BRANCHES["590"]) == "driver 590 drives compute capability 7.5 to 12.1, and V100 is 7.0"


def test_only_advice_is_soft() -> None:
    soft = {rule.id for rule in RULES.values() if rule.soft}
    assert soft == {"driver-is-supported", "driver-is-not-older-than-toolkit", *(f"{name}-is-measured" for name in read.frameworks())}


def test_support_of_a_branch_ends_on_its_day() -> None:
    end = BRANCHES["580"].end_of_life
    assert end is not None
    for day, holds in ((end, True), (end + dt.timedelta(days=1), False)):
        rule = next(rule for rule in rules(day) if rule.id == "driver-is-supported")
        assert rule.holds(BRANCHES["580"]) is holds


@pytest.mark.parametrize(
    ("system", "toolkit", "gcc"), [("ubuntu 24.04", "12.5", 13), ("ubuntu 24.04", "12.2", 12), ("rocky 10", "12.6", None)]
)
def test_the_compiler_is_the_first_that_the_toolkit_accepts(system: str, toolkit: str, gcc: int | None) -> None:
    """CUDA 12.5 accepts gcc 13, which is Ubuntu 24.04's own; toolkits before it need an older one."""
    assert gcc_for(SYSTEMS[system], TOOLKITS[toolkit]) == gcc


def test_tensorflow_runs_on_volta_only_if_its_cudnn_is_held() -> None:
    """Its extra has a range that resolves to a cuDNN without Volta; on a T4 there is nothing to hold."""
    release = next(r for r in read.tensorflow().releases if r.version == "2.21.0")
    assert wheel_cudnn(read.gpu("v100"), release) == "9.10.2.21"
    assert wheel_cudnn(read.gpu("t4"), release) is None
    exact = next(r for r in read.tensorflow().releases if r.cudnn)
    assert wheel_cudnn(read.gpu("t4"), exact) == exact.cudnn


def test_clocks_read_as_a_person_writes_them() -> None:
    assert [str(ClockRequest("max")), str(ClockRequest("pair", 5001, 1590))] == ["max", "5001,1590 MHz"]
