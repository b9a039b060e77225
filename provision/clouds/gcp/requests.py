"""The requests that Compute Engine gets for an order: plain data in the spelling of Google's client, the same for the same order.

A machine is described once, as the `instanceProperties` of a bulk insert, which name types; a single insert takes paths instead.
"""

import datetime as dt
import json
import uuid
from collections.abc import Iterable
from typing import Any, Final

from provision.clouds import base
from provision.clouds.gcp import capacity, data, disk_key, first_boot, identity
from provision.clouds.gcp.data import attached_ssds
from provision.clouds.gcp.image_choice import login_of, own_of, source_image
from provision.clouds.gcp.place import capacity_of
from provision.clouds.userdata import user_data
from provision.errors import CloudInvalidError, counted

OS_TAG: Final = "gpuprov:os"
LOGIN_TAG: Final = "gpuprov:login"  # the first user on an image of one's own, or of OS Login
KEY_TAG: Final = "gpuprov:os-login-key"  # the entry of OS Login that the machine is opened with
TAGS_ITEM: Final = "gpuprov-tags"  # metadata: a label may hold neither `:` nor `@`
LABELS: Final = {
    base.NAME_TAG: "gpuprov-name",
    base.LAUNCH_TAG: "gpuprov-launch",
    base.PROFILE_TAG: "gpuprov-profile",
    base.OWNER_TAG: "gpuprov-owner",
    base.FIRST_TAG: "gpuprov-first",
    base.COUNT_TAG: "gpuprov-count",
}
REGION_KEY: Final = "gpuprov-region"  # in the description of what a fleet has outside its region
ATTEMPT_LABEL: Final = "gpuprov-attempt"  # which attempt of a launch made it: Order.token, without the region, which a machine shows
NETWORK: Final = "global/networks/default"
# The rule with the lowest number decides. The default network's own default-allow-ssh (0.0.0.0/0) has 65534, and a rule that somebody
# writes without a number has 1000: ours come before both, so that only the profile's networks reach port 22.
_ALLOW_PRIORITY, _DENY_PRIORITY = 900, 950
# https://cloud.google.com/compute/docs/instances/limit-vm-runtime: 30 seconds to 120 days; for standard and spot machines, not preemptible
_RUN_SECONDS: Final = (30, 120 * 24 * 3600)
# On GCE a power-off only stops the machine, and its time limit does not delete a stopped machine, so the timer on the host must come after
# the limit, which may act 30 s late (same page). The timer is for a machine whose limit began anew when Google restarted it.
_TIMER_AFTER: Final = dt.timedelta(minutes=10)
_MODELS: Final = {"on-demand": "STANDARD", "spot": "SPOT", "flex-start": "FLEX_START"}
# Have no virtio network (dstackai/dstack#2585, from Google's page on GPUDirect). One card is enough without GPUDirect: dstack launched
# A4 so (dstackai/dstack#3100) before it gave it the cards for RDMA (#3142).
_GVNIC_ONLY: Final = ("a3-", "a4-", "a4x-", "g4-")


def label(value: str) -> str:
    """A value as a label may hold it: up to 63 lower-case letters, digits, `-` and `_`."""
    return base.folded(value)


def request_id(*parts: str) -> str:
    """A UUID that makes a repeated request harmless: the same for the same parts."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "gpuprov/" + "/".join(parts)))


def network_tag(launch_id: str) -> str:
    """The network tag of a launch's machines, and the stem of its firewall rules' names."""
    return f"gpuprov-{launch_id}"


def claim_name(name: str) -> str:
    """The name of the rule that claims a launch's name: of that name alone, so that GCE lets only one launch of a project have it."""
    return f"gpuprov-name-{name}"


def rule_names(name: str, launch_id: str) -> list[str]:
    """The names that the firewall rules of a launch can have."""
    tag = network_tag(launch_id)
    return [claim_name(name), tag, f"{tag}-v6", f"{tag}-deny-v6"]


def group_name(name: str) -> str:
    """The name of a fleet's group, and the stem of its members' names."""
    return f"gpuprov-{name}"


def health_name(launch_id: str) -> str:
    """The name of the health check of a fleet, and of the rule that lets it in."""
    return f"{network_tag(launch_id)}-health"


def machine_names(order: base.Order, in_use: Iterable[str] = ()) -> list[str]:
    """The names of this attempt's machines at GCE: its own numbers, or those that other attempts of the launch left out.

    A bulk insert that makes fewer machines does not say which, so -1 and -3 may exist and this attempt be for -2.
    """
    whole = int(order.tags.get(base.COUNT_TAG, str(order.count)))
    numbers = [*range(order.first, whole + 1), *range(1, min(order.first, whole + 1)), *range(whole + 1, whole + order.count + 1)]
    names = [f"gpuprov-{base.host_name(order.name, whole, number)}" for number in numbers]
    others = set(in_use)
    return [name for name in names if name not in others][: order.count]


