"""The scopes that an order needs: enough for its life, and none too many."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from provision.clouds import base
from provision.clouds.digitalocean import permissions
from provision.errors import PermissionRefusedError
from provision.host import hostkeys
from provision.rehearsal import control
from tests.clouds.contract import alive
from tests.clouds.digitalocean.rig import DigitalOceanRig


def life(rig: DigitalOceanRig, order: base.Order) -> None:
    """Everything that is done with the machines of an order."""
    cloud = rig.cloud()
    cloud.examine(order)
    running = [cloud.wait_running(i, timeout_s=240) for i in cloud.launch(order)]
    cloud.host_keys(running[0], timeout_s=240)
    fresh = hostkeys.public_of(hostkeys.fresh_private_key())
    for _ in range(2):
        cloud.publish_host_keys(running[0], [fresh])
    cloud.allow(order.name, ["192.0.2.0/24"])
    cloud.stop(running, timeout_s=240)
    cloud.extend(cloud.find(order.name), order.deadline + dt.timedelta(hours=1))
    cloud.start(cloud.find(order.name), timeout_s=240)
    cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    assert alive(cloud, order.name) == []


def test_the_scopes_of_an_order_are_enough_for_its_life(rig: DigitalOceanRig) -> None:
    inside: dict[str, Any] = {"subnet": rig.subnet(""), "public_address": False, "ssh_from": ("10.9.0.0/16",)}
    for order in (rig.order(), rig.order(volume_gb=10), rig.order(count=2, minimum=2), rig.order(**inside)):
        rig.set(do_scopes=list(permissions.permissions(order)))
        life(rig, order)


@pytest.mark.parametrize("missing", permissions.permissions(DigitalOceanRig.order(object.__new__(DigitalOceanRig), volume_gb=10)))
def test_none_of_them_is_too_many(rig: DigitalOceanRig, missing: str) -> None:
    """Without any one of them something of the life is refused; the refusal names it, unless a question was passed over."""
    order = rig.order(volume_gb=10)
    rig.set(do_scopes=[scope for scope in permissions.permissions(order) if scope != missing])
    rig.forget()
    try:
        life(rig, order)
    except PermissionRefusedError as error:
        assert missing in error.message
    lacked = {scope for call in control.ask(rig.rehearsal, "calls") for scope in call.get("scopes", ())}
    assert lacked == {missing}
    rig.heal()
    rig.cloud().remove(rig.cloud().things(order.name), on_step=lambda _: None)


def test_only_an_order_with_a_volume_may_make_one() -> None:
    plain, more = (
        set(permissions.permissions(DigitalOceanRig.order(object.__new__(DigitalOceanRig), volume_gb=size))) for size in (None, 10)
    )
    assert more - plain == {"block_storage:create", "block_storage:delete"}
