"""A refresh keeps what it got, names what it did not get, and never takes the base away."""

import datetime as dt

import pytest

from provision import clouds
from provision.catalog import overlay, read, wheels
from provision.clouds.aws.access import AwsAccess
from provision.clouds.gcp import data as gcp
from provision.clouds.gcp.access import GcpAccess
from provision.errors import CloudError, GpuprovError, IndexUnreachableError
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.workflow import refresh as work
from provision.workflow.catalog import ages as all_ages

NOBODY = GcpAccess("p", "http://127.0.0.1:9")
SET = "torch-2.10.0-cp312"


def refresh(*parts: str, access: AwsAccess, regions: tuple[str, ...] = ("us-east-1", "eu-west-1")) -> work.RefreshResult:
    return work.refresh(parts, regions, [SET], access={"aws": access, "gcp": NOBODY}, say=lambda _: None)


def test_aws_is_asked_and_the_overlay_is_dated(access: AwsAccess) -> None:
    outcome = refresh("aws", access=access)
    assert (outcome.refreshed, outcome.failed) == (["aws"], [])
    assert overlay.problem() == ""
    assert overlay.read().clouds["aws"]["regions"] == ["us-east-1", "eu-west-1"]
    assert clouds.provider("aws").offered_in("g4dn.xlarge")["us-east-1"]
    ages = {age.part: age for age in all_ages(dt.datetime.now(dt.UTC).date())}
    assert (ages["aws (refreshed)"].days, ages["aws (refreshed)"].old, ages["aws instance types"].old) == (0, False, False)


def test_a_region_that_is_refused_keeps_what_was_known_of_it(ec2: Rehearsal, access: AwsAccess) -> None:
    before = clouds.provider("aws").offered_in("g4dn.xlarge")["eu-west-1"]
    rule = {"kind": "error", "action": "DescribeInstanceTypeOfferings", "region": "eu-west-1", "code": "UnauthorizedOperation"}
    control.ask(ec2, "faults", method="PUT", body=[rule])
    outcome = refresh("aws", access=access)
    assert outcome.refreshed == ["aws"]
    assert [line for line in outcome.failed if line.startswith("aws eu-west-1: ")]
    assert overlay.read().clouds["aws"]["regions"] == ["us-east-1"]
    assert clouds.provider("aws").offered_in("g4dn.xlarge")["eu-west-1"] == before


def test_a_part_that_fails_leaves_the_others(access: AwsAccess) -> None:
    outcome = refresh("gcp", "aws", access=access)
    assert outcome.refreshed == ["aws"]
    assert [line for line in outcome.failed if line.startswith("gcp: GCP did not answer")]
    assert len(gcp.gcp().zones["nvidia-tesla-t4"]) > 1


def test_the_word_prices_means_those_of_every_cloud(ec2: Rehearsal, access: AwsAccess) -> None:
    google = clouds.access_from("gcp", ec2.settings("gcp"))
    both = {"aws": access, "gcp": google}
    outcome = work.refresh(("prices",), ("us-east-1",), [], access=both, say=lambda _: None)
    assert (sorted(outcome.refreshed), outcome.failed) == (["gcp-prices", "prices"], [])
    only = work.refresh(("gcp-prices",), (), [], access={**both, "aws": AwsAccess("http://127.0.0.1:9", "x", "x")}, say=lambda _: None)
    assert only.refreshed == ["gcp-prices"]
    ages = {age.part: age for age in all_ages(dt.datetime.now(dt.UTC).date())}
    assert (ages["gcp-prices (refreshed)"].days, ages["gcp prices"].refresh, ages["gcp prices"].old) == (0, "gcp-prices", False)


def test_when_nothing_can_be_refreshed_the_first_reason_is_the_error_and_nothing_is_written(access: AwsAccess) -> None:
    with pytest.raises(CloudError) as caught:
        refresh("gcp", access=access)
    assert "GCP did not answer" in caught.value.message
    assert not overlay.path().exists()


def test_an_index_that_is_down_leaves_the_shipped_wheels(access: AwsAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(_: wheels.WheelSet) -> str:
        msg = "the package index gave no wheels"
        raise IndexUnreachableError(msg, hint="later")

    monkeypatch.setattr(wheels, "resolve_with_uv", down)  # the real one against a dead index: tests/catalog/test_wheels.py
    with pytest.raises(GpuprovError):
        refresh("wheels", access=access)
    assert not overlay.path().exists()
    assert read.closures(SET)


def test_other_wheels_are_told_and_used(access: AwsAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "resolve_with_uv", lambda _: "torch==2.10.0 --hash=sha256:00\n")
    assert refresh("wheels", access=access).changed == [f"{SET}: other wheels"]
    assert read.closures(SET) == "torch==2.10.0 --hash=sha256:00\n"


def test_a_part_is_as_old_as_the_oldest_source_that_it_cites() -> None:
    """What a refresh would renew is old by that; what only a release renews, by the newest."""
    today = dt.date.fromisoformat(read.BASE_DATE)
    ages = {age.part: age for age in all_ages(today)}
    types, driver = ages["aws instance types"], ages["driver"]
    assert (types.date, types.days, types.old) == (dt.date(2026, 4, 1), (today - dt.date(2026, 4, 1)).days, True)
    assert (driver.date, driver.newest, driver.old) == (dt.date(2026, 1, 27), dt.date(2026, 11, 21), False)
    latest = max(age.newest for age in ages.values())
    assert all(age.old for age in all_ages(latest + dt.timedelta(days=91)))
