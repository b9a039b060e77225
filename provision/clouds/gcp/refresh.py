"""What GCP says today about its GPUs: which zone has which accelerator, the newest image of each family, and the price list."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from provision.catalog import read
from provision.catalog.overlay import Overlay
from provision.clouds.gcp import data
from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.api import GcpProjectApi
from provision.clouds.gcp.client import catalog_client, client
from provision.clouds.gcp.errors import GoneError, cloud_errors
from provision.clouds.terms import Refreshed, Say
from provision.errors import CloudInvalidError, ImageNotFoundError


def accelerator_zones(access: GcpAccess) -> dict[str, list[str]]:
    """Accelerator → the zones that have it, for the accelerators whose GPU the catalog knows.

    Raises:
        CloudError: what GCP said instead.
    """
    accelerators = set(data.gcp().accelerators.values()) | {machine.accelerator for machine in data.gcp().machines if machine.accelerator}
    zones: dict[str, list[str]] = defaultdict(list)
    for scope, scoped in GcpProjectApi(access).pages("AcceleratorTypes", "aggregated_list", "compute.acceleratorTypes.list"):
        for accelerator in scoped.accelerator_types:
            if accelerator.name in accelerators and not accelerator.deprecated.state:
                zones[accelerator.name].append(scope.removeprefix("zones/"))
    return {name: sorted(where) for name, where in zones.items()}


def newest_images(access: GcpAccess) -> tuple[dict[str, str], dict[str, data.GcpImageFacts], list[str]]:
    """System → the newest image of its family, as `projects/PROJECT/global/images/NAME`; what each is; and why a system has none.

    Raises:
        CloudError: what GCP said instead.
    """
    images, described, lacking = {}, {}, []
    launched = {system.key for system in read.systems().systems if not system.subscribed}
    families = client("ImagesClient", access)
    for record in data.gcp().images:
        system = f"{record.os} {record.version}"
        if system not in launched:
            continue
        try:
            with cloud_errors("compute.images.getFromFamily"):
                newest = families.get_from_family(project=record.project, family=record.family, timeout=access.timeout_s)
        except (GoneError, ImageNotFoundError) as error:
            lacking.append(f"gcp: {system}: {error.message}")
            continue
        images[system] = f"projects/{record.project}/global/images/{newest.name}"
        described[images[system]] = data.GcpImageFacts(newest.name, record.project, newest.creation_timestamp[:10])
    return images, described, lacking


def refresh_offers(before: Overlay, regions: Sequence[str], access: GcpAccess, say: Say) -> Refreshed:  # noqa: ARG001 - one call has all
    """Ask Compute Engine where its accelerators are, and for its newest images.

    Args:
        before: the overlay so far.
        regions: ignored: one call answers for all.
        access: whose GCP.
        say: told about progress.

    Raises:
        CloudError: what GCP said instead.
    """
    say("asking GCP where its accelerators are, and for its newest images")
    zones = accelerator_zones(access)
    changed = []
    for name in data.gcp().zones:
        if name != "source":
            now, old = set(zones.setdefault(name, [])), set(data.zones(name))
            changed += [f"{zone}: now has {name}" for zone in sorted(now - old)]
            changed += [f"{zone}: no longer has {name}" for zone in sorted(old - now)]
    images, described, lacking = newest_images(access)
    layer = msgspec.structs.replace(data.refreshed(), zones=zones, images=images, described=described)
    origin = f"Compute Engine{f' at {access.endpoint_url}' if access.endpoint_url else ''}"
    return Refreshed(before.with_part("gcp", origin, clouds=before.with_cloud("gcp", layer)), changed, lacking)


# --- prices: the Cloud Billing Catalog ---------------------------------------------------------------------------------

_COMPUTE_ENGINE: Final = "services/6F81-5844-456A"
# What a description begins with → what it is a rate of. The words are those of the mapping of GCOSTS (build/mapping.csv in
# Cyclenerd/google-cloud-pricing-cost-calculator) and of dstackai/gpuhunt (providers/gcp.py).
_BEGINNINGS: Final[Mapping[str, str]] = {
    "Nvidia Tesla T4 GPU running in": "gpu:t4",
    "Nvidia Tesla V100 GPU running in": "gpu:v100",
    "Nvidia Tesla P100 GPU running in": "gpu:p100",
    "Nvidia Tesla P4 GPU running in": "gpu:p4",
    "Nvidia Tesla A100 GPU running in": "gpu:a100-40gb",
    "Nvidia Tesla A100 80GB GPU running in": "gpu:a100-80gb",
    "Nvidia L4 GPU running in": "gpu:l4",
    "Nvidia H100 80GB GPU running in": "gpu:h100",
    "RTX 6000 96GB running in": "gpu:rtx-pro-6000",
    "N1 Predefined Instance Core running in": "core:n1",
    "N1 Predefined Instance Ram running in": "ram:n1",
    **{f"{family.upper()} Instance Core running in": f"core:{family}" for family in ("a2", "a3", "g2", "g4")},
    **{f"{family.upper()} Instance Ram running in": f"ram:{family}" for family in ("a2", "a3", "g2", "g4")},
    "Balanced PD Capacity": "disk:balanced",
    "SSD backed Local Storage": "disk:local-ssd",
    "External IP Charge on a Standard VM": "address",
}
_UNITS: Final[Mapping[str, str]] = {"gpu": "h", "core": "h", "ram": "GiBy.h", "disk": "GiBy.mo", "address": "h"}
# The same words in another trade: a commitment, a sole tenant, the dynamic workload scheduler, a stopped machine.
_OTHERWISE: Final = re.compile(r"\b(sole tenancy|reserved|premium|custom|suspended|dws|commitment|attached to|upgrade)\b", re.IGNORECASE)
_NANO: Final = 1e-9


def rates(access: GcpAccess, page_size: int = 5000) -> dict[str, dict[str, float]]:
    """What Google bills one of on demand → region → US dollars, as in `data.GcpOverlay`.

    Raises:
        CloudError: what Google said instead.
    """
    # Half a second that nothing but this needs.
    from google.cloud import billing_v1  # noqa: PLC0415

    request = billing_v1.ListSkusRequest(parent=_COMPUTE_ENGINE, currency_code="USD", page_size=page_size)
    fresh: dict[str, dict[str, float]] = defaultdict(dict)
    with cloud_errors("the price list of Compute Engine"):
        for sku in catalog_client(billing_v1.CloudCatalogClient, access).list_skus(request=request, timeout=access.timeout_s):
            usd, what = _hourly(sku), _rate_of(sku.description)
            if sku.category.usage_type != "OnDemand" or not what or usd is None or _unit(sku) != _UNITS[what.partition(":")[0]]:
                continue
            for region in sku.service_regions:
                fresh[what][region] = max(usd, fresh[what].get(region, 0.0))  # of two prices the dearer, so that a limit holds
    # One that is billed alike everywhere has no region of its own.
    everywhere = fresh.get("address", {}).pop("global", None)
    if everywhere is not None:
        fresh["address"] |= {region: everywhere for regions in list(fresh.values()) for region in regions}
    return {what: dict(sorted(by_region.items())) for what, by_region in sorted(fresh.items())}


def _rate_of(description: str) -> str:
    """What a description is a rate of; empty for all that is not known here."""
    if _OTHERWISE.search(description):
        return ""
    return next((what for beginning, what in _BEGINNINGS.items() if description.startswith(beginning)), "")


def _unit(sku: Any) -> str:
    return str(sku.pricing_info[-1].pricing_expression.usage_unit) if sku.pricing_info else ""


def _hourly(sku: Any) -> float | None:
    """The price of one unit after any free tier; None where there is none."""
    tiers = sku.pricing_info[-1].pricing_expression.tiered_rates if sku.pricing_info else ()
    prices = [tier.unit_price.units + tier.unit_price.nanos * _NANO for tier in tiers if tier.unit_price.currency_code == "USD"]
    return round(max(prices), 9) if prices and max(prices) > 0 else None


def refresh_prices(before: Overlay, regions: Sequence[str], access: GcpAccess, say: Say) -> Refreshed:  # noqa: ARG001 - one list has all
    """Ask Google's Cloud Billing Catalog for the prices of GPUs, vCPUs, memory, disks and addresses; see `refresh_offers`."""
    say("asking Google for the prices of Compute Engine")
    layer, fresh = data.refreshed(), rates(access)
    if not fresh:
        msg = "Google's price list has none of the prices that are looked for"
        raise CloudInvalidError(
            msg, hint="its descriptions may have changed: a newer gpuprov may know them; the shipped prices stay in use"
        )
    changed = [
        f"{what} in {region}: {_known(what, region)} → {usd:g} USD"
        for what, by_region in fresh.items()
        for region, usd in by_region.items()
        if _known(what, region) not in {"unknown", f"{usd:g}"}
    ]
    origin = f"Google Cloud Billing Catalog{f' at {access.endpoint_url}' if access.endpoint_url else ''}"
    layer = msgspec.structs.replace(layer, rates=fresh)
    return Refreshed(before.with_part("gcp-prices", origin, clouds=before.with_cloud("gcp", layer)), changed, [])


def _known(what: str, region: str) -> str:
    """The rate before the refresh, as a word."""
    shipped, old = data.gcp(), data.refreshed().rates.get(what, {}).get(region)
    kind, _, name = what.partition(":")
    n1, disk = shipped.n1_prices.regions.get(region), shipped.disk_prices.regions.get(region)
    usd: float | None = {
        "gpu": next((price.usd_per_hour for price in shipped.prices if price.gpu == name), None),
        "core": n1.vcpu if n1 and name == "n1" else None,
        "ram": n1.memory_gb if n1 and name == "n1" else None,
        "disk": (disk.balanced if name == "balanced" else disk.local_ssd) if disk else None,
        "address": shipped.address_price.usd_per_hour,
    }[kind]
    usd = old if old is not None else usd
    return "unknown" if usd is None else f"{usd:g}"
