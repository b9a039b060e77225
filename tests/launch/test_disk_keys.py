"""A launch whose disks' key cannot be used: the error names it, no other place is tried, and nothing stays behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.clouds.aws.access import AwsAccess
from provision.errors import DiskKeyRefusedError
from provision.launch.attempts import LaunchRequest
from provision.launch.plan import plan
from provision.profile import load
from provision.profile.lock import build
from provision.profile.model import Profile
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.launch.conftest import TODAY, aws_everything
from tests.launch.test_private import KEY, PLACE, REGION, launcher_of


def test_a_refused_key_stops_the_launch_and_leaves_nothing(access: AwsAccess, ec2: Rehearsal, tmp_path: Path) -> None:
    control.ask(ec2, "settings", method="PUT", body={"missing": ["alias/gone"]})
    places = [{**PLACE, "disk_key": "alias/gone"}, {**PLACE, "regions": ["ap-northeast-1"]}]
    asked = Profile.model_validate({**load.load(load.find("t4-train")).dump(), "places": places})
    launcher = launcher_of(access, tmp_path, rehearsal=False)
    request = LaunchRequest(plan(asked, build(asked, TODAY), "keyed"), KEY)
    with pytest.raises(DiskKeyRefusedError, match="alias/gone"):
        launcher.ensure(request)
    assert [(row.region, row.outcome) for row in launcher.attempts] == [(REGION, "disk-key-refused")]
    assert aws_everything(ec2, (REGION, "ap-northeast-1"), "keyed") == []
    assert launcher.journal.get("keyed") is None
    control.ask(ec2, "settings", method="PUT", body={"missing": []})
    assert [made.region for made in launcher.ensure(request)] == [REGION]
