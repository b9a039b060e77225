"""One region of the embedded DigitalOcean, and how it is made to fail."""

from __future__ import annotations

import uuid
from typing import Any

from provision.clouds import base
from provision.clouds.digitalocean.access import DigitalOceanAccess
from provision.clouds.digitalocean.api import DigitalOceanApi
from provision.clouds.digitalocean.client import send
from provision.clouds.digitalocean.cloud import DigitalOceanCloud
from provision.host import hostkeys
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.clouds.contract import Failure, Rig, Seen

REGION = "nyc2"
MAKING = "droplets_create"
HOST_KEY = hostkeys.fresh_private_key()
FAULTS: dict[Failure, dict[str, Any]] = {
    "capacity": {"kind": "error", "http": 422, "message": "Size is not available in this region."},
    "quota": {"kind": "error", "http": 422, "message": "creating this/these droplet(s) will exceed your droplet limit"},
    "throttled": {"kind": "error", "http": 429, "message": "API Rate limit exceeded."},
    "refused": {"kind": "error", "http": 403, "message": "You are not authorized to perform this operation"},
    "invalid": {"kind": "error", "http": 422, "message": "Name has already been taken for tea."},
    "expired": {"kind": "error", "http": 401, "message": "Unable to authenticate you"},
    "server": {"kind": "error", "http": 500, "message": "Server Error"},
    "html": {"kind": "html"},
    "drop": {"kind": "drop"},
}
QUIET: dict[str, Any] = {
    "do_active_s": 0.1,
    "do_create_ends": {},
    "do_new_can_be_deleted": False,
    "do_action_s": 0.1,
    "do_tags_s": 0.0,
    "do_gone_s": 0.2,
    "do_unseen_s": 0.0,
    "do_firewall_s": 0.0,
    "do_firewall_fails": False,
    "do_capacity": {},
    "do_size_regions": {},
    "do_gpu_access": True,
    "do_volume_limit": 1000,
    "do_droplet_limit": 1000,
    "do_token_valid": True,
    "do_scopes": None,
    "do_limit_hour": 1_000_000,
    "do_limit_minute": 1_000_000,
    "do_images": [],
}


class DigitalOceanRig(Rig):
    region = REGION
    making = MAKING
    machine = {"instance_type": "gpu-h100x1-80gb", "gpu": "h100", "gpu_count": 1, "os": ("ubuntu", "24.04")}  # noqa: RUF012 - as the base says

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.rehearsal = rehearsal
        self.access = DigitalOceanAccess(**rehearsal.settings("digitalocean"))
        self.api = DigitalOceanApi(self.access)

    def order(self, name: str = "", **changes: Any) -> base.Order:
        return super().order(name, **{"host_key": HOST_KEY, **changes})

    def cloud(self) -> DigitalOceanCloud:
        return DigitalOceanCloud(REGION, self.access)

    def calls(self) -> list[str]:
        return [str(call["action"]) for call in control.ask(self.rehearsal, "calls")]

    def forget(self) -> None:
        control.ask(self.rehearsal, "calls", method="DELETE")

    def set(self, **settings: Any) -> None:
        control.ask(self.rehearsal, "settings", method="PUT", body=settings)

    def faults(self, *rules: dict[str, Any]) -> None:
        control.ask(self.rehearsal, "faults", method="PUT", body=list(rules))

    def stock(self, left: dict[str, int]) -> None:
        here = len(self.droplets())  # of other tests; they count
        self.set(do_capacity={spot or REGION: count + here for spot, count in left.items()})

    def no_quota(self) -> None:
        self.set(do_droplet_limit=0)

    def fail(self, how: Failure) -> None:
        self.faults({"action": MAKING, **FAULTS[how]})

    def lose_reply(self) -> None:
        self.faults({"kind": "lost", "action": MAKING, "count": 1})

    def heal(self) -> None:
        self.faults()
        self.set(**QUIET)

    def ask(self, verb: str, path: str, body: Any = None, **query: Any) -> Any:
        answer = send(self.access, verb, path, query, body)
        assert answer.status < 300, answer
        return answer.body

    def droplets(self, **query: str) -> list[Any]:
        return [raw for raw in self.api.pages("droplets_list", "droplets", type="gpus", **query) if raw["region"]["slug"] == REGION]

    def subnet(self, zone: str) -> str:
        assert zone in {"", REGION}
        return str(self.ask("POST", "vpcs", {"name": f"n{uuid.uuid4().hex[:8]}", "region": REGION})["vpc"]["id"])

    def seen(self, instance: base.Instance) -> Seen:
        raw = self.ask("GET", f"droplets/{instance.id}")["droplet"]
        cards = {card["type"]: card["ip_address"] for card in raw["networks"]["v4"]}
        rules = [r for f in self.firewalls() if set(f["tags"]) & set(raw["tags"]) for r in f["inbound_rules"]]
        assert {(rule["protocol"], rule["ports"]) for rule in rules} <= {("tcp", "22")}
        opened = {address for rule in rules for address in rule["sources"]["addresses"]}
        return Seen(cards.get("public", ""), cards["private"], raw["vpc_uuid"], opened)

    def firewalls(self) -> list[Any]:
        return self.api.pages("firewalls_list", "firewalls")

    def tags(self) -> list[str]:
        return [raw["name"] for raw in self.api.pages("tags_list", "tags")]
