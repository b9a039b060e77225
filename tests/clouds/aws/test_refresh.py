"""Real boto3 asks the embedded EC2 and SSM for instance types, offerings and images.

Prices: the embedded cloud has a price list. A named stub of botocore stands in for it where an answer is to be odd.
"""

import json
import re

import pytest
from botocore.stub import Stubber

from provision.catalog import overlay, read
from provision.clouds.aws import data, refresh
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.clouds.terms import RefusalKind
from provision.errors import CloudError, PermissionRefusedError
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.report.plan import price_note, price_parts
from tests.launch.test_plan import AWS, planned

REGION = "us-east-1"


def test_the_instance_types_are_those_of_the_shipped_data(access: AwsAccess) -> None:
    """The shipped data was made from the same answers: what EC2 says wins over what we typed."""
    shipped = data.types()
    result = refresh.instance_types(REGION, access)
    assert len(result) > 50
    for record in result:
        known = shipped[record.type]
        assert (record.vendor, record.gpu, record.gpus, record.gpu_mib) == (known.vendor, known.gpu, known.gpus, known.gpu_mib), record.type
        assert (record.vcpus, record.memory_gib, record.nvme_gb, record.machine) == (
            known.vcpus,
            known.memory_gib,
            known.nvme_gb,
            known.machine,
        )


def test_the_offerings_are_those_of_the_shipped_data(access: AwsAccess) -> None:
    names = [t.type for t in data.types().values()]
    result = refresh.offered_zones(REGION, names, access)
    shipped = {name: t.offered[REGION] for name, t in data.types().items() if t.offered.get(REGION)}  # of g4ad no zones are known
    assert {name: zones for name, zones in result.items() if name in shipped} == shipped


def test_the_card_of_the_first_adapter_is_that_of_the_shipped_data(access: AwsAccess) -> None:
    """Of p6-b300 it is the second card."""
    found = {record.type: (record.efa, record.efa_first) for record in refresh.instance_types(REGION, access)}
    assert found["p6-b300.48xlarge"] == (16, 1)
    shipped = {name: (record.efa, record.efa_first) for name, record in data.types().items()}
    assert {name: each for name, each in found.items() if name in shipped} == {name: shipped[name] for name in found if name in shipped}


def test_the_images_have_ids(access: AwsAccess) -> None:
    result, lacking = refresh.newest_images(REGION, access)
    assert lacking == []
    assert set(result) == {system.key for system in read.systems().systems if not system.subscribed}
    assert all(image.id.startswith("ami-") and image.created == "2026-11-01" for image in result.values())
    assert (result["rocky 9"].name, result["rocky 9"].owner) == ("Rocky-9-EC2-Base-9.-20261101.0-x86_64", "792107900819")


def test_a_system_that_a_region_does_not_have_is_named_and_the_others_stay(ec2: Rehearsal, access: AwsAccess) -> None:
    rule = {"kind": "error", "action": "GetParameter", "code": "ParameterNotFound", "count": 1}
    control.ask(ec2, "faults", method="PUT", body=[rule])
    result, (lacking,) = refresh.newest_images(REGION, access)
    assert lacking.startswith("ubuntu 24.04: ")
    assert {"ubuntu 22.04", "rocky 10"} <= set(result)


def test_a_permission_that_is_missing_is_named(ec2: Rehearsal, access: AwsAccess) -> None:
    rule = {"kind": "error", "action": "DescribeInstanceTypes", "code": "UnauthorizedOperation"}
    control.ask(ec2, "faults", method="PUT", body=[rule])
    with pytest.raises(PermissionRefusedError) as caught:
        refresh.instance_types(REGION, access)
    assert "ec2:DescribeInstanceTypes" in caught.value.message


def _product(*usd: str) -> str:
    dimensions = {str(n): {"unit": "Hrs", "pricePerUnit": {"USD": price}} for n, price in enumerate(usd)}
    return json.dumps({"product": {}, "terms": {"OnDemand": {"x": {"priceDimensions": dimensions}}}})


