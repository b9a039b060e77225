"""Instances of the embedded GCP whose hosts are pretended."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from provision.rehearsal.gcp.guests import Guest, power_on
from provision.rehearsal.gcp.offers import MachineType
from provision.rehearsal.gcp.settings import PROJECT, GcpSettings
from provision.rehearsal.gcp.world import ResourcePath, World
from provision.rehearsal.hosts import HostPark
from tests.waiting import until


@pytest.mark.parametrize(("ended", "status"), [(True, "TERMINATED"), (False, "RUNNING")])
def test_a_host_that_powers_itself_off_before_its_instance_runs_stops_the_instance(ended: bool, status: str) -> None:  # noqa: FBT001
    off: list[str] = []
    park = SimpleNamespace(create=lambda _spec: "127.78.0.2", has_ended=lambda _host: ended, stop=off.append)
    world = World(GcpSettings(gce_operation_s=0, gce_running_s=0), cast(HostPark, park))
    place = ResourcePath(PROJECT, "zones/us-central1-a", "instances", "i-1")
    body: dict[str, Any] = {"disks": [], "networkInterfaces": [{"accessConfigs": [{}]}]}
    instance = world.add(place, "instance", body)
    guest = world.guests[instance["id"]] = Guest(place, MachineType("n1-standard-4", 4, 15360), {}, spot=False)
    with world.lock:
        power_on(world, instance)
    until(lambda: instance["status"] == status, every_s=0.001)
    assert off == ([guest.host_id(instance)] if ended else [])
    world.timers.close()
