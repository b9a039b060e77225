"""What AWS says today about its GPU instance types: which there are, where, at what price, and the newest images."""

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from provision.catalog import read
from provision.catalog.overlay import Overlay
from provision.clouds.aws import data
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.api import AwsRegionApi
from provision.clouds.aws.client import client
from provision.clouds.aws.data import AwsImageFacts, AwsPrice, AwsSpotPrice, AwsType
from provision.clouds.aws.errors import cloud_errors
from provision.clouds.aws.image_choice import Ami, Wanted, of_system
from provision.clouds.aws.images import Images
from provision.clouds.terms import Refreshed, Say
from provision.concurrent import at_once
from provision.errors import CloudError, ImageNotFoundError, counted

_PRICING_REGION: Final = "us-east-1"  # the Price List API lives here and in two other regions, for all regions


def instance_types(region: str, access: AwsAccess) -> list[AwsType]:
    """The instance types with GPUs of NVIDIA and AMD, without where they are offered: `offered_zones` asks for that."""
    with cloud_errors("ec2:DescribeInstanceTypes", region):
        pages = client("ec2", region, access).get_paginator("describe_instance_types").paginate()
        records = [_type(raw) for page in pages for raw in page["InstanceTypes"] if raw.get("GpuInfo", {}).get("Gpus")]
    return [record for record in records if record is not None]


def _type(raw: dict[str, Any]) -> AwsType | None:
    gpu = raw["GpuInfo"]["Gpus"][0]
    vendor = gpu.get("Manufacturer", "").lower()
    if vendor not in {"nvidia", "amd"}:
        return None
    mib = gpu["MemoryInfo"]["SizeInMiB"]
    count = gpu.get("Count") or gpu.get("GpuPartitionSize", 0)  # EC2 gives Count 0 for a fraction of a GPU
    disks = raw.get("InstanceStorageInfo", {}).get("Disks", [])
    return AwsType(
        type=raw["InstanceType"],
        vendor=vendor,
        gpu=_model(gpu["Name"], mib),
        gpu_name=gpu["Name"],
        gpus=count,
        gpu_mib=mib,
        vcpus=raw["VCpuInfo"]["DefaultVCpus"],
        memory_gib=raw["MemoryInfo"]["SizeInMiB"] / 1024,
        nvme_gb=[disk["SizeInGB"] for disk in disks for _ in range(disk["Count"])],
        network=raw["NetworkInfo"]["NetworkPerformance"],
        boot=raw.get("SupportedBootModes", []),
        markets=raw.get("SupportedUsageClasses", []),
        machine="arm64" if "arm64" in raw["ProcessorInfo"]["SupportedArchitectures"] else "x86_64",
        efa=raw["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        efa_first=_first_adapter(raw["NetworkInfo"].get("NetworkCards", [])),
        source="refreshed-aws",
        offered={},
    )


def _first_adapter(cards: Iterable[dict[str, Any]]) -> int:
    """The first network card that can have an adapter; 0 where EC2 does not say what cards can have."""
    return min((card["NetworkCardIndex"] for card in cards if "efa" in card.get("InterfaceTypes", ())), default=0)


def _model(name: str, mib: int) -> str | None:
    """Our model for EC2's name; the A100s differ by memory only."""
    models = [model for model, ec2_name in data.aws().gpu_names.items() if ec2_name == name]
    return min(models, key=lambda model: abs(read.gpu(model).memory_gb * 1024 - mib)) if models else None


def offered_zones(region: str, types: Iterable[str], access: AwsAccess) -> dict[str, list[int]]:
    """Instance type → the numbers of the zone ids of this region that offer it."""
    names, zones = set(types), defaultdict(list)
    with cloud_errors("ec2:DescribeInstanceTypeOfferings", region):
        pager = client("ec2", region, access).get_paginator("describe_instance_type_offerings")
        for page in pager.paginate(LocationType="availability-zone-id"):
            for offering in page["InstanceTypeOfferings"]:
                number = offering["Location"].rpartition("-az")[2]
                if offering["InstanceType"] in names and number.isdigit():
                    zones[offering["InstanceType"]].append(int(number))
    return {name: sorted(numbers) for name, numbers in zones.items()}


def newest_images(region: str, access: AwsAccess) -> tuple[dict[str, Ami], list[str]]:
    """System → its newest image in the region, and why a system has none there.

    Raises:
        CloudError: the region does not answer, or refuses.
    """
    images, newest, lacking = Images(AwsRegionApi(region, access)), {}, []
    for record in data.aws().images:
        system = f"{record.os} {record.version}"
        if system in _launched():
            want = of_system(record)
            try:
                found = images.find(want, record.root_device)
                newest[system] = images.find(Wanted("", id=found.id, own=True), found.root_device)
            except ImageNotFoundError as error:
                lacking.append(f"{system}: {error.message}")
    return newest, lacking


def _launched() -> set[str]:
    """The systems that machines are launched with."""
    return {system.key for system in read.systems().systems if not system.subscribed}


def prices(region: str, types: Iterable[str], access: AwsAccess) -> list[AwsPrice]:
    """On-demand prices of Linux on shared hardware, in US dollars an hour; a type without one is left out."""
    records = []
    with cloud_errors("pricing:GetProducts", _PRICING_REGION):
        pages = client("pricing", _PRICING_REGION, access).get_paginator("get_products")
        for name in types:
            terms = {
                "regionCode": region,
                "instanceType": name,
                "operatingSystem": "Linux",
                "tenancy": "Shared",
                "preInstalledSw": "NA",
                "capacitystatus": "Used",
                "marketoption": "OnDemand",  # otherwise capacity blocks come with it, at 0 USD
            }
            filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in terms.items()]
            products = [text for page in pages.paginate(ServiceCode="AmazonEC2", Filters=filters) for text in page["PriceList"]]
            hourly = [price for product in products for price in _hourly(json.loads(product))]
            if hourly:
                records.append(AwsPrice(name, region, max(hourly), "refreshed-prices"))
    return records


