"""What a profile's machines download at their first boot, and which machines wait for their set-up."""

from __future__ import annotations

import dataclasses
from typing import Any

from provision.clouds.userdata import Downloads
from provision.launch.ahead import downloads
from provision.launch.plan import PlannedPlace, order, plan
from provision.profile import load
from provision.profile.lock import build
from provision.profile.model import Profile
from tests.certificates import AUTHORITY
from tests.launch.conftest import TODAY

T4 = load.load(load.find("t4-train"))


def of(system: str | None = None, sources: dict[str, Any] | None = None, **changes: Any) -> Downloads | None:
    plain = T4.dump()
    profile = Profile.model_validate({**plain, **changes, "sources": {**plain["sources"], **(sources or {})}})
    return downloads(profile, build(profile, TODAY, system=system))


def test_the_wheels_of_the_lock_and_the_packages_without_a_pin() -> None:
    found, lock = of(), build(T4, TODAY)
    assert found is not None
    torch = next(line for line in lock.frameworks["pytorch"].wheels if line.startswith("torch=="))
    assert ("torch", torch.rpartition(":")[2]) in found.wheels
    assert len(set(found.wheels)) == len(found.wheels)
    assert {"cuda-toolkit-13-2", "cuda-nsight-systems-13-2", "ffmpeg"} <= set(found.packages)
    assert not set(lock.packages["nvidia_driver"]) & set(found.packages)
    assert [(each.url, each.fingerprint) for each in found.repositories] == [(each.url, each.fingerprint) for each in lock.repositories]
    assert (found.index, found.environment) == ("https://pypi.org/simple", ())


def test_a_mirror_and_a_proxy_are_those_of_the_profile() -> None:
    found = of(sources={"wheels": {"url": "https://mirror.example.org/simple"}, "proxy": "http://proxy.example.org:3128"})
    assert found is not None
    assert found.index == "https://mirror.example.org/simple"
    assert dict(found.environment)["https_proxy"] == "http://proxy.example.org:3128"


def test_a_machine_that_does_not_trust_the_authority_yet_downloads_nothing() -> None:
    assert of(sources={"ca": AUTHORITY}) is None


def test_a_host_whose_python_is_older_than_ansibles_downloads_nothing() -> None:
    assert of("ubuntu 22.04") is None
    assert of("rocky 9") is None
    assert of("debian 12") is not None


def test_where_a_role_builds_a_wheel_ansible_does_not_run_on_the_host() -> None:
    assert of(stack={**T4.dump()["stack"], "opencv": "cuda"}) is None


def ordered(place: PlannedPlace, **more: Any) -> Downloads | None:
    words: dict[str, Any] = {"name": "a", "launch_id": "0" * 32, "public_key": "ssh-ed25519 AAAA", "deadline": "2026-11-25T00:00:00+00:00"}
    return order(T4, "0" * 64, place, **words, **more).downloads


def test_each_order_has_them_but_of_a_baked_image_and_where_no_index_is_reached() -> None:
    place = plan(T4, build(T4, TODAY)).places[0]
    assert place.downloads == of() == ordered(place)
    assert ordered(place, baked="ami-0") is None
    assert ordered(place, begins_early=False) is None
    assert ordered(dataclasses.replace(place, downloads=None)) is None
