"""The verdict on a group, from tables of what hosts say."""

from __future__ import annotations

from typing import Any

import pytest

from provision.errors import UsageError
from provision.verify.facts import Facts
from provision.verify.together.judge import GroupHost, judge_group
from provision.verify.together.measure import HostAnswer
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


def test_with_gpus_the_all_reduce_is_unknown_and_never_a_pass() -> None:
    gpu = good.GOOD["gpu"]
    assert outcomes(gpu=gpu, b={"gpu": gpu}) == {**GOOD, "all-reduce": "unknown"}


def test_what_a_host_did_not_say_is_unknown() -> None:
    hosts = [GroupHost("a", "1", facts("a")), GroupHost("b", "1", None)]
    report = judge_group(hosts, {"a": answer("a", "b"), "b": "it ended the session"}, observed_at="")
    assert {finding.check: finding.outcome for finding in report.findings} == {**dict.fromkeys(GOOD, "unknown"), "same-lock": "pass"}
    assert report.exit_code() == 3


def test_a_group_has_two_hosts() -> None:
    with pytest.raises(UsageError, match="--together is about 2 to 64 hosts"):
        judge_together([], 10)
