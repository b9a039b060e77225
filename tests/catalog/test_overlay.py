"""What was refreshed is used whole or not at all; without it the shipped data stands."""

import datetime as dt
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from provision.catalog.records.clouds import AwsPrice

from provision.catalog import overlay, places, read

NOW = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)


def refreshed() -> overlay.Overlay:
    return overlay.Overlay(
        parts=[overlay.PartRecord("prices", NOW, "a test")],
        aws_prices=[AwsPrice("g4dn.xlarge", "us-east-1", 0.99, "refreshed-prices")],
        gcp_zones={"nvidia-tesla-t4": ["us-central1-z"]},
        wheels={"torch-2.10.0-cp312": "torch==2.10.0 --hash=sha256:00\n"},
    )


def forgotten() -> None:
    overlay._load.cache_clear()  # another process would read the file anew


def test_what_was_refreshed_lies_over_the_base_and_leaves_the_rest() -> None:
    before = places.aws_price("g4dn.2xlarge", "us-east-1")
    overlay.write(refreshed())
    price = places.aws_price("g4dn.xlarge", "us-east-1")
    assert price is not None
    assert (price.usd_per_hour, read.sources()[price.source].title) == (0.99, "a test")
    assert places.aws_price("g4dn.2xlarge", "us-east-1") == before
    assert places.why_not_gcp("n1-standard-4", "us-central1-a", "t4", 1).startswith("us-central1-a has no nvidia-tesla-t4")
    assert places.why_not_gcp("n1-standard-4", "us-central1-z", "t4", 1) == ""
    assert read.closures("torch-2.10.0-cp312") == "torch==2.10.0 --hash=sha256:00\n"


def test_a_region_that_was_asked_no_longer_has_what_it_did_not_name() -> None:
    base = read.aws_types()["g4dn.xlarge"]
    assert "us-east-1" in base.offered
    overlay.write(overlay.Overlay(aws_regions=["us-east-1"], aws_types=[]))
    now = read.aws_types()["g4dn.xlarge"]
    assert "us-east-1" not in now.offered
    assert set(base.offered) - set(now.offered) == {"us-east-1"}
    assert "is not offered in us-east-1" in places.why_not_aws("g4dn.xlarge", "us-east-1", "on-demand", "t4", 1)


@given(cut=st.integers(min_value=0))
@settings(max_examples=40, deadline=None)
def test_an_overlay_cut_off_anywhere_is_set_aside(cut: int) -> None:
    whole = overlay.write(refreshed()).read_bytes()
    overlay.path().write_bytes(whole[: cut % len(whole)])
    forgotten()
    assert overlay.read().parts == []
    assert "cut off or was edited" in overlay.problem()
    assert read.gcp().zones["nvidia-tesla-t4"] != ["us-central1-z"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"schema": 99}', "has schema 99"),
        (b'{"prices": []}', "another shape"),
        (b'{"aws_prices": [{"instance_type": "x"}]}', "another shape"),
        (b"\xff\xfe", "another shape"),
        (b"[]", "another shape"),
    ],
)
def test_an_overlay_of_another_release_is_set_aside_with_the_reason(body: bytes, said: str) -> None:
    overlay.path().write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    forgotten()
    assert overlay.read().parts == []
    assert said in overlay.problem()


def test_an_overlay_that_cannot_be_read_is_set_aside_with_the_reason() -> None:
    overlay.path().mkdir()
    forgotten()
    assert (overlay.read().parts, "cannot be read" in overlay.problem()) == ([], True)


def test_none_is_no_problem() -> None:
    forgotten()
    assert (overlay.read().parts, overlay.problem()) == ([], "")


def test_writing_leaves_nothing_beside_the_file(tmp_path: Path) -> None:
    overlay.write(refreshed())
    assert [p.name for p in tmp_path.iterdir() if "partial" in p.name] == []
    assert Path(os.environ["GPUPROV_OVERLAY"]).exists()
