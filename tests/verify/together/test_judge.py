"""The verdict on a group, from tables of what hosts say."""

from __future__ import annotations

from typing import Any

import pytest

from provision.errors import UsageError
from provision.verify.facts import Facts
from provision.verify.judge import Selection
from provision.verify.together.judge import GroupHost, judge_group
from provision.verify.together.measure import HostAnswer
from provision.verify.together.sums import SumAnswer, SumFigures
from provision.workflow.verify import judge_together
from tests.verify import good

PEER: dict[str, Any] = {"clock": {"ahead_s": 0.001, "error_s": 0.0005}, "tcp": "", "ssh": "", "small": True, "large": True}
ADDRESS = {"a": "10.0.0.11", "b": "10.0.0.12"}


def facts(name: str, **changes: Any) -> Facts:
    named = {"machine__address": ADDRESS[name], "machine__hostname": f"host-{name}", "gpu": good.NO_GPU}
    return good.facts(**{**named, **changes})


def answer(of: str, other: str, own: dict[str, Any] | None = None, **changes: Any) -> HostAnswer:
    peer = {**PEER, "resolved": [ADDRESS[other]], **changes}
    return HostAnswer.model_validate({"peers": {other: peer}, "own": [ADDRESS[of]], "efa": None, **(own or {})})


def outcomes(
    *, locks: tuple[str | None, str | None] = ("1", "1"), b: dict[str, Any] | None = None, own: dict[str, Any] | None = None, **changes: Any
) -> dict[str, str]:
    hosts = [GroupHost("a", locks[0], facts("a", **changes)), GroupHost("b", locks[1], facts("b", **(b or changes)))]
    answers: dict[str, HostAnswer | str] = {"a": answer("a", "b", own, **PEERS.get("a", {})), "b": answer("b", "a", own)}
    report = judge_group(hosts, answers, observed_at="2026-11-23T00:00:00Z")
    return {finding.check: finding.outcome for finding in report.findings}


PEERS: dict[str, dict[str, Any]] = {}
GOOD = {
    "same-lock": "pass",
    "clocks-agree": "pass",
    "names-resolve": "pass",
    "ports-open": "pass",
    "mtu": "pass",
    "rdma": "not-applicable",
    "all-reduce": "not-applicable",
}


def test_a_good_group_holds() -> None:
    assert outcomes() == GOOD


@pytest.mark.parametrize(("locks", "outcome"), [(("1", "2"), "fail"), ((None, "1"), "unknown")])
def test_the_locks_are_one(locks: tuple[str | None, str | None], outcome: str) -> None:
    assert outcomes(locks=locks) == {**GOOD, "same-lock": outcome}


@pytest.mark.parametrize(
    ("changes", "worse"),
    [
        ({"clock": {"ahead_s": -0.06, "error_s": 0.001}}, {"clocks-agree": "fail"}),
        ({"clock": {"ahead_s": 0.045, "error_s": 0.01}}, {"clocks-agree": "unknown"}),
        ({"clock": {"ahead_s": 0.3, "error_s": 0.28}}, {"clocks-agree": "unknown"}),
        ({"clock": None, "tcp": "timed out"}, {"clocks-agree": "unknown", "ports-open": "fail"}),
        ({"ssh": "refused"}, {"ports-open": "fail"}),
        ({"small": False, "large": None}, {"ports-open": "fail", "mtu": "unknown"}),
        ({"large": False}, {"mtu": "fail"}),
        ({"resolved": []}, {"names-resolve": "fail"}),
        ({"resolved": ["10.0.0.99"]}, {"names-resolve": "fail"}),
    ],
)
def test_what_one_host_finds_of_another_counts(monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], worse: dict[str, str]) -> None:
    monkeypatch.setitem(PEERS, "a", changes)
    assert outcomes() == {**GOOD, **worse}


def test_a_host_that_announces_its_loopback_is_a_warning() -> None:
    assert outcomes(own={"own": ["127.0.1.1"]}) == {**GOOD, "names-resolve": "warn"}


