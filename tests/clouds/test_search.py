"""What the clouds offer, and why a place cannot be had. The traps are those of docs/sources/clouds.md."""

import itertools

import pytest
from msgspec.structs import replace

from provision import clouds
from provision.clouds import search
from provision.clouds.aws import data
from provision.clouds.aws.provider import family_departure
from provision.clouds.gcp import data as gcp_data
from tests.clouds.offers import why_not_aws, why_not_gcp


@pytest.mark.parametrize(
    ("instance_type", "region", "gpu", "count", "said"),
    [
        ("p3.2xlarge", "us-east-1", "v100", 1, "withdrawn everywhere"),
        ("p3dn.24xlarge", "ap-east-1", "v100", 8, "is not offered in ap-east-1; it is in "),
        ("g4ad.xlarge", "us-east-1", "t4", 1, "(amd), and the profile asks for t4"),
        ("g4dn.16xlarge", "us-east-1", "t4", 2, "has 1 of the 2 GPUs that the profile asks for"),
        ("g4dn.xlrage", "us-east-1", "t4", 1, "did you mean g4dn.xlarge?"),
        ("g4dn.xlarge", "mars-1", "t4", 1, "what mars-1 offers is not recorded"),
        ("g4dn.xlarge", "us-east-1", "t4", 1, ""),
    ],
)
def test_why_an_instance_type_cannot_be_had(instance_type: str, region: str, gpu: str, count: int, said: str) -> None:
    reason = why_not_aws(instance_type, region, gpu, count)
    assert said in reason
    assert bool(said) == bool(reason)


@pytest.mark.parametrize(
    ("machine", "zone", "gpu", "count", "said"),
    [
        ("n1-standard-8", "us-central1-a", "t4", 1, ""),
        ("n1-standard-7", "us-central1-a", "t4", 1, "n1-standard-7 with t4 is not in the catalog"),
        ("n1-highcpu-1", "us-central1-a", "t4", 1, "n1-highcpu-1 with t4 is not in the catalog"),
        ("n1-standard-96", "us-central1-a", "v100", 1, "at most 12 vCPUs"),
        ("n1-standard-8", "us-central1-a", "t4", 3, "not 3"),
        ("g2-standard-4", "us-central1-a", "t4", 1, "has 1 x l4 built in"),
        ("e2-standard-4", "us-central1-a", "t4", 1, "not in the catalog"),
        ("n1-standard-8", "europe-north1-a", "v100", 1, "europe-north1-a has no nvidia-tesla-v100"),
        ("a2-highgpu-1g", "us-central1-f", "a100-40gb", 1, ""),
        ("a2-ultragpu-1g", "us-central1-f", "a100-80gb", 1, "us-central1-f has no nvidia-a100-80gb"),
        # Whole boards alone are sold on demand, and the newest only from reserved capacity.
        ("a3-highgpu-1g", "us-central1-a", "h100", 1, "a3-highgpu-1g is not sold as on-demand, only as spot or flex-start"),
        ("a3-highgpu-8g", "us-central1-a", "h100", 8, ""),
        ("a3-highgpu-8g", "us-central1-f", "h100", 8, "us-central1-f has no nvidia-h100-80gb; it is in 16 regions"),
        ("a3-megagpu-8g", "us-central1-a", "h100", 8, ""),
        ("a3-megagpu-8g", "us-west2-a", "h100", 8, "us-west2-a has no nvidia-h100-mega-80gb; it is in 13 regions"),
        ("g4-standard-48", "us-central1-b", "rtx-pro-6000", 1, ""),
        ("g4-standard-48", "us-central1-a", "rtx-pro-6000", 1, "us-central1-a has no nvidia-rtx-pro-6000; it is in 19 regions"),
        ("n1-standard-8", "us-central1-a", "p100", 1, "the zones with nvidia-tesla-p100 are not recorded"),
        ("a3-ultragpu-8g", "us-central1-a", "h200", 8, "only as spot or flex-start or reservation"),
    ],
)
def test_why_a_machine_type_cannot_be_had(machine: str, zone: str, gpu: str, count: int, said: str) -> None:
    reason = why_not_gcp(machine, zone, gpu, count)
    assert said in reason
    assert bool(said) == bool(reason)


