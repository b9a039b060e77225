"""A subnet decides on the zone."""

from __future__ import annotations

import pytest

from provision.errors import CapacityError
from tests.clouds.aws.rig import AwsRig


def test_a_subnet_is_in_no_other_zone(rig: AwsRig) -> None:
    order = rig.order()
    zone, *_ = rig.cloud().zones(order)
    inside = rig.order(subnet=rig.subnet(zone))
    assert rig.cloud().zones(inside) == [zone]
    rig.stock({zone: 0})
    with pytest.raises(CapacityError) as caught:
        rig.cloud().launch(inside)
    assert caught.value.elsewhere == ()
    answers = {a.about: a for a in rig.cloud().examine(rig.order(subnet="subnet-0123456789abcdef0"))}
    assert answers["dry-run"].holds is False
    assert "subnet-0123456789abcdef0" in answers["dry-run"].said
