"""What a review says of the fleet that a profile plans."""

import json
from pathlib import Path

import pytest

from provision.review import against, markdown, page
from provision.review.content import content
from provision.review.tree import Review

from .examples import changed, review

ROLE = ("    market: on-demand # spot", "    identity: {instance_profile: gpu-node}\n    market: on-demand # spot")
STORE = ("  deadline_h: 12", "  deadline_h: 12\nfleet: {store: s3://a-store/x}")
LIMITED = ("  deadline_h: 12", "  deadline_h: 12\n  machines: 8\nfleet: {store: s3://a-store/x}")


def reviewed(folder: Path, *changes: tuple[str, str]) -> Review:
    return content(*changed(folder, *changes))


def test_the_members_policy_and_the_price_of_the_largest_size_stand_in_the_review(tmp_path: Path) -> None:
    made = reviewed(tmp_path, ROLE, LIMITED)
    fleet = made.fleet
    assert fleet is not None
    first = next(place for place in made.places if not place.passed_over)
    assert first.usd_per_hour is not None
    assert fleet.usd_per_hour == pytest.approx(8 * first.usd_per_hour, abs=0.001)
    assert fleet.usd_to_deadline == pytest.approx(8 * 12 * first.usd_per_hour, abs=0.01)
    assert (fleet.cloud, fleet.region, fleet.identity, fleet.largest) == (first.cloud, first.region, "gpu-node", 8)
    assert "arn:aws:s3:::a-store/x/evidence/t4-train/${aws:userid}/*" in json.dumps(fleet.member)
    assert "autoscaling:CreateAutoScalingGroup" in json.dumps(fleet.caller)
    assert made.questions[-1].id == "fleet"
    for shown in (page.render(made), markdown.render(made)):
        assert "arn:aws:s3:::a-store/x/bundles/*" in shown
        assert "autoscaling:PutScheduledUpdateGroupAction" in shown
    assert {risk.id for risk in made.risks} - {risk.id for risk in reviewed(tmp_path, ROLE).risks} == {
        "fleet-replaces", "fleet-reach", "fleet-store", "fleet-members",
    }  # fmt: skip


def test_a_fleet_of_any_size_weighs_more_than_a_launch_of_any_size(tmp_path: Path) -> None:
    def weight(made: Review) -> dict[str, str]:
        return {risk.id: risk.severity for risk in made.risks if risk.id == "machines"}

    assert weight(reviewed(tmp_path, ROLE, STORE)) == {"machines": "medium"}
    assert weight(review()) == {"machines": "note"}
    assert weight(reviewed(tmp_path, ROLE, LIMITED)) == {}
    fleet = reviewed(tmp_path, ROLE, STORE).fleet
    assert fleet is not None
    assert (fleet.largest, fleet.usd_per_hour, fleet.usd_to_deadline) == (None, None, None)


def test_a_fleet_that_cannot_be_made_is_a_risk_and_no_policy_is_shown(tmp_path: Path) -> None:
    made = reviewed(tmp_path, LIMITED)
    assert made.fleet is not None
    assert "`identity: none`" in made.fleet.refusal
    assert (made.fleet.member, made.fleet.caller) == ({}, {})
    (risk,) = (risk for risk in made.risks if risk.id == "fleet-refused")
    assert (risk.severity, risk.key, risk.written) == ("medium", "fleet", True)
    assert "It cannot be made" in page.render(made)


def test_a_profile_without_a_fleet_has_none_in_its_review() -> None:
    made = review()
    assert made.fleet is None
    assert "fleet" not in {question.id for question in made.questions}
    assert 'id="fleet"' not in page.render(made)


def test_against_names_what_changed_of_a_fleet(tmp_path: Path) -> None:
    def told(old: Review, new: Review) -> list[tuple[str, str]]:
        return [(shift.direction, shift.text) for shift in against.shifts(old, new) if shift.subject == "fleet"]

    without, one = reviewed(tmp_path, ROLE), reviewed(tmp_path, ROLE, LIMITED)
    other = reviewed(tmp_path, ROLE, (LIMITED[0], LIMITED[1].replace("a-store/x", "b-store")))
    role = reviewed(tmp_path, (ROLE[0], ROLE[1].replace("gpu-node", "gpu-more")), LIMITED)
    assert told(one, one) == []
    assert told(without, one) == [("wider", "a fleet may be launched, with its store at s3://a-store/x")]
    assert told(one, without) == [("narrower", "no fleet may be launched")]
    assert told(one, other) == [
        ("other", "store: s3://a-store/x → s3://b-store"),
        ("other", "the policy document of the members differs"),
    ]
    assert ("other", "identity of the members: gpu-node → gpu-more") in told(one, role)
    assert told(one, reviewed(tmp_path, LIMITED))[0][1].startswith("members: g4dn.xlarge on-demand in aws")
