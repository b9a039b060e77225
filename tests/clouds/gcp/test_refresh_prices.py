"""Real google-cloud-billing asks the embedded GCP for its price list, page by page."""

from __future__ import annotations

from typing import Any

import pytest

from provision import clouds
from provision.catalog import overlay
from provision.clouds.gcp import refresh
from provision.clouds.gcp.access import GcpAccess
from provision.clouds.terms import Extras, Price
from provision.errors import CloudInvalidError
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.rehearsal.gcp import skus

HOME = "us-central1"


@pytest.fixture
def account(ec2_api: Rehearsal) -> GcpAccess:
    access = clouds.access_from("gcp", ec2_api.settings("gcp"))
    assert isinstance(access, GcpAccess)
    return access


def refreshed(access: GcpAccess) -> list[str]:
    result = refresh.refresh_prices(overlay.read(), (), access, lambda _: None)
    overlay.write(result.overlay)
    return result.changed


def price(instance_type: str, gpu: str, count: int = 1, region: str = HOME) -> Price:
    found = clouds.provider("gcp").price(instance_type, region, gpu, count)
    assert found is not None
    return found


def test_the_list_is_read_to_its_last_page_and_only_what_is_sold_on_demand_counts(account: GcpAccess) -> None:
    whole = refresh.rates(account)
    assert refresh.rates(account, page_size=97) == whole
    # Not the spot twin of the same words, the commitment, or what the scheduler reserved.
    assert (whole["gpu:t4"][HOME], whole["core:n1"][HOME], whole["disk:balanced"][HOME]) == (0.36, 0.032, 0.1)
    assert whole["address"][HOME] == 0.006  # its first tier is free, and it is billed alike everywhere
    assert whole["gpu:t4"]["asia-east2"] > 0.36
    assert whole["gpu:h100"][HOME] == 9.79655  # whole dollars and nanos; Mega is another GPU
    assert not any("b200" in what for what in whole)


def test_refreshed_prices_come_first_and_say_where_they_are_from(account: GcpAccess) -> None:
    before = price("a2-highgpu-1g", "a100-40gb")
    changed = refreshed(account)
    assert "gpu:t4 in us-central1: 0.35 → 0.36 USD" in changed
    assert not any(line.startswith("disk:balanced in us-central1") for line in changed)  # it is what was shipped
    n1 = price("n1-standard-8", "t4", 2)
    assert [(part.item, part.usd_per_hour) for part in n1.parts] == [("2 x t4", 0.72), ("8 vCPUs", 0.256), ("30 GB of memory", 0.129)]
    (source,) = n1.sources
    assert clouds.sources()[source].title.startswith("Google Cloud Billing Catalog at http://127.0.0.1")
    # A100: its own vCPUs and memory; the same to the cent as the sum that was shipped.
    assert price("a2-highgpu-1g", "a100-40gb").usd_per_hour == pytest.approx(before.usd_per_hour, abs=0.02)
    assert price("a3-highgpu-8g", "h100", 8).parts[-1].item == "6000 GB of local SSD"
    mega = price("a3-megagpu-8g", "h100", 8, "us-east4")
    assert mega.source == "gcosts-2026-07"  # its parts have other names, so that the shipped price stays
    extras = clouds.provider("gcp").extras_price("n1-standard-8", HOME, Extras(100, local_disk=True))
    assert [part.usd_per_hour for part in extras.parts] == [round(10 / 730, 6), round(375 * 0.08 / 730, 6), 0.006]


def test_what_a_refresh_of_offers_learnt_stays(account: GcpAccess) -> None:
    refreshed(account)
    overlay.write(refresh.refresh_offers(overlay.read(), (), account, lambda _: None).overlay)
    assert price("n1-standard-8", "t4").source == "refreshed-gcp-prices"


def test_a_list_without_a_price_that_is_known_here_is_an_error_and_no_empty_catalog(
    account: GcpAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh, "_BEGINNINGS", {})
    with pytest.raises(CloudInvalidError, match="none of the prices"):
        refreshed(account)
    assert price("n1-standard-8", "t4").source == "gcp-price"


def test_a_refusal_is_one_error(account: GcpAccess, ec2_api: Rehearsal) -> None:
    rule: dict[str, Any] = {"kind": "error", "action": "cloudbilling.services.skus.list", "code": "forbidden", "http": 403}
    control.ask(ec2_api, "faults", method="PUT", body=[rule])
    try:
        with pytest.raises(Exception, match="price list of Compute Engine"):
            refresh.rates(account)
    finally:
        control.ask(ec2_api, "faults", method="PUT", body=[])


def test_the_emulator_has_the_price_list_of_compute_engine_alone() -> None:
    assert skus.COMPUTE_ENGINE in refresh._COMPUTE_ENGINE
