"""Images of one's own on GCP, through Google's client against the embedded one."""

from __future__ import annotations

from typing import Any

import pytest

from provision.clouds.gcp import permissions
from provision.clouds.gcp.place import GcpPlace
from provision.errors import CloudError, PermissionRefusedError
from tests.clouds.gcp.rig import ZONE, GcpRig

PROJECT = "golden-images"
GOLDEN: dict[str, Any] = {"project": PROJECT, "name": "golden-9-v3", "family": "golden-9", "diskSizeGb": "20"}


@pytest.fixture
def images(rig: GcpRig) -> Any:
    yield lambda *given: rig.set(gce_images=list(given))
    rig.set(gce_images=[])


def place(**image: Any) -> GcpPlace:
    where = {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "zones": [ZONE]}
    return GcpPlace.model_validate({**where, "image": {"project": PROJECT, **image}})


def started_from(rig: GcpRig, name: str) -> str:
    raw = next(raw for raw in rig.cloud()._raws(f"name = {name}"))
    disk = raw.disks[0].source.rpartition("/")[2]
    source = rig.cloud()._api.call("Disks", "get", "compute.disks.get", zone=ZONE, disk=disk).source_image
    return str(source.rpartition("/")[2])


@pytest.mark.parametrize("named", [{"family": "golden-9"}, {"name": "golden-9-v3"}], ids=["family", "name"])
def test_an_own_image_is_launched_and_its_login_is_told_to_whoever_asks_later(rig: GcpRig, images: Any, named: dict[str, str]) -> None:
    old = {**GOLDEN, "name": "golden-9-v4", "creationTimestamp": "2026-11-09T00:00:00.000-07:00", "deprecated": {"state": "OBSOLETE"}}
    images(GOLDEN, old)
    order = rig.order(place=place(**named, login="svc-ops")).at(ZONE)
    (machine,) = rig.cloud().launch(order)
    assert machine.login == rig.cloud().find(order.name)[0].login == "svc-ops"
    assert started_from(rig, machine.id) == "golden-9-v3"


NOT_USABLE: list[tuple[dict[str, Any], dict[str, str], str]] = [
    ({}, {"family": "nosuch"}, "was not found"),
    (
        {"deprecated": {"state": "OBSOLETE", "replacement": "projects/golden-images/global/images/new"}},
        {"name": "golden-9-v3"},
        "is obsolete; new",
    ),
    ({"deprecated": {"state": "DEPRECATED"}}, {"family": "golden-9"}, "was not found"),
    ({"architecture": "ARM64"}, {"name": "golden-9-v3"}, "is for ARM64, and n1-standard-8 has X86_64"),
    ({"diskSizeGb": "500"}, {"name": "golden-9-v3"}, "needs 500 GB, and disks.root.size_gb is"),
]


@pytest.mark.parametrize(("fields", "named", "said"), NOT_USABLE, ids=["unknown", "obsolete", "deprecated", "architecture", "size"])
def test_an_image_that_cannot_be_used_is_said_by_plan_and_refused_by_the_launch(
    rig: GcpRig, images: Any, fields: dict[str, Any], named: dict[str, str], said: str
) -> None:
    images({**GOLDEN, **fields})
    order = rig.order(place=place(**named)).at(ZONE)
    (answer,) = [answer for answer in rig.cloud().examine(order) if answer.about == "image"]
    assert answer.holds is False
    assert said in answer.said
    with pytest.raises(CloudError):
        rig.cloud().launch(order)
    assert rig.cloud().find(order.name) == []


def test_the_image_is_told_with_its_project_and_day(rig: GcpRig, images: Any) -> None:
    images(GOLDEN)
    (answer,) = [a for a in rig.cloud().examine(rig.order(place=place(family="golden-9")).at(ZONE)) if a.about == "image"]
    assert answer.said == "golden-9-v3 (project golden-images, 2026-11-01)"


@pytest.mark.parametrize("named", [{"family": "golden-9"}, {"name": "golden-9-v3"}], ids=["family", "name"])
def test_a_permission_on_the_own_image_that_is_missing_is_named(rig: GcpRig, images: Any, named: dict[str, str]) -> None:
    images(GOLDEN)
    order = rig.order(place=place(**named)).at(ZONE)
    needed = permissions.permissions(order)
    reads = "compute.images.get" if "name" in named else "compute.images.getFromFamily"
    rig.set(gce_allowed=[one for one in needed if one != reads])
    (answer,) = [a for a in rig.cloud().examine(order) if a.about == "image"]
    assert reads in answer.said
    rig.set(gce_allowed=[one for one in needed if one != "compute.images.useReadOnly"])
    with pytest.raises(PermissionRefusedError, match=r"compute\.images\.useReadOnly"):
        rig.cloud().launch(order)
    rig.set(gce_allowed=[*needed, "compute.disks.get"])  # the last to look at what was made
    (machine,) = rig.cloud().launch(rig.order(place=place(**named)).at(ZONE))
    assert started_from(rig, machine.id) == "golden-9-v3"
