"""The price list of the embedded GCP, in the form of the Cloud Billing Catalog: `services.skus.list`, in pages.

Its figures are made up: a base in us-central1, dearer elsewhere by what N1 costs there. What surrounds a price on demand in the real list
is here as well: the same words for spot, commitments, sole tenants and reservations, tiers that begin with nothing, units beside nanos.
"""

import functools
import zlib
from collections.abc import Iterator
from typing import Any, Final

from provision.clouds.gcp import data
from provision.rehearsal.gcp.refusals import ComputeError, not_found
from provision.rehearsal.gcp.world import GcpCall, Handler
from provision.structs import Struct

COMPUTE_ENGINE: Final = "6F81-5844-456A"
_PAGE: Final = 5000  # the default and the most, as the method's description says
_NANOS: Final = 10**9
_WHEN: Final = "2026-11-01T07:00:00Z"


class Line(Struct):
    """What is sold by one description in each region."""

    description: str
    family: str
    group: str
    unit: str
    usd: float
    usage: str = "OnDemand"


_LINES: Final = (
    Line("Nvidia Tesla T4 GPU running in {}", "Compute", "GPU", "h", 0.36),
    Line("Nvidia Tesla T4 GPU attached to Spot Preemptible VMs running in {}", "Compute", "GPU", "h", 0.12, "Preemptible"),
    Line("Nvidia Tesla T4 GPU running in {}", "Compute", "GPU", "h", 8.0, "Preemptible"),
    Line("Commitment v1: Nvidia Tesla T4 GPU running in {} for 1 Year", "Compute", "GPU", "h", 0.22, "Commit1Yr"),
    Line("Nvidia Tesla T4 GPU running in {} reserved for DWS", "Compute", "GPU", "h", 9.0),
    Line("Nvidia Tesla V100 GPU running in {}", "Compute", "GPU", "h", 2.48),
    Line("Nvidia L4 GPU running in {}", "Compute", "GPU", "h", 0.56004),
    Line("Nvidia Tesla A100 GPU running in {}", "Compute", "GPU", "h", 2.933908),
    Line("Nvidia Tesla A100 80GB GPU running in {}", "Compute", "GPU", "h", 3.92808),
    Line("Nvidia H100 80GB GPU running in {}", "Compute", "GPU", "h", 9.79655),
    Line("Nvidia H100 80GB Mega GPU running in {}", "Compute", "GPU", "h", 10.5),
    Line("N1 Predefined Instance Core running in {}", "Compute", "N1Standard", "h", 0.032),
    Line("N1 Predefined Instance Ram running in {}", "Compute", "N1Standard", "GiBy.h", 0.0043),
    Line("N1 Predefined Instance Core running in {} Sole Tenancy Premium", "Compute", "N1Standard", "h", 9.0),
    Line("Spot Preemptible N1 Predefined Instance Core running in {}", "Compute", "N1Standard", "h", 0.007, "Preemptible"),
    Line("A2 Instance Core running in {}", "Compute", "CPU", "h", 0.031611),
    Line("A2 Instance Ram running in {}", "Compute", "RAM", "GiBy.h", 0.004237),
    Line("A3 Instance Core running in {}", "Compute", "CPU", "h", 0.029),
    Line("A3 Instance Ram running in {}", "Compute", "RAM", "GiBy.h", 0.0025),
    Line("Reserved A3 Instance Core in {}", "Compute", "CPU", "h", 9.0),
    Line("G2 Instance Core running in {}", "Compute", "CPU", "h", 0.025),
    Line("G2 Instance Ram running in {}", "Compute", "RAM", "GiBy.h", 0.0029),
    Line("Balanced PD Capacity in {}", "Storage", "SSD", "GiBy.mo", 0.1),
    Line("Regional Balanced PD Capacity in {}", "Storage", "SSD", "GiBy.mo", 0.2),
    Line("SSD backed Local Storage in {}", "Storage", "LocalSSD", "GiBy.mo", 0.08),
    Line("SSD backed Local Storage attached to Spot Preemptible VMs in {}", "Storage", "LocalSSD", "GiBy.mo", 0.04, "Preemptible"),
)


def _sku(line: Line, region: str, usd: float, *, free: float = 0.0) -> dict[str, Any]:
    description = line.description.format(region)
    number = f"{zlib.crc32(f'{description} {line.usage}'.encode()):08X}"
    sku_id = f"{number[:4]}-{number[4:]}-{number[:4]}"
    nanos = round(usd * _NANOS)
    rate = {"startUsageAmount": free, "unitPrice": {"currencyCode": "USD", "units": str(nanos // _NANOS), "nanos": nanos % _NANOS}}
    nothing = {"startUsageAmount": 0.0, "unitPrice": {"currencyCode": "USD", "units": "0", "nanos": 0}}
    return {
        "name": f"services/{COMPUTE_ENGINE}/skus/{sku_id}",
        "skuId": sku_id,
        "description": description,
        "category": {
            "serviceDisplayName": "Compute Engine",
            "resourceFamily": line.family,
            "resourceGroup": line.group,
            "usageType": line.usage,
        },
        "serviceRegions": [region],
        "pricingInfo": [
            {
                "summary": "",
                "pricingExpression": {
                    "usageUnit": line.unit,
                    "displayQuantity": 1.0,
                    "tieredRates": [nothing, rate] if free else [rate],
                },
                "currencyConversionRate": 1.0,
                "effectiveTime": _WHEN,
            }
        ],
        "serviceProviderName": "Google",
    }


@functools.cache
def _all() -> tuple[dict[str, Any], ...]:
    return tuple(_each())


def _each() -> Iterator[dict[str, Any]]:
    rates = data.gcp().n1_prices.regions
    base = rates["us-central1"].vcpu
    for region, rate in sorted(rates.items()):
        for line in _LINES:
            yield _sku(line, region, line.usd * rate.vcpu / base)
    address = Line("External IP Charge on a Standard VM", "Network", "IpAddress", "h", 0.006)
    yield _sku(address, "global", address.usd, free=1.0)


def _list(call: GcpCall) -> dict[str, Any]:
    """A page of the list."""
    if call.path["servicesId"] != COMPUTE_ENGINE:
        raise not_found(f"services/{call.path['servicesId']}")
    size, token = int(call.query.get("pageSize") or _PAGE), call.query.get("pageToken") or "0"
    if size < 0 or not token.isdigit():
        raise ComputeError("badRequest", "Request contains an invalid argument.")
    start, size = int(token), min(size or _PAGE, _PAGE)
    more = str(start + size) if start + size < len(_all()) else ""
    return {"skus": list(_all()[start : start + size]), "nextPageToken": more}


HANDLERS: Final[dict[str, Handler]] = {"cloudbilling.services.skus.list": _list}
