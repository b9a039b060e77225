from collections.abc import Iterator

import pytest

from provision.rehearsal.control import Rehearsal
from tests.clouds.digitalocean.rig import DigitalOceanRig


@pytest.fixture
def rig(ec2_api: Rehearsal) -> Iterator[DigitalOceanRig]:
    rig = DigitalOceanRig(ec2_api)
    rig.heal()
    rig.forget()
    yield rig
    rig.heal()