def disk_price(region: str, access: AwsAccess) -> float | None:
    """US dollars for a GB and month of gp3 in a region; None where AWS has no price of it."""
    terms = {"regionCode": region, "productFamily": "Storage", "volumeApiName": "gp3"}
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in terms.items()]
    with cloud_errors("pricing:GetProducts", _PRICING_REGION):
        pages = client("pricing", _PRICING_REGION, access).get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=filters)
        monthly = [price for page in pages for text in page["PriceList"] for price in _priced(json.loads(text), "GB-Mo")]
    return max(monthly, default=None)


def spot_prices(region: str, types: Iterable[str], access: AwsAccess) -> list[AwsSpotPrice]:
    """The last spot price of each type in each zone of a region; a type that has none is left out."""
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    zones: dict[str, dict[str, tuple[dt.datetime, float]]] = defaultdict(dict)
    with cloud_errors("ec2:DescribeSpotPriceHistory", region):
        pages = client("ec2", region, access).get_paginator("describe_spot_price_history")
        for page in pages.paginate(InstanceTypes=list(types), ProductDescriptions=["Linux/UNIX"], StartTime=now):
            for row in page["SpotPriceHistory"]:
                last = (row["Timestamp"], float(row["SpotPrice"]))
                known = zones[row["InstanceType"]].setdefault(row["AvailabilityZone"], last)
                zones[row["InstanceType"]][row["AvailabilityZone"]] = max(known, last)
    return [AwsSpotPrice(name, region, {zone: usd for zone, (_, usd) in sorted(rows.items())}, now) for name, rows in sorted(zones.items())]


def _hourly(product: dict[str, Any]) -> list[float]:
    return _priced(product, "Hrs")


def _priced(product: dict[str, Any], unit: str) -> list[float]:
    """The prices of a product for one unit; a price of nothing is none."""
    dimensions = [d for term in product["terms"].get("OnDemand", {}).values() for d in term["priceDimensions"].values()]
    priced = [float(d["pricePerUnit"]["USD"]) for d in dimensions if d["unit"] == unit and "USD" in d["pricePerUnit"]]
    return [price for price in priced if price > 0]


