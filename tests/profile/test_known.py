"""What the catalog, the list of checks and the calendar say about a profile."""

import copy
import datetime as dt
from typing import Any

import pytest
import yaml

from provision import paths
from provision.profile import known
from provision.profile.model import Profile
from provision.profile.plain import Complaint, ComplaintKind

GOOD: dict[str, Any] = yaml.safe_load((paths.profiles_dir() / "t4-train.yml").read_text())
TODAY = dt.date(2026, 11, 21)


def profile(places: list[dict[str, Any]] | None = None, **changes: Any) -> Profile:
    return Profile.model_validate({**copy.deepcopy(GOOD), **({} if places is None else {"places": places}), **changes})


def waiver(check: str, expires: str) -> dict[str, Any]:
    return {"verify": {"waivers": [{"check": check, "reason": "r", "owner": "a@example.org", "expires": expires}]}}


def aws(instance_type: str, *regions: str) -> dict[str, Any]:
    return {"cloud": "aws", "instance_type": instance_type, "regions": list(regions)}


def gcp(machine: str, *zones: str) -> dict[str, Any]:
    return {"cloud": "gcp", "instance_type": machine, "gpu": "t4", "zones": list(zones)}


def only(complaints: list[Complaint]) -> Complaint:
    (complaint,) = complaints
    return complaint


@pytest.mark.parametrize(
    ("check", "near"), [("root-rom", "root-room"), ("driver-version", "driver"), ("gpus", "gpu"), ("xidd", "xid"), ("zzz", "")]
)
def test_a_waiver_of_a_check_that_does_not_exist_is_refused_with_the_nearest(check: str, near: str) -> None:
    complaint = only(known.errors(profile(**waiver(check, "2099-01-01")), {("verify",): 7}))
    assert complaint.kind is ComplaintKind.UNKNOWN_CHECK
    assert (complaint.line, complaint.key) == (7, "verify.waivers.0.check")
    assert near in complaint.instead
    assert complaint.instead.count(",") == 2


@pytest.mark.parametrize(("expires", "number"), [("2026-11-20", 1), ("2026-11-21", 0), ("2026-11-22", 0)])
def test_a_waiver_holds_through_its_last_day_and_is_a_warning_afterwards(expires: str, number: int) -> None:
    subject = profile(**waiver("root-room", expires))
    assert known.errors(subject, {}) == []
    complaints = known.warnings(subject, {}, TODAY)
    assert [complaint.kind for complaint in complaints] == [ComplaintKind.EXPIRED_WAIVER] * number
    assert all("expired on 2026-11-20" in complaint.problem for complaint in complaints)


@pytest.mark.parametrize(
    ("place", "key", "near"),
    [
        (aws("g4dn.xlarge", "us-esat-1"), "places.0.regions.0", "us-east-1"),
        (aws("g4dn.xlarge", "us-east-1", "eu-wst-2"), "places.0.regions.1", "eu-west-2"),
        (aws("g4dn.xlarge", "su-east-1"), "places.0.regions.0", "us-east-1"),
        (aws("g4nd.xlarge", "us-east-1"), "places.0.instance_type", "g4dn.xlarge"),
        (aws("g5.xlareg", "us-east-1"), "places.0.instance_type", "g5.xlarge"),
        (gcp("n1-standard-8", "us-cental1-a"), "places.0.zones.0", "us-central1-a"),
        (gcp("n1-standard-8", "asai-east1-c"), "places.0.zones.0", "asia-east1-c"),
        (gcp("n1-standrad-8", "asia-east1-c"), "places.0.instance_type", "n1-standard-8"),
    ],
)
def test_a_name_that_is_a_slip_away_from_a_known_one_is_refused(place: dict[str, Any], key: str, near: str) -> None:
    complaint = only(known.errors(profile([place]), {}))
    assert complaint.kind is ComplaintKind.MISSPELT
    assert (complaint.key, complaint.instead) == (key, f"did you mean {near!r}?")


@pytest.mark.parametrize(
    ("place", "key"),
    [
        (aws("g4dn.xlarge", "us-east-1", "us-east-9"), "places.0.regions.1"),
        (aws("g4dn.xlarge", "us-east-1", "nz-south-1"), "places.0.regions.1"),
        (aws("g99.xlarge", "us-east-1"), "places.0.instance_type"),
        (aws("g4dn.32xlarge", "us-east-1", "us-west-2"), "places.0.instance_type"),
        (gcp("n1-standard-8", "asia-east1-c", "africa-south1-a"), "places.0.zones.1"),
        (gcp("g9-standard-8", "asia-east1-c"), "places.0.instance_type"),
    ],
)
def test_a_name_that_may_be_newer_than_the_catalog_is_a_warning(place: dict[str, Any], key: str) -> None:
    subject = profile([place])
    assert known.errors(subject, {}) == []
    complaint = only(known.warnings(subject, {}, TODAY))
    assert (complaint.kind, complaint.key) == (ComplaintKind.NOT_IN_CATALOG, key)


