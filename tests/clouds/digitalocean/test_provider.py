"""What is said of DigitalOcean without asking it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from pydantic import ValidationError

from provision import clouds
from provision.clouds.digitalocean import data, image_choice, prices, provider
from provision.clouds.digitalocean.own_image import DigitalOceanOwnImage
from provision.clouds.digitalocean.place import DigitalOceanPlace
from provision.clouds.offline import Provider
from provision.clouds.search import offers, whereabouts
from provision.clouds.terms import Extras, RefusalKind
from provision.errors import ImageNotFoundError
from provision.launch.plan import plan
from provision.profile import load
from provision.profile.lock import build
from provision.profile.model import Profile
from provision.review import policy, rules
from provision.review.exposure import disks, money
from provision.review.risks import gains, risks
from tests.clouds.digitalocean.orders import order

# For mypy: it compares a module with the Protocol.
DIGITALOCEAN: Provider = provider
FINGERPRINT = "3b:16:e4:bf:8b:00:8b:b8:59:8c:a9:d3:f0:19:fa:45"


def place(size: str = "gpu-h100x1-80gb", region: str = "nyc2", **more: object) -> DigitalOceanPlace:
    return DigitalOceanPlace.model_validate({"cloud": "digitalocean", "instance_type": size, "regions": [region], **more})


@pytest.mark.parametrize("size", ["gpu-mi300x1-192gb", "gpu-mi300x8-1536gb", "gpu-mi350x1-288gb"])
def test_the_gpus_of_amd_are_refused_by_name(size: str) -> None:
    with pytest.raises(ValidationError, match="AMD"):
        place(size)
    refusal = provider.why_nowhere(size, None)
    assert (refusal.kind, "AMD" in refusal.message) == (RefusalKind.UNSUPPORTED, True)
    assert "AMD" in whereabouts(size).reason


@pytest.mark.parametrize("words", [{"market": "spot"}, {"regions": ["us-east-1"]}, {"instance_type": "s-1vcpu-1gb"}, {"zones": ["nyc2"]}])
def test_a_place_takes_what_digitalocean_has(words: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        place(**{"size": words.pop("instance_type", "gpu-h100x1-80gb"), **words})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "region", "gpu", "count", "kind"),
    [
        ("gpu-h100x1-80gb", "nyc2", "h100", 1, None),
        ("gpu-h100x8-640gb", "tor1", "h100", 8, None),
        ("gpu-h100x1-80gb", "nyc2", "h100", 2, RefusalKind.TOO_FEW_GPUS),
        ("gpu-h100x1-80gb", "nyc2", "l40s", 1, RefusalKind.WRONG_GPU),
        ("gpu-l40sx1-48gb", "nyc2", "l40s", 1, RefusalKind.NOT_OFFERED),
        ("gpu-h900x1-80gb", "nyc2", "h100", 1, RefusalKind.UNKNOWN_TYPE),
    ],
)
def test_what_is_known_against_a_place(size: str, region: str, gpu: str, count: int, kind: RefusalKind | None) -> None:
    against = clouds.refusal(place(size, region), region, gpu, count)
    assert (against.kind if against else None) is kind


def test_every_size_has_a_gpu_of_the_catalog_a_price_and_a_region() -> None:
    for offer in provider.offers():
        assert offer.gpu in {"h100", "h200", "l40s", "rtx-4000-ada", "rtx-6000-ada"}
        assert offer.regions
        price = provider.price(offer.instance_type, offer.regions[0], offer.gpu or "", int(offer.gpus))
        assert price is not None
        assert price.whole
        assert price.source in provider.sources()
        assert provider.names_type(offer.instance_type)


def test_the_disk_of_a_size_is_in_its_price_and_a_volume_is_not() -> None:
    assert prices.extras_price("gpu-h100x1-80gb", "nyc2", Extras(network_gb=200)).usd_per_hour == 0
    (part,) = prices.extras_price("gpu-h100x1-80gb", "nyc2", Extras(network_gb=300, volume_gb=100)).parts
    assert part.item == "100 GB of volume"
    assert part.usd_per_hour == pytest.approx(10 / 730, abs=1e-6)


def test_an_image_with_a_driver_needs_a_registered_key_and_root_never_logs_in() -> None:
    with pytest.raises(ValidationError, match="ssh_key"):
        DigitalOceanOwnImage.model_validate({"slug": "gpu-h100x1-base"})
    with pytest.raises(ValidationError, match="slug"):
        DigitalOceanOwnImage.model_validate({"slug": "x", "id": 3})
    with pytest.raises(ValidationError, match="root never logs in"):
        DigitalOceanOwnImage.model_validate({"id": 3, "login": "root"})
    own = place(image={"slug": "gpu-h100x1-base", "ssh_key": FINGERPRINT, "has": {"driver": "580"}})
    assert image_choice.source_image(order(place=own)) == "gpu-h100x1-base"
    assert image_choice.login_of(order(place=own)) == "ubuntu"
    with pytest.raises(ImageNotFoundError, match="rocky 9"):
        image_choice.source_image(order(os=("rocky", "9")))


@pytest.mark.parametrize(
    ("image", "says"),
    [
        ({}, ""),
        ({"status": "pending"}, "is pending"),
        ({"status": "available", "regions": ["tor1"]}, "is not in nyc2"),
        ({"min_disk_size": 900}, "needs 900 GiB, and gpu-h100x1-80gb has 720"),
    ],
)
def test_why_a_droplet_does_not_start_from_an_image(image: dict[str, object], says: str) -> None:
    assert image_choice.problem(image, order(), "nyc2") == says


@pytest.mark.parametrize(
    ("subnet", "private", "regions", "says"),
    [
        (None, False, [], ""),
        (None, True, [], "needs subnet"),
        ("lab", False, [], "id of a VPC"),
        ("760e09ef-dc84-11e8-981e-3cfdfeaae000", True, ["nyc2"], ""),
        ("760e09ef-dc84-11e8-981e-3cfdfeaae000", True, ["nyc2", "tor1"], "one region"),
    ],
)
def test_a_subnet_is_a_vpc_of_one_region(subnet: str | None, private: bool, regions: list[str], says: str) -> None:  # noqa: FBT001 - a case
    found = provider.subnet_problem(subnet, private=private, regions=regions)
    assert says in found
    assert bool(found) == bool(says)


def profile(**changes: object) -> Profile:
    base = load.load(load.find("h100-train")).dump()
    here = {"cloud": "digitalocean", "instance_type": "gpu-h100x1-80gb", "regions": ["nyc2"]}
    disks = {"root": {"size_gb": 200}}
    return Profile.model_validate({**base, "places": [here], "disks": disks, **changes})


def test_a_plan_over_three_clouds_is_ordered_by_price() -> None:
    places = [
        {"cloud": "aws", "instance_type": "p5.48xlarge", "regions": ["us-east-1"]},
        {"cloud": "gcp", "instance_type": "a3-highgpu-8g", "gpu": "h100", "gpu_count": 8, "zones": ["us-central1-a"]},
        {"cloud": "digitalocean", "instance_type": "gpu-h100x8-640gb", "regions": ["tor1"]},
    ]
    asked = profile(places=places, limits={"price_per_hour_usd": 100, "deadline_h": 4, "unknown_price": "allow"})
    planned = plan(asked, build(asked, dt.date(2026, 11, 22)), cheapest=True)
    assert [each.cloud for each in planned.places] == ["digitalocean", "aws", "gcp"]
    assert planned.places[0].whole_price_usd == 35.28


def test_a_plan_shows_every_call_and_no_key() -> None:
    asked = profile()
    planned = plan(asked, build(asked, dt.date(2026, 11, 22)))
    actions = [call.action for call in planned.calls]
    assert actions.index("firewalls_create") < actions.index("droplets_create")
    assert actions[actions.index("firewalls_create") :].count("droplets_list") == 3
    (create,) = [call for call in planned.calls if call.action == "droplets_create"]
    assert "<the host key that gpuprov makes for this launch>" in create.parameters["user_data"]
    assert "PRIVATE KEY" not in str(planned.calls)
    (mine,) = planned.permissions
    assert (mine.document, "droplet:create" in mine.actions) == (None, True)


def test_the_cheapest_h100_is_found_beside_those_of_the_others() -> None:
    found = {offer.instance_type: offer for offer in offers(gpu="h100")}
    assert {found[name].cloud for name in ("gpu-h100x1-80gb", "p5.48xlarge", "a3-highgpu-8g")} == {"digitalocean", "aws", "gcp"}
    assert data.size("gpu-h100x1-80gb") is not None


def test_the_review_says_what_is_less_than_at_other_clouds() -> None:
    asked = profile()
    planned = plan(asked, build(asked, dt.date(2026, 11, 22)))
    found = {risk.id: risk for risk in risks(planned, {}, packages=(), environments=(), differs=(), verdict=None)}
    assert {found[name].severity for name in ("deadline-inside", "host-key-given", "disk-doubt")} == {"medium"}
    gained = {gain.title for gain in gains(planned)}
    assert "The machine powers itself off" in gained
    assert not {"The machine ends itself", "Disks are encrypted"} & gained
    assert "until it is removed" in money(planned).beside
    assert [disk.encrypted for disk in disks(planned)] == ["not known"]


@pytest.mark.parametrize(
    ("rule", "says"),
    [("encrypted_disks: volumes", "nothing of the disks"), ("max_price_to_deadline_usd: 100", "the deadline ends no cost in nyc2")],
)
def test_a_rule_that_nobody_can_check_here_is_not_known_to_be_kept(rule: str, says: str) -> None:
    asked, day = profile(limits={"price_per_hour_usd": 5, "deadline_h": 4}), dt.date(2026, 11, 22)
    organisation = policy.parse(f"schema: 1\nname: isa\n{rule}\n".encode(), Path("policy.yml"))
    broken = rules.judge(organisation, asked, build(asked, day), b"", day)
    assert [(violation.known, says in violation.reason) for violation in broken] == [(False, True)]
