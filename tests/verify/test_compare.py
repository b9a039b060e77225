"""Two observations side by side: what differs, and what a reboot lost."""

import datetime as dt
from typing import Any

import pytest

from provision.verify.compare import changes, losses
from provision.verify.facts import Facts, NotObservedError
from provision.verify.judge import judge

from . import good


def test_what_differs_at_each_look_is_no_difference_between_two_of_them() -> None:
    idle = {"event_reasons": {"value": 1}, "pcie_generation": {"value": 1}}
    busy = {"event_reasons": {"value": 0}, "pcie_generation": {"value": 3}}
    one, other = (
        good.facts(clock__up_s=up_s, **{f"nvml__devices__0__{name}": value for name, value in readings.items()})
        for up_s, readings in ((1.0, idle), (2.0, busy))
    )
    assert changes(one, other) == []
    assert changes(one, good.facts(nvml__devices__0__pcie_width={"value": 4}, clock__up_s=1.0)) == [
        "nvml.devices.0.pcie_width.value: 8 → 4"
    ]


def test_a_difference_is_one_line_that_can_be_printed_whatever_the_host_sent() -> None:
    sent = good.facts(tool_gcc={"unknown": "\x1b[2J\x00\ud800\nx é"})
    assert changes(good.facts(tool_gcc=None), sent) == ["tool_gcc.unknown: nothing → �[2J���x é"]


def test_what_only_one_of_them_has_and_an_unknown_fact_are_named() -> None:
    assert changes(good.facts(tool_gcc=None), good.facts(tool_gcc={"unknown": "it hung"})) == ["tool_gcc.unknown: nothing → it hung"]


def rebooted(**changed: Any) -> Facts:
    return good.facts(identity__boot_id="another", **changed)


def lost_between(old: Facts, new: Facts) -> list[str]:
    before, after = (judge(facts, good.PROFILE, today=dt.date(2026, 11, 21)) for facts in (old, new))
    return losses(before, old, after, new)


def test_only_what_held_before_the_reboot_can_be_lost_by_it() -> None:
    old = good.facts(tool_tmux__found=None)
    new = rebooted(tool_tmux__found=None, tool_gcc__found=None, persistence_unit={"unknown": "no systemd"})
    lines = lost_between(old, new)
    assert [line.split(" ", 1)[0] for line in lines] == ["gcc", "persistence-at-boot", "persistence"]
    assert all(" did not survive the reboot: " in line for line in lines)
    assert lost_between(old, rebooted(tool_tmux__found=None)) == []


def test_without_a_reboot_or_without_a_boot_id_nothing_can_be_said() -> None:
    with pytest.raises(NotObservedError, match="same boot"):
        lost_between(good.facts(), good.facts())
    with pytest.raises(NotObservedError):
        lost_between(good.facts(), good.facts(identity={"unknown": "it hung"}))
