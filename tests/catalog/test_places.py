"""What the clouds offer, and why a place cannot be had. The traps are those of docs/sources/clouds.md."""

import pytest

from provision.catalog import places, read


@pytest.mark.parametrize(
    ("instance_type", "region", "gpu", "count", "said"),
    [
        ("p3.2xlarge", "us-east-1", "v100", 1, "withdrawn everywhere"),
        ("p3dn.24xlarge", "ap-east-1", "v100", 8, "is not offered in ap-east-1; it is in "),
        ("g4ad.xlarge", "us-east-1", "t4", 1, "(amd), and t4 is asked for"),
        ("g4dn.16xlarge", "us-east-1", "t4", 2, "has 1 GPU(s), and 2 are asked for"),
        ("g4dn.xlrage", "us-east-1", "t4", 1, "did you mean g4dn.xlarge?"),
        ("g4dn.xlarge", "mars-1", "t4", 1, "what mars-1 offers is not recorded"),
        ("g4dn.xlarge", "us-east-1", "t4", 1, ""),
    ],
)
def test_why_an_instance_type_cannot_be_had(instance_type: str, region: str, gpu: str, count: int, said: str) -> None:
    reason = places.why_not_aws(instance_type, region, "on-demand", gpu, count)
    assert said in reason
    assert bool(said) == bool(reason)


@pytest.mark.parametrize(
    ("machine", "zone", "gpu", "count", "said"),
    [
        ("n1-standard-8", "us-central1-a", "t4", 1, ""),
        ("n1-standard-96", "us-central1-a", "v100", 1, "at most 12 vCPUs"),
        ("n1-standard-8", "us-central1-a", "t4", 3, "not 3"),
        ("g2-standard-4", "us-central1-a", "t4", 1, "has 1 x l4 built in"),
        ("e2-standard-4", "us-central1-a", "t4", 1, "not in the catalogue"),
        ("n1-standard-8", "europe-north1-a", "v100", 1, "europe-north1-a has no nvidia-tesla-v100"),
    ],
)
def test_why_a_machine_type_cannot_be_had(machine: str, zone: str, gpu: str, count: int, said: str) -> None:
    reason = places.why_not_gcp(machine, zone, gpu, count)
    assert said in reason
    assert bool(said) == bool(reason)


def test_a_fraction_of_a_gpu_is_shown_as_one_and_never_as_none() -> None:
    fractions = [offer for offer in places.offers(cloud="aws") if 0 < offer.gpus < 1]
    assert fractions
    assert all(offer.gpus > 0 for offer in places.offers())


def test_offers_are_narrowed_by_every_word() -> None:
    found = places.offers(gpu="t4", region="us-east-1", cloud="aws", max_price=1.0)
    assert {o.instance_type for o in found} == {"g4dn.xlarge", "g4dn.2xlarge"}
    assert all(o.price and o.price.usd_per_hour <= 1 and o.zones for o in found)


def test_what_has_no_whole_price_never_fits_under_a_price() -> None:
    assert not [o for o in places.offers(gpu="t4", cloud="gcp", max_price=1000) if o.instance_type.startswith("n1-")]


def test_where_and_elsewhere_name_zones_and_other_clouds() -> None:
    assert places.where("aws", "p3.2xlarge") == {}
    assert all(zones for zones in places.where("aws", "g4dn.xlarge").values())
    assert "p3dn.24xlarge" in places.elsewhere("v100")
    assert "GCP" in places.elsewhere("v100")


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
    assert places.quota_of(cloud, instance_type, gpu, market) == quota


def test_every_price_and_every_offer_is_of_a_type_that_exists() -> None:
    types, regions = read.aws_types(), read.aws().regions.codes
    for price in read.aws().prices:
        assert price.region in regions
        assert price.instance_type in types or places.gone(price.instance_type)
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
        ("gcp", "a3-highgpu-8g", 0),
        ("gcp", "a2-ultragpu-1g", 1),
        ("gcp", "a2-ultragpu-8g", None),  # the catalogue has their total alone
        ("gcp", "z9-gpu-1g", None),
    ],
)
def test_how_many_disks_are_inside(cloud: str, instance_type: str, disks: int | None) -> None:
    assert places.local_disks(cloud, instance_type) == disks
