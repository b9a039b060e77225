"""What was refreshed is used whole or not at all; without it the shipped data stands."""

import datetime as dt
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision import clouds
from provision.catalog import overlay, read
from provision.clouds.aws import data as aws
from provision.clouds.gcp import data as gcp
from provision.clouds.terms import Price
from tests.clouds.offers import why_not_aws, why_not_gcp
from tests.fuzz.run import Odd, lay

NOW = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)


def refreshed() -> overlay.Overlay:
    return overlay.Overlay(
        parts=[overlay.Part("prices", NOW, "a test")],
        clouds={
            "aws": {
                "prices": [{"instance_type": "g4dn.xlarge", "region": "us-east-1", "usd_per_hour": 0.99, "source": "refreshed-prices"}]
            },
            "gcp": {"zones": {"nvidia-tesla-t4": ["us-central1-z"]}},
        },
        wheels={"torch-2.10.0-cp312": "torch==2.10.0 --hash=sha256:00\n"},
    )


def aws_price(instance_type: str) -> Price | None:
    return clouds.provider("aws").price(instance_type, "us-east-1", "t4", 1)


def forgotten() -> None:
    overlay._load.cache_clear()  # another process would read the file anew


def test_what_was_refreshed_lies_over_the_base_and_leaves_the_rest() -> None:
    before = aws_price("g4dn.2xlarge")
    overlay.write(refreshed())
    price = aws_price("g4dn.xlarge")
    assert price is not None
    assert (price.usd_per_hour, clouds.sources()[price.source].title) == (0.99, "a test")
    assert aws_price("g4dn.2xlarge") == before
    assert why_not_gcp("n1-standard-4", "us-central1-a", "t4", 1).startswith("us-central1-a has no nvidia-tesla-t4")
    assert why_not_gcp("n1-standard-4", "us-central1-z", "t4", 1) == ""
    assert read.closures("torch-2.10.0-cp312") == "torch==2.10.0 --hash=sha256:00\n"


def test_a_region_that_was_asked_no_longer_has_what_it_did_not_name() -> None:
    base = aws.types()["g4dn.xlarge"]
    assert "us-east-1" in base.offered
    overlay.write(overlay.Overlay(clouds={"aws": {"regions": ["us-east-1"], "types": []}}))
    now = aws.types()["g4dn.xlarge"]
    assert "us-east-1" not in now.offered
    assert set(base.offered) - set(now.offered) == {"us-east-1"}
    assert "is not offered in us-east-1" in why_not_aws("g4dn.xlarge", "us-east-1", "t4", 1)


@given(cut=st.integers(min_value=0))
@settings(max_examples=40, deadline=None)
def test_an_overlay_cut_off_anywhere_is_set_aside(cut: int) -> None:
    whole = overlay.write(refreshed()).read_bytes()
    overlay.path().write_bytes(whole[: cut % len(whole)])
    forgotten()
    assert overlay.read().parts == []
    assert "cut off or was edited" in overlay.problem()
    assert gcp.gcp().zones["nvidia-tesla-t4"] != ["us-central1-z"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"schema": 99}', "has schema 99"),
        (b'{"prices": []}', "another shape"),
        (b'{"aws_prices": [{"instance_type": "x"}]}', "another shape"),
        (b'{"schema": 2, "clouds": {"gcp": {"zones": 7}}}', "another shape"),
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


def test_an_overlay_of_the_release_before_is_read() -> None:
    body = b'{"schema": 1, "parts": [], "gcp_zones": {"nvidia-tesla-t4": ["us-central1-z"]}, "aws_regions": ["us-east-1"]}'
    overlay.path().write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    forgotten()
    assert (overlay.problem(), gcp.gcp().zones["nvidia-tesla-t4"]) == ("", ["us-central1-z"])
    assert "us-east-1" not in aws.types()["g4dn.xlarge"].offered


def test_none_is_no_problem() -> None:
    forgotten()
    assert (overlay.read().parts, overlay.problem()) == ([], "")


def test_writing_leaves_nothing_beside_the_file(tmp_path: Path) -> None:
    overlay.write(refreshed())
    assert [p.name for p in tmp_path.iterdir() if "partial" in p.name] == []
    assert Path(os.environ["GPUPROV_OVERLAY"]).exists()


@pytest.mark.parametrize("kind", [Odd.PIPE, Odd.ZERO, Odd.LOOP, Odd.HUGE])
def test_what_is_no_file_is_set_aside_with_the_reason(kind: Odd) -> None:
    lay(overlay.path().parent, {overlay.path().name: kind})
    forgotten()
    assert overlay.read().parts == []
    assert overlay.problem().startswith("cannot be read: ")


def test_where_it_lies_follows_the_environment_within_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert overlay.path() == Path(os.environ["GPUPROV_OVERLAY"])
    for variable in ("GPUPROV_OVERLAY", "GPUPROV_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    for variable, folder in (("HOME", "a"), ("XDG_CACHE_HOME", "b"), ("GPUPROV_CACHE", "c"), ("GPUPROV_OVERLAY", "d")):
        monkeypatch.setenv(variable, str(tmp_path / folder))
        assert overlay.path().is_relative_to(tmp_path / folder)