@pytest.mark.parametrize(
    ("efa", "there", "outcome"),
    [(True, ["efa0"], "pass"), (False, ["efa0"], "fail"), (None, ["efa0"], "unknown"), (True, [], "fail")],
)
def test_rdma_devices_are_the_same_and_work(efa: bool | None, there: list[str], outcome: str) -> None:  # noqa: FBT001
    found = outcomes(machine__rdma=["efa0"], b={"machine__rdma": there}, own={"efa": efa})
    assert found == {**GOOD, "rdma": outcome}


def test_what_a_host_did_not_say_is_unknown() -> None:
    hosts = [GroupHost("a", "1", facts("a")), GroupHost("b", "1", None)]
    report = judge_group(hosts, {"a": answer("a", "b"), "b": "it ended the session"}, observed_at="")
    assert {finding.check: finding.outcome for finding in report.findings} == {**dict.fromkeys(GOOD, "unknown"), "same-lock": "pass"}
    assert report.exit_code() == 3


def test_a_group_has_two_hosts() -> None:
    with pytest.raises(UsageError, match="--together is about 2 to 64 hosts"):
        judge_together([], Selection(), 10, python=str)


# What the worker measured on 2026-11-23 between four processes over gloo, all of them well, and with the third stopped 80 % of the time.
WELL = [{3: 1.451, 2: 1.447, 1: 1.434}, {2: 1.316, 3: 1.609, 0: 1.343}, {1: 1.237, 0: 1.512, 3: 1.340}, {0: 1.458, 1: 1.601, 2: 1.333}]
STOPPED = [{3: 1.621, 2: 0.183, 1: 1.722}, {2: 0.186, 3: 1.976, 0: 1.681}, {1: 0.188, 0: 0.183, 3: 0.184}, {0: 1.601, 1: 1.976, 2: 0.184}]


def sums(*pairs: dict[int, float], **changes: SumAnswer | str) -> dict[str, SumAnswer | str]:
    told = {
        name: SumAnswer(figures=SumFigures(pairs={str(k): v for k, v in each.items()}, together=0.5, right=True), why="")
        for name, each in zip("abcd", pairs, strict=False)
    }
    return {**told, **changes}


def all_reduce(names: str, found: dict[str, SumAnswer | str] | None) -> tuple[str, str]:
    hosts = [GroupHost(name, "1", good.facts(machine__address=f"10.0.0.{at}")) for at, name in enumerate(names)]
    report = judge_group(hosts, {}, found, observed_at="2026-11-23T00:00:00Z")
    (finding,) = (finding for finding in report.findings if finding.check == "all-reduce")
    return finding.outcome, finding.observed


def test_hosts_whose_sums_are_alike_pass_with_their_figures() -> None:
    assert all_reduce("abcd", sums(*WELL)) == ("pass", "0.5 GB/s over all, 1.34 to 1.46 GB/s in pairs")


def test_the_slow_host_is_named_and_no_other() -> None:
    outcome, said = all_reduce("abcd", sums(*STOPPED))
    assert (outcome, said.startswith("c reaches 0.184 GB/s with the others, 11% of what is usual here; ")) == ("fail", True), said
    assert " reaches " not in said.split(";", 1)[1]


def test_a_host_just_above_the_bound_is_not_slow() -> None:
    assert all_reduce("abc", sums({1: 1.0}, {0: 1.0}, {0: 0.81}))[0] == "pass"
    assert all_reduce("abc", sums({1: 1.0}, {0: 1.0}, {0: 0.79}))[0] == "fail"


def test_two_hosts_do_not_tell_which_of_them_is_slow() -> None:
    outcome, said = all_reduce("ab", sums({1: 11.2}, {0: 11.2}))
    assert (outcome, "11.2 GB/s" in said) == ("unknown", True)


def test_a_wrong_sum_is_a_failure_whatever_its_speed() -> None:
    bad = SumAnswer(figures=SumFigures(pairs={"0": 1.7}, together=0.5, right=False), why="")
    assert all_reduce("abcd", sums(*WELL, d=bad)) == ("fail", "the sum is wrong on d")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (sums(*WELL[:2]), "c: it was not asked"),
        (sums(*WELL, b="the connection was lost"), "b: the connection was lost"),
        (sums(*WELL, b=SumAnswer(figures=None, why="no module named torch")), "b: no module named torch"),
        ({}, "a: it was not asked"),
    ],
)
def test_what_a_host_did_not_measure_is_unknown(found: dict[str, SumAnswer | str], words: str) -> None:
    assert all_reduce("abc", found) == ("unknown", words)


