"""The machines that a new profile asks for, and what is said where there are none."""

from __future__ import annotations

import pytest

from provision import clouds
from provision.catalog.gpu_models import GPU_MODELS
from provision.clouds import machines
from provision.errors import UsageError


def types(gpu: str, *regions: str, count: int | None = None, cloud: str | None = None) -> list[tuple[str, tuple[str, ...]]]:
    return [(m.offer.instance_type, m.place.locations) for m in machines.choose(gpu, regions, count=count, cloud=cloud)]


@pytest.mark.parametrize(
    ("gpu", "region", "count", "expected"),
    [
        ("a10g", "us-east-1", None, "g5.xlarge"),
        ("a10g", "us-east-1", 4, "g5.12xlarge"),
        ("l4", "us-east-1", None, "g6.xlarge"),  # not a fraction of an L4
        ("h200", "us-east-1", None, "p5en.48xlarge"),  # eight are the fewest
        ("t4", "us-central1", None, "n1-standard-4"),  # one vCPU is offered too, and is too few
        ("v100", "us-central1", 8, "n1-standard-32"),
        ("t4g", "us-east-1", None, "g5g.2xlarge"),  # half of the memory is too little
    ],
)
def test_the_smallest_machine_that_can_feed_its_gpus_is_chosen(gpu: str, region: str, count: int | None, expected: str) -> None:
    assert [name for name, _ in types(gpu, region, count=count)] == [expected]


def test_the_regions_keep_their_order_and_those_with_the_same_machine_are_one_place() -> None:
    zones = ("us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f")
    assert types("t4", "us-west-2", "us-central1", "us-east-1", "us-west-2") == [
        ("g4dn.xlarge", ("us-west-2", "us-east-1")),
        ("n1-standard-4", zones),
    ]


def test_each_region_has_its_price_and_those_to_be_enabled_are_named() -> None:
    (machine,) = machines.choose("a10g", ["ap-east-1", "us-east-1"])
    assert machine.prices["ap-east-1"] is None
    assert machine.prices["us-east-1"] == clouds.provider("aws").price("g5.xlarge", "us-east-1", "a10g", 1)
    assert machine.opt_in == ("ap-east-1",)


@pytest.mark.parametrize(
    ("wish", "cloud", "message", "hint"),
    [
        (("t4", "us-eats-1", None), None, "'us-eats-1' is not a region of AWS or DigitalOcean or GCP", "did you mean us-east-1?"),
        (("t4", "us-central1", None), "aws", "'us-central1' is not a region of AWS", "it is a region of GCP"),
        (("t4", "nowhere", None), None, "'nowhere' is not a region of AWS or DigitalOcean or GCP", "`gpuprov catalog instances --gpu GPU`"),
        (
            ("v100", "us-west-1", None),
            None,
            "us-west-1 has no V100",
            "AWS: ap-northeast-1, eu-west-1, us-east-1, us-west-2; GCP: asia-east1",
        ),
        (
            ("a10g", "us-central1", None),
            None,
            "the catalog knows no region of GCP with A10G",
            "`gpuprov catalog refresh --only gcp` asks GCP",
        ),
        (("t4", "ap-east-2", None), None, "what ap-east-2 offers is not in the catalog", "`gpuprov catalog refresh --only aws` asks AWS"),
        (("t4", "us-central1", 3), None, "us-central1 has no machine with 3 x T4", "a machine there has 1, 2, 4 of them"),
    ],
)
def test_a_region_without_the_machine_is_an_error_that_says_which_have_it(
    wish: tuple[str, str, int | None], cloud: str | None, message: str, hint: str
) -> None:
    gpu, region, count = wish
    with pytest.raises(UsageError) as error:
        machines.choose(gpu, [region], count=count, cloud=cloud)
    assert error.value.message == message
    assert hint in error.value.hint


def test_a_gpu_is_sold_where_each_cloud_offers_it_and_the_cheapest_region_is_one_of_them() -> None:
    for gpu in GPU_MODELS:
        sold = machines.sellers(gpu)
        for cloud, regions in sold.items():
            assert all(types(gpu, region, cloud=cloud) for region in regions)
        assert (machines.cheapest_region(gpu) in {region for regions in sold.values() for region in regions}) == bool(sold)
    assert set(machines.sellers("t4")) == {"aws", "gcp"}
    assert machines.sellers("p4") == {}
    assert machines.cheapest_region("p4") == ""
    assert "us-central1" in machines.sellers("rtx-pro-6000")["gcp"]


def test_the_cheapest_region_has_the_lowest_known_price() -> None:
    provider = clouds.provider("aws")
    prices = {region: provider.price("g5.xlarge", region, "a10g", 1) for region in provider.offered_in("g5.xlarge")}
    known = {region: price.usd_per_hour for region, price in prices.items() if price}
    assert machines.cheapest_region("a10g", "aws") == min(known, key=known.__getitem__)
