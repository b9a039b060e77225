"""What GCE announces of a machine."""

from __future__ import annotations

from provision.clouds.gcp.answers import notices_of
from tests.clouds.gcp.rig import ZONE, GcpRig


def test_maintenance_and_a_spot_machine_taken_back_are_announced(rig: GcpRig) -> None:
    cloud = rig.cloud()
    (machine,) = cloud.launch(rig.order(market="spot").at(ZONE))
    running = cloud.wait_running(machine, timeout_s=240)
    assert running.market == "spot"
    coming = {"type": "SCHEDULED", "maintenanceStatus": "PENDING", "windowStartTime": "2027-01-01T00:00:00Z"}
    rig.set(gce_maintenance={machine.id: coming})
    assert cloud.notices([running]) == {machine.id: ("scheduled maintenance (pending) from 2027-01-01T00:00:00Z",)}
    raw = rig.raw(machine.id)
    raw.status = "STOPPING"  # the moment is too short to be met
    said = notices_of(raw)
    assert any(s.startswith("spot:") for s in said)
    raw.resource_status.scheduling.termination_timestamp = "2026-01-01T00:00:00+00:00"
    assert any("not its deadline" in s for s in notices_of(raw))
