"""The embedded GCP: compute.v1 over HTTP, checked against Google's own discovery document; its instances are the rehearsal's hosts."""

from provision.rehearsal.gce.api import Api, Quiet, new_world
from provision.rehearsal.gce.guests import ended_by_itself, shown
from provision.rehearsal.gce.world import Settings

__all__ = ["Api", "Quiet", "Settings", "ended_by_itself", "new_world", "shown"]