def _labels(order: base.Order) -> dict[str, str]:
    labels = {name: label(order.tags[tag]) for tag, name in LABELS.items() if order.tags.get(tag)}
    # A label holds less than a tag. The metadata has each tag as the profile writes it.
    labels |= {label(key): label(value) for key, value in base.added(order.tags).items()}
    return {**labels, ATTEMPT_LABEL: order.token("")}


def description(name: str, launch_id: str, owner: str) -> str:
    """The tags in full, for the description of things that have no metadata."""
    return json.dumps({base.NAME_TAG: name, base.LAUNCH_TAG: launch_id, base.OWNER_TAG: owner}, sort_keys=True)


def check_limit(deadline: dt.datetime, now: dt.datetime | None = None) -> None:
    """Check that GCE lets a machine run from now to the deadline.

    Raises:
        CloudInvalidError: that is too short or too long.
    """
    least, most = _RUN_SECONDS
    seconds = int((deadline - (now or dt.datetime.now(dt.UTC))).total_seconds())
    if not least <= seconds <= most:
        days = most // 86_400
        msg = f"GCP lets a machine run for {least} s at least and {counted(days, 'day')} at most; {deadline:%F %R} is {seconds} s away"
        raise CloudInvalidError(msg, hint="change limits.deadline_h of the profile, or give `gpuprov extend` another time")


def scheduling(market: str, deadline: dt.datetime) -> dict[str, Any]:
    """No live migration, the time limit with deletion, and the market.

    Raises:
        CloudInvalidError: GCE does not let a machine run until then.
    """
    return {
        "on_host_maintenance": "TERMINATE",  # a GPU cannot migrate (docs/sources/clouds.md §10.3)
        "automatic_restart": market == "on-demand",  # GCE restarts no spot machine (same place)
        "provisioning_model": _MODELS[market],
        "instance_termination_action": "DELETE",
        # A time and not a maxRunDuration: the request stays the same when it is repeated later, and neither a stop nor the wait of a
        # flex-start machine prolongs it. Google's samples of flex-start have a duration; its document has both, for any model. A duration
        # could not be set to the deadline once the machine runs: setScheduling is for stopped machines ("in a `TERMINATED` state").
        "termination_time": deadline.astimezone(dt.UTC).isoformat(timespec="seconds"),
    }


def _accelerators(order: base.Order) -> list[dict[str, Any]]:
    """The GPUs to attach: to N1 alone, the other families have theirs built in."""
    if not order.instance_type.startswith("n1-"):
        return []
    return [{"accelerator_type": data.accelerator(order.gpu), "accelerator_count": order.gpu_count}]


def _disk(order: base.Order, size_gb: int, **more: Any) -> dict[str, Any]:
    kind = "hyperdisk-balanced" if order.instance_type.startswith(data.HYPERDISK_ONLY) else "pd-balanced"
    text = description(order.name, order.launch_id, order.tags.get(base.OWNER_TAG, ""))
    params = {"disk_size_gb": size_gb, "disk_type": kind, "labels": _labels(order), "description": text, **more}
    key = disk_key.of(order)
    own = {"disk_encryption_key": {"kms_key_name": key}} if key else {}
    return {"type_": "PERSISTENT", "auto_delete": True, "initialize_params": params, **own}


def _disks(order: base.Order) -> list[dict[str, Any]]:
    """Boot disk, data disk, local SSDs. Google encrypts all of them at rest, with its own keys where the place names none."""
    boot = _disk(order, order.root_gb, source_image=source_image(order)) | {"boot": True}
    data = [_disk(order, order.volume_gb) | {"device_name": "gpuprov-data"}] if order.volume_gb else []
    scratch = {"type_": "SCRATCH", "auto_delete": True, "interface": "NVME", "initialize_params": {"disk_type": "local-ssd"}}
    return [boot, *data, *([scratch] * (attached_ssds(order.instance_type) if order.instance_store else 0))]


def _metadata(order: base.Order) -> dict[str, Any]:
    """The key, the tags in full, what the first boot does, and what the machine publishes about itself."""
    own, by_iam = own_of(order.place), identity.by_os_login(order)
    login = {LOGIN_TAG: own.login} if own is not None and own.login and not by_iam else {}
    baked = {base.IMAGE_TAG: order.baked} if order.baked else {}
    tags = {**order.tags, OS_TAG: " ".join(order.os), **login, **baked}
    kind, boot = first_boot.item(order, user_data(deadline=order.deadline + _TIMER_AFTER, downloads=order.downloads))
    items = {
        **({} if by_iam else {"ssh-keys": f"{login_of(order)}:{order.public_key.strip()}"}),  # which OS Login ignores
        "block-project-ssh-keys": "TRUE",
        "enable-oslogin": "TRUE" if by_iam else "FALSE",
        "enable-guest-attributes": "TRUE",  # where Google's agent publishes the host keys
        "serial-port-enable": "FALSE",
        kind: boot,
        TAGS_ITEM: json.dumps(tags, sort_keys=True),
    }
    return {"items": [{"key": key, "value": value} for key, value in items.items()]}


