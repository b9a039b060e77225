"""What changed since evidence was made: the kind of every pair of outcomes, hosts by name, and runs that cannot be compared."""

from typing import Any

import pytest

from provision.errors import UsageError
from provision.host.ssh import Target
from provision.verify.checks import CHECKS
from provision.verify.drift import MEASURING, any_broke, drifts, require_comparable
from provision.verify.evidence import Conditions, Evidence, HostEvidence
from provision.verify.finding import Finding, Outcome, Report
from provision.verify.fleet import REACHABLE, Expectation, HostVerification
from provision.verify.reviewed import Reviewed

from . import good

CONDITIONS = Conditions(on="2026-11-21")


def report(host: str = "h", **findings: tuple[Any, str]) -> Report:
    checks = (Finding(check.replace("_", "-"), "t", outcome, "e", observed) for check, (outcome, observed) in findings.items())
    return Report(host, "p", tuple(checks))


def evidence(*reports: Report, review: Reviewed | None = None) -> Evidence:
    hosts = tuple(HostEvidence(one.host, one, None, {}, None, {}) for one in reports)
    return Evidence(hosts, "gpuprov", CONDITIONS, review, "0" * 64)


def now(*reports: Report) -> list[HostVerification]:
    return [HostVerification(Expectation(Target(one.host, ""), good.PROFILE), one, None) for one in reports]


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (("pass", "a"), ("fail", "b"), "broke"),
        (("waived", "a"), ("unknown", "b"), "broke"),
        (("fail", "a"), ("pass", "b"), "mended"),
        (("unknown", "a"), ("not-applicable", "b"), "mended"),
        (("pass", "a"), ("warn", "b"), "moved"),
        (("fail", "a"), ("unknown", "b"), "moved"),
        (("pass", "a"), ("pass", "b"), "observed"),
        (("pass", "a"), ("pass", "a"), None),
    ],
)
def test_each_pair_of_outcomes_has_its_kind(before: tuple[Outcome, str], after: tuple[Outcome, str], kind: str | None) -> None:
    result = drifts(evidence(report(gcc=before)), now(report(gcc=after)))
    assert [drift.kind for drift in result] == ([kind] if kind else [])
    assert any_broke(result) == (kind == "broke")
    if kind:
        assert str(result[0]) == f"h: gcc {kind}: {before[0]}: {before[1]} → {after[0]}: {after[1]}"


def test_a_check_made_only_once_is_new_or_gone_and_what_broke_comes_first() -> None:
    old = evidence(report(tmux=("pass", "a"), gcc=("pass", "a"), os=("fail", "a")))
    result = drifts(old, now(report(gcc=("fail", "b"), os=("pass", "b"), driver=("fail", "b"), ffmpeg=("pass", "b"))))
    assert [(drift.check, drift.kind) for drift in result] == [
        ("gcc", "broke"),
        ("tmux", "gone"),
        ("driver", "new"),
        ("os", "mended"),
        ("ffmpeg", "mended"),
    ]
    assert str(result[1]) == "h: tmux gone: pass: a → not checked"


def test_of_a_measuring_check_figures_alone_are_no_change() -> None:
    before, after = ("pass", "41 °C, 12.5 W"), ("pass", "43 °C, 13 W")
    assert drifts(evidence(report(gpu_health=before)), now(report(gpu_health=after))) == []
    assert [d.kind for d in drifts(evidence(report(gcc=before)), now(report(gcc=after)))] == ["observed"]
    assert {check.id for check in CHECKS} >= MEASURING


def test_a_host_that_cannot_be_reached_broke_once_and_not_check_by_check() -> None:
    unreachable = report(reachable=("unknown", "host-unreachable: gone"))
    held = report(gcc=("pass", "a"), tmux=("pass", "a"))
    assert [(d.check, d.kind) for d in drifts(evidence(held), now(unreachable))] == [(REACHABLE, "broke")]
    assert {(d.check, d.kind) for d in drifts(evidence(unreachable), now(held))} == {
        (REACHABLE, "mended"),
        ("gcc", "mended"),
        ("tmux", "mended"),
    }


def test_a_single_host_may_have_another_name_and_several_are_compared_by_name() -> None:
    one, other = report("one", gcc=("pass", "a")), report("other", gcc=("fail", "b"))
    assert [d.host for d in drifts(evidence(one), now(other))] == ["other"]
    assert drifts(evidence(one, other), now(other, one)) == []
    with pytest.raises(UsageError, match="no 'third' in the evidence") as caught:
        drifts(evidence(one, other), now(report("third")))
    assert caught.value.hint == "it has 'one', 'other'"


def test_another_choice_of_checks_or_another_review_cannot_be_compared() -> None:
    review = Reviewed(statement="1" * 64, profile="2" * 64, lock="3" * 64, required=0, counted=0, approvals=())
    require_comparable(evidence(), CONDITIONS.model_copy(update={"on": "2026-12-01", "strict": True}), None)
    require_comparable(evidence(review=review), CONDITIONS, review.statement)
    with pytest.raises(UsageError, match="tier was None, without_gpu was False"):
        require_comparable(evidence(), Conditions(tier="quick", without_gpu=True, on=CONDITIONS.on), None)
    with pytest.raises(UsageError, match="belongs to another review"):
        require_comparable(evidence(review=review), CONDITIONS, "4" * 64)
