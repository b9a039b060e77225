"""The requests that GCP gets for a fleet, and the permissions of who makes it and of its members: pure functions."""

import base64
import gzip
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any, Final

from provision.canonical import digest as canonical_digest
from provision.clouds import base
from provision.clouds.fleet import FleetOrder
from provision.clouds.gcp import first_boot, identity, provider
from provision.clouds.gcp.data import FLEX_START
from provision.clouds.gcp.image_choice import first_boot_of
from provision.clouds.gcp.permissions import permissions
from provision.clouds.gcp.place import place_of
from provision.clouds.gcp.requests import NETWORK, REGION_KEY, description, group_name, health_name, network_tag, properties
from provision.errors import UsageError

PORT: Final = 8009
"""Where a member answers the group's health check, and nothing else."""
STORE_KEY, DIGEST_KEY, BREAKER_KEY = "gpuprov-store", "gpuprov-program", "gpuprov-breaker"
"""In the descriptions of templates: what their members run, and where they count their failures."""
# Where the questions of health checks come from: docs.cloud.google.com/load-balancing/docs/health-check-concepts, "Probe IP ranges".
_PROBERS: Final = ("35.191.0.0/16", "130.211.0.0/22")
_DIFFERS: Final = "a member fetches its program at its first boot and has no timer: the cloud ends it at the deadline"
_PATIENCE_S: Final = 1500
_LONGEST_DELAY_S: Final = 3600  # the most that there is: `initialDelaySec` in the reference of instanceGroupManagers
_UNIT: Final = """[Unit]
Description=Verify this member of a gpuprov fleet and answer its health check
After=network-online.target
Wants=network-online.target
[Service]
ExecStart=/usr/bin/env python3 /etc/gpuprov/member.py
Restart=on-failure
RestartSec=10
[Install]
WantedBy=multi-user.target
"""
# From memory, as is that a group's machines are made by Google's own service agent, with its rights.
FLEETS: Final = (
    *(f"compute.healthChecks.{verb}" for verb in ("create", "delete", "get", "useReadOnly")),
    *(f"compute.instanceGroupManagers.{verb}" for verb in ("create", "delete", "get", "update")),
    *(f"compute.instanceTemplates.{verb}" for verb in ("create", "delete", "get", "list", "useReadOnly")),
    *("compute.globalOperations.get", "compute.regionOperations.get"),
    *(f"storage.objects.{verb}" for verb in ("create", "get", "list")),
)


def account_of(order: base.Order) -> str:
    """The service account that a member needs to fetch and to post.

    Raises:
        UsageError: the place has none, or lets IAM decide who logs in, for which the key is imported at a launch, or is flex-start.
    """
    if (
        order.market == FLEX_START
    ):  # a group takes them by resize requests, or by a policy of its target size: discovery document of compute.v1
        msg = "members of a fleet are no flex-start machines: GCP makes those one by one when it has room, and not to the size of a group"
        raise UsageError(msg, hint="write `market: spot` or `on-demand` in the place")
    if identity.by_os_login(order):
        msg = "members of a fleet do not log in through OS Login: the group makes them when nobody is there to import a key"
        raise UsageError(msg, hint="leave os_login out of the place")
    found = identity.of(order)
    if found is None:
        msg = f"a member of a fleet needs a service account, and the place {order.instance_type} has `identity: none`"
        hint = "write identity: {service_account: EMAIL} in the place; `gpuprov fleet plan` prints the roles that the account needs"
        raise UsageError(msg, hint=hint)
    return found.service_account


def zones_of(order: base.Order, region: str) -> list[str]:
    """The zones of a region that the group may use: those of the place that the catalog has the GPU in."""
    place, known = place_of(order), provider.offered_in(order.instance_type, order.gpu).get(region, ())
    return [zone for zone in (place.zones if place else known) if zone in known]


def user_data(order: FleetOrder, endpoint: str | None) -> str:
    """The boot of a member, without a timer: the deadline is the template's."""
    config = {
        "fleet": order.machine.name,
        "bucket": order.bucket,
        "prefix": order.prefix,
        "digest": order.digest,
        "breaker": order.breaker,
        "longest_s": order.longest_s,
        "patience_s": _PATIENCE_S,
        "port": PORT,
        **({"trust": dict(order.trust)} if order.trust else {}),
        **({"endpoint": endpoint} if endpoint else {}),
    }
    program = resources.files("provision.clouds.gcp.onhost").joinpath("member.py").read_text()
    packed = base64.b64encode(gzip.compress(program.encode(), mtime=0)).decode()
    document = {
        "ssh_pwauth": False,
        "disable_root": True,
        "write_files": [
            {"path": "/etc/gpuprov/member.json", "permissions": "0600", "content": json.dumps(config, sort_keys=True)},
            {"path": "/etc/gpuprov/member.py", "permissions": "0700", "content": packed, "encoding": "gz+b64"},
            {"path": "/etc/systemd/system/gpuprov-member.service", "permissions": "0644", "content": _UNIT},
        ],
        "runcmd": [["systemctl", "daemon-reload"], ["systemctl", "enable", "--now", "--no-block", "gpuprov-member.service"]],
    }
    return "#cloud-config\n" + json.dumps(document, sort_keys=True) + "\n"


def differs(order: base.Order) -> dict[str, str]:
    """What a member has otherwise than one machine, and why."""
    return {f"metadata.{first_boot_of(order.os)}": _DIFFERS}


