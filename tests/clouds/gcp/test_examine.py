"""What GCP says before a launch."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest

from provision.clouds.gcp import examine, permissions
from provision.errors import QuotaExceededError
from provision.rehearsal import control
from provision.structs import replace
from tests.clouds.gcp.orders import order
from tests.clouds.gcp.rig import REGION, ZONE, GcpRig
from tests.clouds.gcp.scripted import ScriptedProject


def test_a_quota_is_told_with_limit_and_use(rig: GcpRig) -> None:
    rig.set(gce_quota={REGION: {"NVIDIA_T4_GPUS": 1}})
    cloud = rig.cloud()
    before = rig.order().at(ZONE)
    cloud.remove(cloud.things(), on_step=lambda _: None)  # what the tests before have left counts
    cloud.launch(before)
    with pytest.raises(QuotaExceededError) as caught:
        cloud.launch(rig.order().at(ZONE))
    assert "NVIDIA_T4_GPUS" in caught.value.message
    assert "limit 1, 1 in use" in caught.value.message
    answers = {a.about: a for a in cloud.examine(rig.order().at(ZONE))}
    assert answers["quota"].holds is None  # Google may count a machine that ends so soon against the other one
    assert "1 of 1 used (NVIDIA_T4_GPUS)" in answers["quota"].said
    assert "or as it ends within 7 days 0 of 1000 used (PREEMPTIBLE_NVIDIA_T4_GPUS)" in answers["quota"].said
    rig.set(gce_quota={REGION: {"NVIDIA_T4_GPUS": 1, "PREEMPTIBLE_NVIDIA_T4_GPUS": 0}})
    soon = rig.order().at(ZONE)
    late = replace(soon, deadline=dt.datetime.now(dt.UTC) + dt.timedelta(days=8))
    for asked in (soon, late):
        answers = {a.about: a for a in cloud.examine(asked)}
        assert answers["quota"].holds is False
        assert ("PREEMPTIBLE" in answers["quota"].said) is (asked is soon)


def test_examine_says_what_is_not_there(rig: GcpRig) -> None:
    answers = {
        a.about: a for a in rig.cloud().examine(rig.order(image_id="projects/ubuntu-os-cloud/global/images/nosuch").at("asia-east1-b"))
    }
    assert (answers["offered"].holds, answers["image"].holds) == (False, False)
    assert "nvidia-tesla-t4" in answers["offered"].said
    assert answers["dry-run"].holds is None


@pytest.mark.parametrize(
    ("region", "everywhere", "gpus", "count", "fits"),
    [(3, 9, 1, 1, True), (2, 9, 1, 1, False), (6, 9, 2, 2, True), (5, 9, 2, 2, False), (9, 3, 1, 1, True), (9, 2, 1, 1, False)],
)
def test_what_fills_a_quota_fits_and_one_more_does_not(
    region: int,
    everywhere: int,
    gpus: int,
    count: int,
    fits: bool,  # noqa: FBT001 - a table
) -> None:
    """Two GPUs are in use; the quota of the region and the one over all regions both hold."""

    def quotas(metric: str, limit: int) -> Any:
        return SimpleNamespace(quotas=[SimpleNamespace(metric=metric, limit=float(limit), usage=2.0)])

    project: Any = ScriptedProject(Regions_get=[quotas("NVIDIA_T4_GPUS", region)], Projects_get=[quotas("GPUS_ALL_REGIONS", everywhere)])
    answer = examine._quota(project, order(gpu_count=gpus, count=count), "asia-east2")
    assert answer.holds is fits
    uses = f"2 of {region} used (NVIDIA_T4_GPUS) and 2 of {everywhere} used (GPUS_ALL_REGIONS)"
    assert answer.said == f"{gpus * count} GPUs needed, {uses}"


def about(rig: GcpRig, question: str, **order: Any) -> tuple[bool | None, str]:
    answers = {answer.about: answer for answer in rig.cloud().examine(rig.order(**order).at(ZONE))}
    return answers[question].holds, answers[question].said


def test_an_api_that_is_off_and_a_project_that_nobody_pays_for_are_known_before(rig: GcpRig) -> None:
    assert (about(rig, "apis")[0], about(rig, "billing")[0]) == (True, True)
    rig.set(gce_apis_off=["compute.googleapis.com"], gce_billing=False)
    holds, said = about(rig, "apis")
    assert (holds, "gcloud services enable compute.googleapis.com" in said) == (False, True)
    assert about(rig, "billing")[0] is False
    rig.set(gce_apis_off=[], gce_billing=True)


def test_who_may_not_ask_has_no_answer(rig: GcpRig) -> None:
    needed = permissions.permissions(rig.order().at(ZONE))
    for permission, question in (("serviceusage.services.get", "apis"), ("resourcemanager.projects.get", "billing")):
        rig.set(gce_allowed=[each for each in needed if each != permission])
        holds, said = about(rig, question)
        assert (holds, permission in said) == (None, True)
    rig.set(gce_allowed=list(needed))
    assert {about(rig, question)[0] for question in ("apis", "billing", "network")} == {True}
    rig.set(gce_allowed=None)


@pytest.mark.parametrize(("regions", "holds"), [((REGION, "us-central1"), True), (("us-central1",), False), ((), False)])
def test_a_default_network_without_a_subnetwork_in_the_region_is_known_before(regions: tuple[str, ...], holds: bool) -> None:  # noqa: FBT001 - a table
    links = [f"https://www.googleapis.com/compute/v1/projects/p/regions/{region}/subnetworks/default" for region in regions]
    project: Any = ScriptedProject(Networks_get=[SimpleNamespace(subnetworks=links)])
    assert examine._network(project, order(), REGION).holds is holds
    assert project.sent == [("Networks", "get", "compute.networks.get", {"network": "default"})]


def test_a_project_without_a_default_network_is_known_before(rig: GcpRig) -> None:
    gone = {"kind": "error", "action": "compute.networks.get", "code": "notFound", "http": 404}
    control.ask(rig.rehearsal, "faults", method="PUT", body=[gone])
    assert about(rig, "network")[0] is False
    control.ask(rig.rehearsal, "faults", method="PUT", body=[])