def test_prices_are_hourly_and_what_has_none_is_left_out() -> None:
    access = AwsAccess("http://127.0.0.1:9", "x", "x")
    with Stubber(client("pricing", "us-east-1", access)) as stub:
        stub.add_response("get_products", {"PriceList": [_product("0.0000000000", "0.5260000000")]})
        stub.add_response("get_products", {"PriceList": []})
        result = refresh.prices(REGION, ["g4dn.xlarge", "p9.xlarge"], access)
    assert [(p.instance_type, p.region, p.usd_per_hour) for p in result] == [("g4dn.xlarge", REGION, 0.526)]


def test_a_price_list_that_fails_is_one_error(ec2: Rehearsal, access: AwsAccess) -> None:
    control.ask(
        ec2, "faults", method="PUT", body=[{"kind": "error", "action": "GetProducts", "code": "InternalErrorException", "http": 400}]
    )
    with pytest.raises(CloudError):
        refresh.prices(REGION, ["g4dn.xlarge"], access)


def test_the_price_list_gives_what_is_sold_on_demand_to_everybody(access: AwsAccess) -> None:
    """Not the dedicated tenant, Windows, or the capacity block at nothing, which stand beside it."""
    shipped = data.prices()["g4dn.xlarge", REGION][0]
    assert [p.usd_per_hour for p in refresh.prices(REGION, ["g4dn.xlarge", "p9.xlarge"], access)] == [pytest.approx(shipped * 1.1)]
    assert refresh.disk_price(REGION, access) == pytest.approx(0.08 * 1.1)
    assert refresh.disk_price("mx-central-1", access) is None


def test_a_spot_price_is_the_last_of_each_zone(access: AwsAccess) -> None:
    (price,) = refresh.spot_prices(REGION, ["g4dn.xlarge"], access)
    assert (price.instance_type, price.region) == ("g4dn.xlarge", REGION)
    assert len(price.zones) > 1
    assert all(0 < usd < 0.526 for usd in price.zones.values())


def test_refreshed_prices_are_those_of_a_place_and_spot_is_shown_without_being_a_promise(ec2: Rehearsal, access: AwsAccess) -> None:
    result = refresh.refresh_prices(overlay.read(), [REGION], access, lambda _: None)
    overlay.write(result.overlay)
    assert result.failed == []
    assert "gp3 in us-east-1: 0.08 → 0.088 USD for a GB and month" in result.changed
    disk = f"200 GB of gp3 {200 * 0.088 / 730:.3f}"
    demand, spot = (planned({**AWS, "regions": [REGION], "market": market}).places[0] for market in ("on-demand", "spot"))
    assert demand.price is not None
    assert spot.price is not None
    assert demand.whole_price_usd == pytest.approx(0.5786 + 200 * 0.088 / 730 + 0.005, abs=1e-5)
    assert spot.whole_price_usd is None
    assert disk in price_parts(demand.price)
    assert re.search(r"spot machine at \d{4}-\d\d-\d\d \d\d:\d\d UTC 0\.\d+", price_parts(spot.price))
    assert "spot price history" in price_note(spot)
    # The next hours are not known: the limit is not a promise, unless the profile accepts that, and what is over it already is refused.
    assert spot.refusal is not None
    assert spot.refusal.kind is RefusalKind.PRICE_UNKNOWN
    over = planned({**AWS, "regions": [REGION], "market": "spot"}, limit=0.1, unknown="allow").places[0].refusal
    assert over is not None
    assert over.kind is RefusalKind.OVER_LIMIT
    control.ask(
        ec2, "faults", method="PUT", body=[{"kind": "error", "action": "DescribeSpotPriceHistory", "code": "UnauthorizedOperation"}]
    )
    assert "ec2:DescribeSpotPriceHistory" in refresh.refresh_prices(overlay.read(), [REGION], access, lambda _: None).failed[0]
