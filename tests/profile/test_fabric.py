"""Which machines need the fabric manager, and what the lock installs of it: names by system, package manager and driver branch."""

import datetime as dt
from typing import Any

import pytest

from provision import clouds
from provision.catalog import read
from provision.catalog.records.base import version
from provision.errors import StackConflictError
from provision.profile import load
from provision.profile.fabric import has_nvlink5, has_nvswitch, why_not
from provision.profile.lock import build
from provision.profile.model import Profile

TODAY = dt.date(2026, 11, 21)
P5 = {"cloud": "aws", "instance_type": "p5.48xlarge", "regions": ["us-east-1"]}
FOUR = {"cloud": "gcp", "instance_type": "a2-highgpu-4g", "zones": ["us-central1-a"], "gpu": "a100-40gb", "gpu_count": 4}
BOARD = {"cloud": "gcp", "instance_type": "a2-highgpu-8g", "zones": ["us-central1-a"], "gpu": "a100-40gb", "gpu_count": 8}
NEW = {"cloud": "aws", "instance_type": "p9.96xlarge", "regions": ["us-east-1"]}  # not in the catalog
P6 = {"cloud": "aws", "instance_type": "p6-b200.48xlarge", "regions": ["us-east-1"]}


def profile(model: str, count: int, *places: dict[str, Any], system: str = "ubuntu 24.04", driver: str = "auto", **more: Any) -> Profile:
    plain = load.load(load.find("t4-train")).dump()
    name, release = system.split()
    plain |= {"os": {"name": name, "version": release}, "places": list(places), **more}
    plain["gpu"] |= {"model": model, "count": count, "application_clocks": "default"}
    plain["stack"] |= {"driver": driver, "frameworks": {}, "extras": []}
    return Profile.model_validate(plain)


@pytest.mark.parametrize(
    ("asked", "switched"),
    [
        (profile("h100", 8, P5), True),
        (profile("a100-40gb", 4, FOUR), False),
        (profile("a100-40gb", 4, FOUR, BOARD), True),  # one of the places is enough
        (profile("a100-40gb", 8, BOARD), True),
        (profile("t4", 1), False),
        (profile("h100", 8), True),  # a host that exists
        (profile("h100", 7), False),
        (profile("v100", 8), False),  # NVLink without a switch
        (profile("l40s", 8), False),
        (profile("h200", 8, NEW), True),  # the type says nothing, so the number of GPUs counts
        (profile("h200", 4, NEW), False),
    ],
)
def test_the_machine_type_decides_and_without_one_the_number_of_gpus(asked: Profile, *, switched: bool) -> None:
    assert has_nvswitch(asked) is switched


def test_every_machine_of_the_clouds_agrees_with_the_board_of_its_gpu() -> None:
    """Two sources, one about machines and one about boards, that must say the same of each type."""
    switched = {}
    for provider in clouds.providers():
        for offer in provider.offers():
            board = read.gpu(offer.gpu).nvswitch_from if offer.gpu else None
            switched[offer.instance_type] = provider.has_nvswitch(offer.instance_type)
            assert switched[offer.instance_type] is (board is not None and offer.gpus >= board), offer.instance_type
    assert {"p4d.24xlarge", "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge"} <= {t for t, has in switched.items() if has}
    assert not any(switched[name] for name in ("p3dn.24xlarge", "p5.4xlarge", "g6e.48xlarge"))
    assert clouds.provider("gcp").has_nvswitch("a2-megagpu-16g")
    assert [clouds.provider(cloud).has_nvswitch("p9.96xlarge") for cloud in clouds.CLOUDS] == [None, None, None]
    assert clouds.provider("gcp").has_nvswitch("n1-standard-4") is False


@pytest.mark.parametrize(
    ("system", "driver", "gpu", "places", "packages"),
    [
        ("ubuntu 22.04", "595", "h100", (P5,), ("nvidia-fabricmanager=595.*",)),
        ("ubuntu 24.04", "580", "h100", (P5,), ("nvidia-fabricmanager=580.*",)),
        ("ubuntu 24.04", "570", "h100", (P5,), ("nvidia-fabricmanager-570=570.*",)),
        ("debian 12", "595", "h100", (P5,), ("nvidia-fabricmanager=595.*",)),
        ("debian 12", "550", "h100", (), ("nvidia-fabricmanager-550=550.*",)),
        ("rocky 9", "595", "h100", (P5,), ("nvidia-fabricmanager-595.*",)),
        ("rocky 9", "570", "h100", (P5,), ("nvidia-fabric-manager-570.*",)),
        ("ubuntu 24.04", "595", "b200", (P6,), ("nvidia-fabricmanager=595.*", "nvlsm", "infiniband-diags", "linux-modules-extra-aws")),
        ("ubuntu 24.04", "570", "b200", (), ("nvidia-fabricmanager-570=570.*", "nvlsm", "infiniband-diags")),
        ("debian 12", "595", "b200", (), ("nvidia-fabricmanager=595.*", "nvlsm", "infiniband-diags")),
        ("rocky 9", "595", "b200", (P6,), ("nvidia-fabricmanager-595.*", "nvlsm", "infiniband-diags")),
        ("ubuntu 24.04", "595", "h100", ({**P5, "instance_type": "p5.4xlarge"},), ()),
    ],
)
def test_the_lock_names_the_fabric_manager_as_the_system_and_the_branch_do(
    system: str, driver: str, gpu: str, places: tuple[dict[str, Any], ...], packages: tuple[str, ...]
) -> None:
    count = 1 if places and places[0]["instance_type"] == "p5.4xlarge" else 8
    assert build(profile(gpu, count, *places, system=system, driver=driver), TODAY).packages.get("fabric_manager", ()) == packages


@pytest.mark.parametrize("system", ["debian 12", "debian 13"])
def test_a_distribution_without_a_fabric_manager_is_refused_for_an_nvswitch_machine_only(system: str) -> None:
    own: dict[str, Any] = {"sources": {"packages": "distribution"}, "system": system}
    assert "fabric_manager" not in build(profile("a100-40gb", 4, **own), TODAY).packages
    with pytest.raises(StackConflictError) as caught:
        build(profile("a100-40gb", 8, **own), TODAY)
    assert f"{system} itself packages no fabric manager" in caught.value.message
    assert "sources.packages" in caught.value.hint


def test_nvlink_5_begins_with_blackwells_data_centre_cards() -> None:
    assert [has_nvlink5(profile(model, 8)) for model in ("h200", "b200", "b300")] == [False, True, True]


def test_why_there_is_no_need_of_it_names_the_machines_or_the_gpus() -> None:
    assert why_not(profile("a100-40gb", 4, FOUR)) == "a2-highgpu-4g: no NVSwitch"
    assert why_not(profile("h100", 2)) == "2 x H100: no board with NVSwitches"


@pytest.mark.parametrize("branch", ["590", "595", "610", "620"])
def test_ubuntus_driver_without_a_suffix_brings_the_daemon_for_persistence_mode(branch: str) -> None:
    """Up to 580 nvidia-compute-utils-<branch> has it; the unsuffixed packages of compute only do not bring it by themselves."""
    for modules in ("open", "proprietary"):
        records = [p for p in read.driver().packages if p.only == "ubuntu" and version(p.upto) >= version(branch)]
        assert all("nvidia-persistenced" in getattr(record, modules).compute for record in records)
