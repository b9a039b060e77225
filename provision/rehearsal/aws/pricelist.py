"""The price list of the embedded AWS: GetProducts of the Price List API, with what stands around a price on demand in the real list.

The machines and disks are those of the catalogue, ten percent dearer than it says, so that a refresh changes something. Beside each stand
rows that only the filters keep out: Windows, a dedicated tenant, and a capacity block at 0 USD.
"""

import json
import uuid
import zlib
from collections.abc import Iterator
from typing import Any, Final

from werkzeug import Response

from provision.clouds.aws import data

TARGET: Final = "AWSPriceListService."
_MOST: Final = 100
_RAISED: Final = 1.1
_JSON: Final = "application/x-amz-json-1.1"


def answer(action: str, body: bytes) -> Response:
    """The answer to a call of the Price List API."""
    request = json.loads(body or b"{}")
    if action != "GetProducts" or request.get("ServiceCode") != "AmazonEC2":
        return _refused("InvalidParameterException", f"{action} of {request.get('ServiceCode')} is not emulated")
    filters = request.get("Filters", [])
    if any(each.get("Type") != "TERM_MATCH" for each in filters):
        return _refused("InvalidParameterException", "the type of a filter must be TERM_MATCH")
    wanted = {each["Field"]: each["Value"] for each in filters}
    rows = [row for row in _rows(wanted.get("regionCode", "")) if all(row[0].get(key) == value for key, value in wanted.items())]
    token, size = request.get("NextToken") or "0", int(request.get("MaxResults") or _MOST)
    if not token.isdigit() or not 0 < size <= _MOST:
        return _refused("InvalidNextTokenException", "the token or the size of a page is invalid")
    start = int(token)
    page = [json.dumps(_product(*row)) for row in rows[start : start + size]]
    more = {"NextToken": str(start + size)} if start + size < len(rows) else {}
    return _response({"FormatVersion": "aws_v1", "PriceList": page, **more}, 200)


def _refused(code: str, message: str) -> Response:
    return _response({"__type": code, "message": message}, 400)


def _response(data: dict[str, object], status: int) -> Response:
    """A response as every one of the JSON protocol, which has the id of its request in a header."""
    return Response(json.dumps(data), status, headers={"x-amzn-RequestId": str(uuid.uuid4())}, content_type=_JSON)


def _rows(region: str) -> Iterator[tuple[dict[str, str], str, str, float]]:
    """The products of a region: attributes, family, unit, and US dollars."""
    machine = {
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "regionCode": region,
    }
    for (name, place), (usd, _) in data.prices().items():
        if place == region:
            one, raised = {**machine, "instanceType": name}, round(usd * _RAISED, 6)
            yield one, "Compute Instance", "Hrs", raised
            yield {**one, "operatingSystem": "Windows"}, "Compute Instance", "Hrs", raised * 2
            yield {**one, "tenancy": "Dedicated"}, "Compute Instance", "Hrs", raised * 1.06
            yield {**one, "marketoption": "CapacityBlock"}, "Compute Instance", "Hrs", 0.0
    disk = data.disk_price(region)
    if disk:
        storage = {"productFamily": "Storage", "regionCode": region}
        yield {**storage, "volumeApiName": "gp3"}, "Storage", "GB-Mo", round(disk[0] * _RAISED, 6)
        yield {**storage, "volumeApiName": "gp2"}, "Storage", "GB-Mo", 0.5
        yield {**storage, "volumeApiName": "gp3", "group": "EBS IOPS"}, "Storage", "IOPS-Mo", 0.005


def _product(attributes: dict[str, str], family: str, unit: str, usd: float) -> dict[str, Any]:
    sku = f"{zlib.crc32(json.dumps([attributes, unit]).encode()):016X}"
    term, rate = f"{sku}.JRTCKXETXF", f"{sku}.JRTCKXETXF.6YS6EN2CT7"
    dimension = {
        "unit": unit,
        "endRange": "Inf",
        "description": f"${usd} per {unit}",
        "appliesTo": [],
        "rateCode": rate,
        "beginRange": "0",
        "pricePerUnit": {"USD": f"{usd:.10f}"},
    }
    offered = {"priceDimensions": {rate: dimension}, "sku": sku, "effectiveDate": "2026-11-01T00:00:00Z", "offerTermCode": "JRTCKXETXF"}
    return {
        "product": {"productFamily": family, "attributes": attributes, "sku": sku},
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {term: {**offered, "termAttributes": {}}}},
        "version": "20261101000000",
        "publicationDate": "2026-11-01T00:00:00Z",
    }
