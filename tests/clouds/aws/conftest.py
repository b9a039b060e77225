"""The rig of AWS's tests."""

from __future__ import annotations

import pytest

from provision.clouds.aws.access import AwsAccess
from provision.rehearsal.control import Rehearsal
from tests.clouds.aws.rig import AwsRig


@pytest.fixture
def rig(ec2: Rehearsal, access: AwsAccess) -> AwsRig:
    return AwsRig(ec2, access)