def refresh_offers(before: Overlay, regions: Sequence[str], access: AwsAccess, say: Say) -> Refreshed:
    """Ask EC2 for its GPU instance types, and each region for what it offers and for its newest images.

    Args:
        before: the overlay so far.
        regions: to ask; all that the catalog knows when empty.
        access: whose AWS.
        say: told about progress.

    Raises:
        CloudError: no region answered.
    """
    where = list(regions) or [code for code, region in data.aws().regions.codes.items() if region.zones is not None]
    say(f"asking AWS for instance types and the offers of {counted(len(where), 'region')}")
    base, layer = data.types(), data.refreshed()
    current = {record.type: record for record in instance_types(where[0], access)}
    fresh = {name: msgspec.structs.replace(record, offered={}) for name, record in current.items()}
    newest, described = dict(layer.images), dict(layer.described)
    changed = [f"new instance type {name}" for name in sorted(set(current) - set(base))]
    failed, answered = [], []

    def ask(region: str) -> tuple[dict[str, list[int]], tuple[dict[str, Ami], list[str]]] | CloudError:
        try:
            return offered_zones(region, current, access), newest_images(region, access)
        except CloudError as error:
            return error

    for region, answer in zip(where, at_once(ask, where, most=10), strict=True):
        if isinstance(answer, CloudError):
            failed.append(f"aws {region}: {answer.message}")
            continue
        offered, (images, lacking) = answer
        newest[region] = {system: image.id for system, image in images.items()}
        described |= {image.id: AwsImageFacts(image.name, image.owner, image.created) for image in images.values()}
        failed += [f"aws {region}: {line}" for line in lacking]
        answered.append(region)
        for name, zones in offered.items():
            fresh[name].offered[region] = zones
        changed += _moved(region, base, offered)
    if not answered:
        msg = "no region of AWS answered"
        raise CloudError(msg, hint="see the reasons; the shipped data stays in use", detail="; ".join(failed))
    layer = msgspec.structs.replace(
        layer, types=list(fresh.values()), regions=answered, images=newest, described=_in_use(described, newest)
    )
    origin = f"EC2 and SSM{f' at {access.endpoint_url}' if access.endpoint_url else ''}"
    return Refreshed(before.with_part("aws", origin, clouds=before.with_cloud("aws", layer)), changed, failed)


def _in_use(described: dict[str, AwsImageFacts], newest: dict[str, dict[str, str]]) -> dict[str, AwsImageFacts]:
    """What is known of the images that are still the newest somewhere."""
    ids = {image_id for images in newest.values() for image_id in images.values()}
    return {image_id: about for image_id, about in described.items() if image_id in ids}


def _moved(region: str, base: dict[str, AwsType], offered: Iterable[str]) -> list[str]:
    """What a region has now and had not before, and the reverse."""
    before = {name for name, record in base.items() if region in record.offered and record.withdrawn is None}
    new, old = sorted(set(offered) - before), sorted(before - set(offered))
    return [f"{region}: now has {name}" for name in new] + [f"{region}: no longer has {name}" for name in old]


def refresh_prices(before: Overlay, regions: Sequence[str], access: AwsAccess, say: Say) -> Refreshed:
    """Ask for the prices of the NVIDIA instance types in each region, on demand and spot, and of gp3; see `refresh_offers`."""
    layer, old = data.refreshed(), data.prices()
    fresh = {(price.instance_type, price.region): price for price in layer.prices}
    disks, spot = dict(layer.disks), {(price.instance_type, price.region): price for price in layer.spot}
    changed, failed = [], list[str]()
    for region in regions or [code for code, record in data.aws().regions.codes.items() if record.zones is not None]:
        names = [record.type for record in data.types().values() if region in record.offered and record.vendor == "nvidia"]
        say(f"asking AWS for {counted(len(names), 'price')} in {region}")
        for price in prices(region, names, access):
            pair = (price.instance_type, price.region)
            usd, _ = old.get(pair, ("unknown", ""))
            if usd != price.usd_per_hour:
                changed.append(f"{pair[0]} in {pair[1]}: {usd} → {price.usd_per_hour} USD/h")
            fresh[pair] = price
        monthly, (known, _) = disk_price(region, access), data.disk_price(region) or ("unknown", "")
        if monthly is not None:
            changed += [f"gp3 in {region}: {known} → {monthly} USD for a GB and month"] if known != monthly else []
            disks[region] = monthly
        try:
            spot |= {(price.instance_type, price.region): price for price in spot_prices(region, names, access)}
        except CloudError as error:  # a right of its own, which who may read the price list need not have
            failed.append(f"spot prices of {region}: {error.message}")
    layer = msgspec.structs.replace(layer, prices=list(fresh.values()), disks=disks, spot=list(spot.values()))
    origin = f"AWS Price List API and EC2's spot price history{f' at {access.endpoint_url}' if access.endpoint_url else ''}"
    return Refreshed(before.with_part("prices", origin, clouds=before.with_cloud("aws", layer)), changed, failed)
