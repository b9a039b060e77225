"""One region of the embedded GCP, and how it is made to fail."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from typing import Any

from google.cloud import compute_v1

from provision.clouds import base
from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.answers import last, tags_of
from provision.clouds.gcp.client import client
from provision.clouds.gcp.cloud import GcpCloud
from provision.clouds.gcp.requests import TAGS_ITEM
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.rehearsal.gcp.settings import PROJECT
from tests.clouds.contract import Failure, Rig, Seen

REGION, ZONE = "asia-east1", "asia-east1-a"


MAKING = r"compute\.(instances|regionInstances)\.(insert|bulkInsert)"


STOCK_OUT = {"kind": "operation", "code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "The zone has not enough resources.", "http": 503}


FAULTS: dict[Failure, dict[str, Any]] = {
    "capacity": STOCK_OUT,
    "quota": {
        "kind": "operation",
        "code": "QUOTA_EXCEEDED",
        "message": "Quota 'CPUS' exceeded.  Limit: 8.0 in region asia-east1.",
        "http": 403,
    },
    "throttled": {"kind": "error", "code": "rateLimitExceeded", "http": 403},
    "refused": {
        "kind": "error",
        "code": "forbidden",
        "http": 403,
        "message": "Required 'compute.instances.create' permission for 'projects/p'",
    },
    "invalid": {"kind": "error", "code": "invalid", "http": 400},
    "expired": {"kind": "error", "code": "authError", "http": 401},
    "server": {"kind": "error", "code": "backendError", "http": 503},
    "html": {"kind": "html"},
    "drop": {"kind": "drop"},
}


QUIET: dict[str, Any] = {
    "gce_seed": None,  # tests count calls, and look at once at what was made
    "gce_operation_s": 0.1,
    "gce_running_s": 0.1,
    "gce_guest_attributes_s": 0.0,
    "gce_quota": {},
    "gce_capacity": {},
    "gce_shortest_wait_s": 90.0,
    "gce_constraints": {},
    "gce_stops": {},
    "gce_allowed": None,
    "gce_maintenance": {},
    "gce_images": [],
    "gce_caller": "user@example.com",
    "gce_bindings": [],
}


class GcpRig(Rig):
    region = REGION
    making = "making"
    machine = {"instance_type": "n1-standard-8", "gpu": "t4", "gpu_count": 1, "os": ("ubuntu", "24.04")}  # noqa: RUF012 - as the base says

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.rehearsal = rehearsal
        self.access = GcpAccess(**rehearsal.settings("gcp"))

    def cloud(self) -> GcpCloud:
        return GcpCloud(REGION, self.access)

    def named(self) -> list[str]:
        return [str(call["action"]) for call in control.ask(self.rehearsal, "calls") if str(call["action"]).startswith("compute.")]

    def calls(self) -> list[str]:
        return [self.making if a.rpartition(".")[2] in {"insert", "bulkInsert"} and "nstances" in a else a for a in self.named()]

    def forget(self) -> None:
        control.ask(self.rehearsal, "calls", method="DELETE")

    def set(self, **settings: Any) -> None:
        control.ask(self.rehearsal, "settings", method="PUT", body=settings)

    def faults(self, *rules: dict[str, Any]) -> None:
        control.ask(self.rehearsal, "faults", method="PUT", body=list(rules))

    def stock(self, left: dict[str, int]) -> None:
        here = Counter(i.zone for i in self.cloud().find() if i.state != "stopped")  # of other tests; they count
        self.set(gce_capacity={zone: count + here[zone] for zone, count in left.items()})

    def no_quota(self) -> None:
        self.set(gce_quota={REGION: {"NVIDIA_T4_GPUS": 0, "PREEMPTIBLE_NVIDIA_T4_GPUS": 0}})

    def fail(self, how: Failure) -> None:
        self.faults({"action": MAKING, **FAULTS[how]})

    def lose_reply(self) -> None:
        self.faults({"kind": "lost", "action": MAKING, "count": 1})

    def heal(self) -> None:
        self.faults()
        self.set(**QUIET)

    def subnet(self, zone: str) -> str:
        region, name = zone.rpartition("-")[0], f"n{uuid.uuid4().hex[:8]}"
        network = compute_v1.Network(name=name, auto_create_subnetworks=False)
        client("NetworksClient", self.access).insert_unary(project=PROJECT, network_resource=network)
        link = f"projects/{PROJECT}/global/networks/{name}"
        made = compute_v1.Subnetwork(name=f"{name}-s", network=link, ip_cidr_range="10.9.0.0/20")
        client("SubnetworksClient", self.access).insert_unary(project=PROJECT, region=region, subnetwork_resource=made)
        return f"{name}-s"

    def seen(self, instance: base.Instance) -> Seen:
        (card,) = self.raw(instance.id, instance.zone).network_interfaces
        rules = [r for r in self.rules().values() if f"gpuprov-{instance.launch_id}" in r.target_tags]
        assert {r.network for r in rules} == {card.network}
        public = [config.nat_i_p for config in card.access_configs]
        opened = {source for rule in rules if rule.allowed for source in rule.source_ranges}
        return Seen(public[0] if public else "", card.network_i_p, card.subnetwork.rpartition("/")[2], opened)

    def raw(self, name: str, zone: str = ZONE) -> Any:
        return client("InstancesClient", self.access).get(project=PROJECT, zone=zone, instance=name)

    def machines(self) -> list[tuple[str, Any]]:
        """All machines of the project with their zones."""
        scopes = client("InstancesClient", self.access).aggregated_list(project=PROJECT)
        return [(last(scope), raw) for scope, scoped in scopes for raw in scoped.instances]

    def write_tags(self, name: str, changes: dict[str, str] | str) -> None:
        """What anybody does who may set metadata in the project: change some of our tags, or write another text in their place."""
        zone, raw = next((zone, raw) for zone, raw in self.machines() if raw.name == name)
        text = changes if isinstance(changes, str) else json.dumps({**tags_of(raw), **changes})
        items = [{"key": item.key, "value": item.value} for item in raw.metadata.items if item.key != TAGS_ITEM]
        body = {"fingerprint": raw.metadata.fingerprint, "items": [*items, {"key": TAGS_ITEM, "value": text}]}
        request = {"project": PROJECT, "zone": zone, "instance": name, "metadata_resource": body}
        client("InstancesClient", self.access).set_metadata_unary(request=request)

    def rules(self) -> dict[str, Any]:
        return {rule.name: rule for rule in client("FirewallsClient", self.access).list(project=PROJECT)}
