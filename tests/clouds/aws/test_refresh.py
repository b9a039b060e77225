"""Real boto3 asks the embedded EC2 and SSM for instance types, offerings and images.

Prices: the embedded cloud has no price list (moto's answers HTTP 500), so a named stub of botocore stands in for that one call.
"""

import json

import pytest
from botocore.stub import Stubber

from provision.catalog import read
from provision.clouds.aws import data, refresh
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.client import client
from provision.errors import CloudError, PermissionRefusedError
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal

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


def test_a_price_list_that_fails_is_one_error(access: AwsAccess) -> None:
    with pytest.raises(CloudError):
        refresh.prices(REGION, ["g4dn.xlarge"], access)
