"""What GCP says before a launch."""

from __future__ import annotations

import pytest

from provision.errors import QuotaExceededError
from tests.clouds.gcp.rig import REGION, ZONE, GcpRig


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
    assert answers["quota"].holds is False
    assert "1 of 1 used (NVIDIA_T4_GPUS)" in answers["quota"].said


def test_examine_says_what_is_not_there(rig: GcpRig) -> None:
    answers = {
        a.about: a for a in rig.cloud().examine(rig.order(image_id="projects/ubuntu-os-cloud/global/images/nosuch").at("asia-east1-b"))
    }
    assert (answers["offered"].holds, answers["image"].holds) == (False, False)
    assert "nvidia-tesla-t4" in answers["offered"].said
    assert answers["dry-run"].holds is None