def test_a_lower_tier_does_not_measure_sums() -> None:
    outcome, said = all_reduce("ab", None)
    assert (outcome, "--tier perf" in said) == ("not-applicable", True)


PORT: dict[str, Any] = {
    "name": "mlx5_0/1",
    "kind": "mlx5_core 0x1021",
    "state": "4: ACTIVE",
    "phys_state": "5: LinkUp",
    "link_layer": "InfiniBand",
    "active": True,
    "gb_s": 400.0,
    "errors": {"link_downed": 0, "symbol_error": 7},
    "grown": [],
}
OTHER = {**PORT, "name": "mlx5_1/1"}
POLLING = {"active": False, "state": "1: DOWN", "phys_state": "2: Polling"}
PROPRIETARY = {"gsp": {"modules": "proprietary", "on_disk": None}}


@pytest.mark.parametrize(
    ("ports", "changes", "outcome", "words"),
    [
        ([PORT, OTHER], {}, "pass", "4 active in all"),
        (
            [{**PORT, "active": False, "state": "2: INIT"}, OTHER],
            {},
            "fail",
            "a: mlx5_0/1 is 2: INIT: the link is up, and no subnet manager",
        ),
        # A port without a cable polls as well: others that work, and no link that went down, make it an unused one.
        ([{**PORT, **POLLING}, OTHER], {}, "pass", "2 active in all"),
        ([{**PORT, **POLLING, "errors": {"link_downed": 1}}, OTHER], {}, "fail", "a: mlx5_0/1 is 1: DOWN, 2: Polling: look at its cable"),
        ([{**PORT, **POLLING}], {}, "fail", "mlx5_0/1 is 1: DOWN"),
        ([{**PORT, **POLLING, "phys_state": "3: Disabled", "errors": {"link_downed": 4}}, OTHER], {}, "pass", "2 active in all"),
        (
            [{**PORT, "gb_s": 200.0}, OTHER],
            {},
            "warn",
            "a: mlx5_0/1 runs at 200 Gb/s, and another of its model at 400",
        ),
        ([{**PORT, "kind": "mlx5_core 0x101b", "gb_s": 200.0}, OTHER], {}, "pass", "4 active in all"),
        ([{**PORT, "grown": ["symbol_error"]}, OTHER], {}, "warn", "a: mlx5_0/1 has errors that grow: symbol_error 7"),
        ([PORT, OTHER], PROPRIETARY, "warn", "the driver was built without it for this kernel"),
        ([PORT, OTHER], {"kernel__release": "5.10.0-30-amd64"}, "warn", "a: no nvidia_peermem, so that data of GPUs goes through"),
        ([PORT, OTHER], {**PROPRIETARY, "rdma__peermem": "built"}, "warn", "`sudo modprobe nvidia_peermem`"),
        ([PORT, OTHER], {**PROPRIETARY, "rdma__peermem": "loaded"}, "pass", "4 active in all"),
        ([{**PORT, "kind": "efa 0xefa1"}], PROPRIETARY, "fail", "libfabric finds no EFA on a, b"),
    ],
)
def test_ports_are_judged_by_their_state_their_siblings_and_the_way_to_the_memory_of_gpus(
    ports: list[dict[str, Any]], changes: dict[str, Any], outcome: str, words: str
) -> None:
    told = {"machine__rdma": ["mlx5_0"], "rdma__ports": ports, **changes}
    hosts = [GroupHost(name, "1", facts(name, **told)) for name in "ab"]
    answers = {"a": answer("a", "b", {"efa": False}), "b": answer("b", "a", {"efa": False})}
    report = judge_group(hosts, answers, observed_at="2026-11-23T00:00:00Z")
    (finding,) = (finding for finding in report.findings if finding.check == "rdma")
    assert (finding.outcome, words in finding.observed) == (outcome, True), finding
