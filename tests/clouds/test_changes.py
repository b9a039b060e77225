"""A call that changes something is announced before it is sent, and told of when it was answered, in each cloud."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.clouds import changes
from provision.clouds.aws.access import AwsAccess
from provision.rehearsal.control import Rehearsal
from tests.clouds.aws.rig import AwsRig
from tests.clouds.digitalocean.rig import DigitalOceanRig
from tests.clouds.gcp.rig import ZONE, GcpRig

ORDERS: dict[str, Callable[[Rehearsal], tuple[Any, Any]]] = {
    "aws": lambda there: (rig := AwsRig(there, AwsAccess(**there.settings("aws"))), rig.order()),
    "gcp": lambda there: (rig := GcpRig(there), rig.order().at(ZONE)),
    "digitalocean": lambda there: (rig := DigitalOceanRig(there), rig.order("changing")),
}


@pytest.mark.parametrize("cloud", ORDERS)
def test_each_call_that_is_told_of_was_announced_before(ec2: Rehearsal, cloud: str) -> None:
    rig, order = ORDERS[cloud](ec2)
    seen: list[str] = []
    with changes.before_each(lambda: seen.append("begins")), changes.heard_by(lambda call: seen.append(call.answer)):
        handle = rig.cloud()
        (machine,) = handle.launch(order)
        handle.remove(handle.things(machine.group), on_step=lambda _: None)
    assert len(seen) >= 4
    assert seen[0] == "begins"
    assert seen.count("begins") == len(seen) / 2
    handle.find()
    assert seen.count("begins") == len(seen) / 2


def test_whoever_does_not_listen_any_more_hears_nothing() -> None:
    seen: list[int] = []
    with changes.before_each(lambda: seen.append(1)):
        changes.begin()
    changes.begin()
    assert seen == [1]