def _card(order: base.Order, region: str) -> dict[str, Any]:
    """The network card: in the default network or a subnetwork of the region, with a public address or without."""
    nic: dict[str, Any] = {"subnetwork": f"regions/{region}/subnetworks/{order.subnet}"} if order.subnet else {"network": NETWORK}
    if order.public_address:
        nic["access_configs"] = [{"name": "External NAT", "type_": "ONE_TO_ONE_NAT"}]
    if order.instance_type.startswith(_GVNIC_ONLY):
        nic["nic_type"] = "GVNIC"
    return nic


def properties(order: base.Order, region: str) -> dict[str, Any]:
    """A machine without its name and zone, which names its types alone, as templates and bulk inserts do."""
    return {
        "machine_type": order.instance_type,
        "guest_accelerators": _accelerators(order),
        "disks": _disks(order),
        "network_interfaces": [_card(order, region)],
        "scheduling": scheduling(order.market, order.deadline),
        # Kernel modules that are built on the host carry no signature that Secure Boot knows (docs/sources/clouds.md §11).
        "shielded_instance_config": {"enable_secure_boot": order.secure_boot, "enable_vtpm": True, "enable_integrity_monitoring": True},
        "tags": {"items": [network_tag(order.launch_id)]},
        "labels": _labels(order),
        "metadata": _metadata(order),
        **capacity.requested(capacity_of(order), order.market, region),
        "service_accounts": identity.request(order),
    }


def instance(order: base.Order, name: str) -> dict[str, Any]:
    """The resource of a single insert into `order.zone`."""
    resource = properties(order, order.zone.rpartition("-")[0])
    where = f"zones/{order.zone}"
    resource["name"] = name
    if order.market == data.FLEX_START:
        resource["params"] = {"request_valid_for_duration": {"seconds": capacity.FLEX_START_WAITS_S}}
    resource["machine_type"] = f"{where}/machineTypes/{order.instance_type}"
    for accelerator in resource["guest_accelerators"]:
        accelerator["accelerator_type"] = f"{where}/acceleratorTypes/{accelerator['accelerator_type']}"
    for disk in resource["disks"]:
        params = disk["initialize_params"]
        disk["initialize_params"] = {**params, "disk_type": f"{where}/diskTypes/{params['disk_type']}"}
    return resource


def bulk(order: base.Order, names: Iterable[str], region: str, zones: Iterable[str]) -> dict[str, Any]:
    """The resource of a bulk insert into a region; GCE chooses among the zones where the order names none."""
    resource: dict[str, Any] = {
        "count": order.count,
        "min_count": order.minimum,
        "per_instance_properties": {name: {} for name in names},
        "instance_properties": properties(order, region),
    }
    if not order.zone:
        allowed = {f"zones/{zone}": {"preference": "ALLOW"} for zone in zones}
        resource["location_policy"] = {"locations": allowed, "target_shape": "ANY"}
    return resource


def firewalls(name: str, launch_id: str, text: str, networks: Iterable[str], network: str = NETWORK) -> list[dict[str, Any]]:
    """Open port 22 to these networks and close it to all others; the two families of addresses cannot share a rule.

    The rule that is made for every launch, which closes the port to IPv4, is also the launch's claim to its name.

    Args:
        name: of the launch.
        launch_id: whose machines.
        text: the tags, for the rules' descriptions.
        networks: who may come in.
        network: path of the network of GCP that the rules are for.
    """
    sources = list(networks)
    tag, port = network_tag(launch_id), [{"I_p_protocol": "tcp", "ports": ["22"]}]
    common = {"network": network, "direction": "INGRESS", "target_tags": [tag], "description": text}
    rules = []
    for suffix, ours, everyone in (
        ("", [cidr for cidr in sources if ":" not in cidr], "0.0.0.0/0"),
        ("-v6", [cidr for cidr in sources if ":" in cidr], "::/0"),
    ):
        if ours:
            rules.append({"name": f"{tag}{suffix}", "priority": _ALLOW_PRIORITY, "allowed": port, "source_ranges": ours, **common})
        if ours or not suffix:
            deny = f"{tag}-deny{suffix}" if suffix else claim_name(name)
            rules.append({"name": deny, "priority": _DENY_PRIORITY, "denied": port, "source_ranges": [everyone], **common})
    return rules