def test_a_fraction_of_a_gpu_is_shown_as_one_and_never_as_none() -> None:
    fractions = [offer for offer in search.offers(cloud="aws") if 0 < offer.gpus < 1]
    assert fractions
    assert all(offer.gpus > 0 for offer in search.offers())


def test_offers_are_narrowed_by_every_word() -> None:
    found = search.affordable(search.offers(gpu="t4", region="us-east-1", cloud="aws"), 1.0)
    assert {o.instance_type for o in found} == {"g4dn.xlarge", "g4dn.2xlarge"}
    assert all(o.price and o.price.usd_per_hour <= 1 and o.zones for o in found)


def test_what_has_no_whole_price_never_fits_under_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = gcp_data.gcp()
    unpriced = replace(whole, n1_prices=replace(whole.n1_prices, regions={}))
    monkeypatch.setattr(gcp_data, "shipped", lambda: unpriced)
    offers = search.offers(gpu="t4", region="europe-central2", cloud="gcp")
    assert {price.missing for o in offers if (price := o.price)} == {("vCPUs", "memory")}
    assert search.affordable(offers, 1000) == []


def test_the_price_of_n1_has_its_gpus_its_vcpus_and_its_memory() -> None:
    price = clouds.provider("gcp").price("n1-standard-96", "us-central1", "t4", 4)
    assert price is not None
    assert [(part.item, part.usd_per_hour) for part in price.parts] == [
        ("4 x t4", 1.4),
        ("96 vCPUs", pytest.approx(96 * 0.031611)),
        ("360 GB of memory", pytest.approx(360 * 0.004237)),
    ]
    assert price.whole
    assert price.usd_per_hour == pytest.approx(5.959976)
    assert all(clouds.sources()[part.source].date for part in price.parts)


def test_a_machine_with_its_gpus_costs_what_its_region_asks() -> None:
    price = clouds.provider("gcp").price
    here, there = price("a2-highgpu-1g", "us-central1", "a100-40gb", 1), price("a2-highgpu-1g", "asia-east2", "a100-40gb", 1)
    assert here is not None
    assert there is not None
    assert (here.usd_per_hour, there.usd_per_hour) == (3.673385, 4.722994)
    assert price("a2-highgpu-1g", "mars-1", "a100-40gb", 1) is None
    four = price("g2-standard-4", "us-central1", "l4", 1)
    assert four is not None
    assert four.usd_per_hour == pytest.approx(0.706832)


def test_a_place_of_spot_is_not_refused_for_what_is_not_sold_on_demand() -> None:
    provider = clouds.provider("gcp")
    place = provider.place.model_validate(
        {"cloud": "gcp", "instance_type": "a3-highgpu-1g", "gpu": "h100", "gpu_count": 1, "zones": ["us-central1-a"], "market": "spot"}
    )
    assert provider.refusal(place, "us-central1-a", "h100", 1) is None


def test_zones_that_nobody_recorded_are_ignorance_and_not_a_refusal() -> None:
    provider = clouds.provider("gcp")
    place = provider.place.model_validate(
        {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "p100", "gpu_count": 1, "zones": ["us-central1-a"]}
    )
    against = provider.refusal(place, "us-central1-a", "p100", 1)
    assert against is not None
    assert against.is_ignorance