@pytest.mark.parametrize(
    ("place", "key", "said"),
    [
        (aws("g4dn.xlarge", "us-east-1", "ap-southeast-5"), "places.0.regions.1", "is not offered in ap-southeast-5"),
        (aws("g5.xlarge", "us-east-1", "us-west-2"), "places.0.instance_type", "the profile asks for t4"),
        (gcp("n1-standard-8", "asia-east1-c", "asia-east1-z"), "places.0.zones.1", "asia-east1-z has no"),
    ],
)
def test_a_location_that_up_would_skip_is_one_warning_for_each_reason(place: dict[str, Any], key: str, said: str) -> None:
    complaint = only(known.warnings(profile([place]), {}, TODAY))
    assert (complaint.kind, complaint.key) == (ComplaintKind.UNAVAILABLE, key)
    assert said in complaint.problem


def test_a_profile_that_the_catalog_knows_has_nothing_said_about_it() -> None:
    assert known.errors(profile(), {}) == []
    assert known.warnings(profile(), {}, TODAY) == []


@pytest.mark.parametrize("version", ["18.04", "20.04"])
def test_a_system_that_has_ended_is_refused_by_its_own_sentence(version: str) -> None:
    complaint = only(known.errors(profile(os={"name": "ubuntu", "version": version}), {}))
    assert complaint.kind is ComplaintKind.SYSTEM
    assert "standard support ended" in complaint.problem
    assert "ubuntu 22.04 or 24.04" in complaint.instead


@pytest.mark.parametrize("version", ["9", "10"])
def test_a_system_of_a_subscription_is_set_up_where_it_is_and_launched_nowhere(version: str) -> None:
    rhel = {"name": "rhel", "version": version}
    assert known.errors(profile([], os=rhel), {}) == []
    for place in (aws("g4dn.xlarge", "us-east-1"), gcp("n1-standard-8", "asia-east1-c")):
        complaint = only(known.errors(profile([place], os=rhel), {}))
        assert complaint.kind is ComplaintKind.SYSTEM
        assert complaint.problem.startswith(f"no machine is launched with rhel {version}: clouds bill a subscription with its images")
        assert complaint.instead.startswith("write `places: []`")


AMAZON = {"name": "amazon-linux", "version": "2023"}


def amazon(places: list[dict[str, Any]], *, ffmpeg: bool = False) -> Profile:
    asked = profile(places, os=AMAZON)
    return asked.model_copy(update={"stack": asked.stack.model_copy(update={"ffmpeg": ffmpeg})})


def test_amazon_linux_is_launched_on_aws_alone() -> None:
    assert known.errors(amazon([aws("g4dn.xlarge", "us-east-1")]), {}) == []
    complaint = only(known.errors(amazon([gcp("n1-standard-8", "asia-east1-c")]), {}))
    assert (complaint.kind, complaint.problem) == (ComplaintKind.SYSTEM, "no image of amazon-linux 2023 is known on GCP")


def test_a_part_that_a_system_lacks_is_refused_at_its_key_with_the_systems_that_have_it() -> None:
    complaint = only(known.errors(amazon([], ffmpeg=True), {("stack", "ffmpeg"): 7}))
    assert (complaint.kind, complaint.line, complaint.key) == (ComplaintKind.SYSTEM, 7, "stack.ffmpeg")
    assert complaint.problem == "amazon-linux 2023 has no ffmpeg: Amazon packages no FFmpeg for it"
    assert "ubuntu 24.04" in complaint.instead
    assert "amazon-linux" not in complaint.instead


@pytest.mark.parametrize("kind", ComplaintKind)
def test_every_kind_is_an_error_or_a_warning(kind: ComplaintKind) -> None:
    warns = {ComplaintKind.EXPIRED_WAIVER, ComplaintKind.NOT_IN_CATALOG, ComplaintKind.UNAVAILABLE, ComplaintKind.ADVICE}
    assert kind.severity == ("warning" if kind in warns else "error")
