"""The permissions that an order needs: enough for its life, and none too many."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from provision.clouds import base
from provision.clouds.gcp import permissions
from provision.errors import PermissionRefusedError
from provision.rehearsal.gcp.settings import PROJECT
from tests.clouds.contract import alive
from tests.clouds.gcp.rig import ZONE, GcpRig


def life(rig: GcpRig, order: base.Order) -> None:
    """Everything that is done with the machines of an order."""
    cloud = rig.cloud()
    cloud.examine(order)
    machines = cloud.launch(order)
    running = [cloud.wait_running(i, timeout_s=240) for i in machines]
    cloud.host_keys(running[0], timeout_s=240)
    cloud.allow(order.name, ["192.0.2.0/24", "2001:db8::/64"])
    cloud.allow(order.name, ["192.0.2.0/24"])
    cloud.stop(running, timeout_s=240)
    cloud.extend(cloud.find(order.name), order.deadline + dt.timedelta(hours=1))
    cloud.start(cloud.find(order.name), timeout_s=240)
    cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    assert alive(cloud, order.name) == []


def test_the_permissions_of_an_order_are_enough_for_its_life(rig: GcpRig) -> None:
    inside: dict[str, Any] = {"subnet": rig.subnet(ZONE), "public_address": False, "ssh_from": ("10.9.0.0/16",)}
    for order in (rig.order(volume_gb=10).at(ZONE), rig.order(count=2, minimum=2), rig.order(**inside).at(ZONE)):
        rig.set(gce_allowed=list(permissions.permissions(order)))
        life(rig, order)


def test_a_private_machine_of_a_subnet_needs_other_permissions(rig: GcpRig) -> None:
    inside = rig.order(subnet=rig.subnet(ZONE), public_address=False).at(ZONE)
    public, private = (set(permissions.permissions(o)) for o in (rig.order().at(ZONE), inside))
    assert public - private == {"compute.subnetworks.useExternalIp", "compute.networks.get"}
    assert private - public == {"compute.subnetworks.get"}
    for missing in ("compute.subnetworks.get", "compute.subnetworks.use"):
        rig.set(gce_allowed=sorted(private - {missing}))
        with pytest.raises(PermissionRefusedError, match=missing):
            rig.cloud().launch(inside)
    rig.heal()
    (machine,) = rig.cloud().launch(inside)
    assert machine.project == PROJECT


# Needed when something goes another way than here: an earlier try, fewer machines than asked for, an image of one's own project.
_ELSE = {
    "compute.firewalls.get",
    "compute.firewalls.update",
    "compute.images.useReadOnly",
    "compute.instances.delete",
    "compute.instances.list",
}


@pytest.mark.parametrize("missing", [p for p in permissions.LAUNCHING if p not in _ELSE])
def test_a_missing_permission_is_named(rig: GcpRig, missing: str) -> None:
    order = rig.order().at(ZONE)
    cloud = rig.cloud()
    rig.set(gce_allowed=[p for p in permissions.permissions(order) if p != missing])
    with pytest.raises(PermissionRefusedError) as caught:
        cloud.host_keys(cloud.wait_running(cloud.launch(order)[0], timeout_s=240), timeout_s=20)
    assert missing in caught.value.message
    rig.heal()
    cloud.remove(cloud.things(order.name), on_step=lambda _: None)


def test_permissions_are_those_of_the_order(rig: GcpRig) -> None:
    in_a_zone, anywhere = permissions.permissions(rig.order(zone=ZONE)), permissions.permissions(rig.order())
    assert set(anywhere) - set(in_a_zone) == {"compute.regionOperations.get"}
    g2 = rig.order(zone=ZONE, instance_type="g2-standard-8", gpu="l4")
    assert "compute.acceleratorTypes.get" not in permissions.permissions(g2)
    locked = permissions.permissions(rig.order(zone=ZONE, image_id="projects/p/global/images/i"))
    assert set(locked) ^ set(in_a_zone) == {"compute.images.get", "compute.images.getFromFamily"}
    assert not [p for p in in_a_zone if p.startswith("iam.")]