def test_a_type_has_the_zones_of_its_gpu_and_their_source() -> None:
    where = search.whereabouts("g4-standard-48")
    assert (where.known, where.zones["us-central1"], where.source) == (True, ("us-central1-b", "us-central1-f"), "skypilot-gcp-vms-v9")
    where = search.whereabouts("a4-highgpu-8g")
    assert (where.zones["us-west3"], where.source) == (("us-west3-b", "us-west3-c"), "skypilot-gcp-vms")
    assert search.whereabouts("a2-highgpu-1g").source == "gcosts-zones-2023-05"
    (offer,) = [each for each in search.offers(gpu="h100", cloud="gcp") if each.instance_type == "a3-highgpu-1g"]
    assert (offer.markets, offer.note) == (("spot",), "not sold on demand: spot or flex-start only")


def test_where_and_elsewhere_name_zones_and_other_clouds() -> None:
    assert search.whereabouts("p3.2xlarge").zones == {}
    assert all(search.whereabouts("g4dn.xlarge").zones.values())
    assert "p3dn.24xlarge" in clouds.elsewhere("v100")
    assert "GCP" in clouds.elsewhere("v100")
    assert clouds.elsewhere("v100") in search.whereabouts("p3.2xlarge").reason


@pytest.mark.parametrize(
    ("cloud", "instance_type", "gpu", "market", "quota"),
    [
        ("aws", "g4dn.xlarge", "t4", "on-demand", "L-DB2E81BA"),
        ("aws", "g4dn.xlarge", "t4", "spot", "L-3819A6DF"),
        ("aws", "p3dn.24xlarge", "v100", "on-demand", "L-417A185B"),
        ("gcp", "n1-standard-8", "t4", "on-demand", "NVIDIA_T4_GPUS"),
        ("gcp", "n1-standard-8", "t4", "spot", "PREEMPTIBLE_NVIDIA_T4_GPUS"),
    ],
)
def test_the_quota_that_a_launch_counts_against(cloud: str, instance_type: str, gpu: str, market: str, quota: str) -> None:
    assert clouds.provider(cloud).quota(instance_type, gpu, market) == quota


def test_every_price_and_every_offer_is_of_a_type_that_exists() -> None:
    types, regions = data.types(), data.aws().regions.codes
    for instance_type, region in data.prices():
        assert region in regions
        assert instance_type in types or family_departure(instance_type)
    for record in types.values():
        assert set(record.offered) <= set(regions)


@pytest.mark.parametrize(
    ("cloud", "instance_type", "disks"),
    [
        ("aws", "g4dn.xlarge", 1),
        ("aws", "p5.48xlarge", 8),
        ("aws", "p3.2xlarge", 0),
        ("aws", "x9.huge", None),
        ("gcp", "n1-standard-8", 1),  # attached, as to the next
        ("gcp", "g2-standard-24", 2),
        ("gcp", "a2-megagpu-16g", 8),
        ("gcp", "g4-standard-48", 0),
        ("gcp", "a3-highgpu-8g", None),
        ("gcp", "a2-ultragpu-1g", 1),
        ("gcp", "a2-ultragpu-8g", None),  # the catalogue has their total alone
        ("gcp", "z9-gpu-1g", None),
    ],
)
def test_how_many_disks_are_inside(cloud: str, instance_type: str, disks: int | None) -> None:
    assert clouds.provider(cloud).local_disks(instance_type) == disks


def test_the_sizes_of_a_family_cost_the_same_multiples_in_every_region() -> None:
    """A row that is 6 or 10 percent above them is the price of a dedicated tenant or a capacity block."""
    priced: dict[tuple[str, str], dict[str, float]] = {}
    for (instance_type, region), (usd, _) in data.prices().items():
        priced.setdefault((instance_type.partition(".")[0], region), {})[instance_type] = usd
    ratios: dict[tuple[str, str], list[float]] = {}
    for sizes in priced.values():
        for one, other in itertools.permutations(sizes, 2):
            ratios.setdefault((one, other), []).append(sizes[one] / sizes[other])
    assert len(ratios) > 100
    assert {pair: found for pair, found in ratios.items() if max(found) / min(found) > 1.035} == {}