def _text(order: base.Order, **more: str) -> str:
    """The description of a thing that has no labels: whose it is."""
    whose = json.loads(description(order.name, order.launch_id, order.tags.get(base.OWNER_TAG, "")))
    return json.dumps({**whose, **more}, sort_keys=True)


def template(order: FleetOrder, region: str, endpoint: str | None) -> dict[str, Any]:
    """What each member is made from: what one machine would be, but for its name and its boot. Its name has the digest of the rest."""
    machine = order.machine
    account_of(machine)
    body = properties(machine, region)
    kind, boot = first_boot.item(machine, user_data(order, endpoint))
    items = [item for item in body["metadata"]["items"] if item["key"] != kind]
    body["metadata"] = {"items": [*items, {"key": kind, "value": boot}]}
    more = {STORE_KEY: f"{order.bucket}/{order.prefix}", DIGEST_KEY: order.digest, BREAKER_KEY: str(order.breaker)}
    name = f"{network_tag(machine.launch_id)}-{canonical_digest(body)[:8]}"
    return {"name": name, "description": _text(machine, **more), "properties": body}


def health_rule(order: FleetOrder, region: str, network: str = NETWORK) -> dict[str, Any]:
    """The rule that lets Google's health checks in. It is made before all else of a fleet: what removes a fleet looks for it."""
    machine = order.machine
    return {
        "name": health_name(machine.launch_id),
        "network": network,
        "direction": "INGRESS",
        "priority": 900,
        "allowed": [{"I_p_protocol": "tcp", "ports": [str(PORT)]}],
        "source_ranges": list(_PROBERS),
        "target_tags": [network_tag(machine.launch_id)],
        "description": _text(machine, **{REGION_KEY: region}),
    }


def health_check(order: FleetOrder) -> dict[str, Any]:
    """The question whether a member serves."""
    return {
        "name": health_name(order.machine.launch_id),
        "type_": "HTTP",
        "http_health_check": {"port": PORT, "request_path": "/"},
        "check_interval_sec": 10,
        "timeout_sec": 5,
        "healthy_threshold": 1,
        "unhealthy_threshold": 3,
        "description": _text(order.machine),
    }


def group(order: FleetOrder, project: str, template_name: str, zones: Sequence[str], size: int) -> dict[str, Any]:
    """The group: in any of the zones. It makes anew who is off or gone, and nobody who only does not serve.

    A member that its program does not suit, or that its store refuses, would be made anew for ever: GCP has no limit for that, and what
    members count is in the store. They are off only after they counted.
    docs.cloud.google.com/compute/docs/instance-groups/turn-off-vm-repairs-in-mig
    """
    machine = order.machine
    health = f"projects/{project}/global/healthChecks/{health_name(machine.launch_id)}"
    return {
        "name": group_name(machine.name),
        "base_instance_name": group_name(machine.name),
        "description": _text(machine),
        "target_size": size,
        "versions": [{"instance_template": template_link(project, template_name)}],
        "auto_healing_policies": [{"health_check": health, "initial_delay_sec": _LONGEST_DELAY_S}],
        "update_policy": update_policy(len(zones), size, 90),
        "instance_lifecycle_policy": {"force_update_on_repair": "NO", "on_failed_health_check": "DO_NOTHING"},
        "distribution_policy": {"target_shape": "ANY", "zones": [{"zone": f"projects/{project}/zones/{zone}"} for zone in zones]},
    }


def template_link(project: str, name: str) -> str:
    """The path of a template."""
    return f"projects/{project}/global/instanceTemplates/{name}"


def update_policy(zones: int, size: int, healthy_percent: int) -> dict[str, Any]:
    """How members come to their version: one goes before another comes, since a GPU can be had once.

    A fixed number must be that of the zones at least (updatePolicy.maxUnavailable in the reference).
    """
    away = max(zones, size * (100 - healthy_percent) // 100)
    return {
        "type_": "PROACTIVE",
        "minimal_action": "REPLACE",
        "replacement_method": "SUBSTITUTE",
        "instance_redistribution_type": "NONE",
        "max_surge": {"fixed": 0},
        "max_unavailable": {"fixed": away},
    }


def member_policy(order: FleetOrder) -> dict[str, Any]:
    """The roles of the members' service account, as bindings of the bucket's policy: read programs and failures, write, never write over.

    It needs nothing of Compute Engine.
    """
    member, start = f"serviceAccount:{account_of(order.machine)}", f"projects/_/buckets/{order.bucket}/objects/{order.prefix}"
    name = order.machine.name
    own = [f"{start}evidence/{name}/", f"{start}failures/{name}/"]
    reads, posts = [f"{start}bundles/", *own], own

    def binding(role: str, title: str, prefixes: Sequence[str]) -> dict[str, Any]:
        expression = " || ".join(f"resource.name.startsWith({json.dumps(prefix)})" for prefix in prefixes)
        return {"role": role, "members": [member], "condition": {"title": f"gpuprov-{name}-{title}", "expression": expression}}

    creator, viewer = "roles/storage.objectCreator", "roles/storage.objectViewer"
    return {"bindings": [binding(viewer, "read", reads), binding(creator, "post", posts)]}


def caller_policy(order: FleetOrder) -> dict[str, Any]:
    """What whoever runs `gpuprov fleet` needs, in the form of a custom role: what one machine needs, and the template, group and store."""
    return {"includedPermissions": sorted({*permissions(order.machine), *FLEETS})}
