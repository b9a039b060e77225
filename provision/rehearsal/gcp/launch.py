"""Making instances: what Compute Engine refuses at once, what fails later, and what an instance looks like."""

import copy
import datetime as dt
import re
from collections.abc import Callable
from typing import Any, Final

from provision.rehearsal.gcp import capacity, keys
from provision.rehearsal.gcp.guardrails import check_insert
from provision.rehearsal.gcp.guests import Guest, duration_s, erase, power_off, power_on
from provision.rehearsal.gcp.images import boot_image, made_of, system_of
from provision.rehearsal.gcp.offers import MachineType, accelerators, attachment, machine, region_of
from provision.rehearsal.gcp.operations import begin
from provision.rehearsal.gcp.quota import obstacle, room
from provision.rehearsal.gcp.refusals import ComputeError, exists, in_use, invalid, not_found, require
from provision.rehearsal.gcp.settings import PROJECT, GcpSettings
from provision.rehearsal.gcp.world import BASE, GcpCall, Handler, ResourcePath, World, fingerprint, last

_MB: Final = 1024
_LONGEST_RUN_S: Final = 120 * 86_400  # docs.cloud.google.com/compute/docs/instances/limit-vm-runtime, "Restrictions"
_LONGEST_FLEX_START_S: Final = 7 * 86_400  # docs.cloud.google.com/compute/docs/instances/provisioning-models
_LABEL: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}")  # docs.cloud.google.com/compute/docs/labeling-resources, "Requirements for labels"
_LABEL_VALUE: Final = re.compile(r"[a-z0-9_-]{0,63}")
_MOST_LABELS: Final = 64
_LOCAL_SSD: Final = "local-ssd"
# docs.cloud.google.com/compute/docs/metadata/overview, "Limitations": 256 KB for one value, 512 KB for all
_MOST_METADATA: Final = 256 * 1024

# What an instance shows of what nobody asked for: Google's document, and instances that others recorded, such as those in
# VictoriaMetrics/VictoriaMetrics, lib/promscrape/discovery/gce/instance_test.go.
_UNASKED: Final[dict[str, Any]] = {
    "description": "",
    "canIpForward": False,
    "confidentialInstanceConfig": {"enableConfidentialCompute": False},
    "displayDevice": {"enableDisplay": False},
    "keyRevocationActionType": "NONE",
    "reservationAffinity": {"consumeReservationType": "ANY_RESERVATION"},
    "shieldedInstanceIntegrityPolicy": {"updateAutoLearnPolicy": True},
}
_FEATURES: Final = ("VIRTIO_SCSI_MULTIQUEUE", "UEFI_COMPATIBLE", "GVNIC")


def plan(world: World, place: ResourcePath, request: dict[str, Any]) -> tuple[Guest, dict[str, Any]]:
    """Check the body of an insert; returns the guest and the instance's body, with Google's defaults filled in."""
    zone = last(place.scope)
    body = copy.deepcopy(request)
    require(body, "machineType", "networkInterfaces", "disks")
    if place in world.resources:
        raise exists(str(place))
    machine_type = _machine(zone, body["machineType"])
    cards = _accelerators(zone, machine_type, body.get("guestAccelerators", []))
    scheduling = body.setdefault("scheduling", {})
    spot = scheduling.get("provisioningModel") in {"SPOT", "FLEX_START"}  # both use the preemptible quota, and neither is moved
    host_maintenance = "TERMINATE" if spot else "MIGRATE"
    plain = {"provisioningModel": "STANDARD", "preemptible": spot, "automaticRestart": not spot, "onHostMaintenance": host_maintenance}
    scheduling |= {**plain, **scheduling}
    check_scheduling(world, scheduling)
    if cards and scheduling["onHostMaintenance"] != "TERMINATE":
        # The words: jenkinsci/google-compute-engine-plugin#63
        raise ComputeError("badRequest", "Instances with guest accelerators do not support live migration.")
    _check_labels(body.get("labels", {}))
    for account in body.get("serviceAccounts", []):
        if account.get("email") in world.settings.gce_missing_accounts:
            raise not_found(f"projects/{PROJECT}/serviceAccounts/{account['email']}")
    if any(len(item.get("value", "").encode()) > _MOST_METADATA for item in body.get("metadata", {}).get("items", [])):
        raise invalid("resource.metadata.items[].value", "…", f"A value has at most {_MOST_METADATA} bytes.")
    addresses = sum(len(card.get("accessConfigs", [])) for card in body["networkInterfaces"])
    capacity.check(world, zone, machine_type, body)
    body.pop("params", None)  # no part of the resource
    guest = Guest(place, machine_type, cards, spot, addresses)
    base = f"{BASE}projects/{PROJECT}/zones/{zone}"
    if machine_type.cards:
        link = f"{base}/acceleratorTypes/{machine_type.accelerator}"
        body["guestAccelerators"] = [{"acceleratorType": link, "acceleratorCount": machine_type.cards}]
    body["machineType"] = f"{base}/machineTypes/{machine_type.name}"
    _plan_disks(world, guest, body)
    _plan_networks(world, zone, body)
    check_insert(world, place, body)
    return guest, body


def _machine(zone: str, link: str) -> MachineType:
    name = last(link)
    machine_type = machine(zone, name)
    if f"zones/{zone}/machineTypes/" not in link:
        raise invalid("resource.machineType", link, "The URL is malformed: it must name a machine type of the instance's zone.")
    if machine_type is None:
        raise invalid("resource.machineType", link, f"Machine type with name '{name}' does not exist in zone '{zone}'.")
    return machine_type


def _accelerators(zone: str, machine_type: MachineType, cards: list[dict[str, Any]]) -> dict[str, int]:
    """What is built in or attached; only N1 takes attached ones, in the counts and up to the sizes of gcp.yaml."""
    if not cards:
        return {machine_type.accelerator: machine_type.cards} if machine_type.cards else {}
    if len(cards) > 1:
        raise invalid("resource.guestAccelerators", len(cards), "At most one accelerator type can be attached.")
    name, count = last(cards[0].get("acceleratorType", "")), cards[0].get("acceleratorCount", 0)
    if name not in accelerators(zone):
        raise not_found(f"projects/{PROJECT}/zones/{zone}/acceleratorTypes/{name}")
    rule = attachment(name)
    if rule is None or not machine_type.name.startswith("n1-"):
        if {name: count} == {machine_type.accelerator: machine_type.cards}:
            return {name: count}
        raise _incompatible(machine_type.name, name)
    shape = next((s for s in rule.shapes if s.gpus == count), None)
    if shape is None or machine_type.vcpus > shape.vcpus or machine_type.memory_mb > shape.memory_gb * _MB:
        raise _incompatible(machine_type.name, name, str(count))
    return {name: count}


def _incompatible(*features: str) -> ComputeError:
    words = f"[{', '.join(features)}] features are not compatible for creating instance."
    return ComputeError("badRequest", words)


def check_scheduling(world: World, scheduling: dict[str, Any]) -> None:
    """Refuse scheduling options that contradict one another."""
    spot, action = scheduling.get("provisioningModel") == "SPOT", scheduling.get("instanceTerminationAction")
    limits = {"maxRunDuration", "terminationTime"} & scheduling.keys()
    if spot and (scheduling.get("automaticRestart") or scheduling.get("onHostMaintenance") == "MIGRATE"):
        words = "Spot instances must have automaticRestart false and onHostMaintenance TERMINATE."
        raise invalid("resource.scheduling", scheduling, words)
    if len(limits) > 1:
        raise invalid("resource.scheduling", scheduling, "Only one of maxRunDuration and terminationTime can be set.")
    if action and not (spot or limits):
        raise invalid("resource.scheduling.instanceTerminationAction", action, "It needs SPOT or a limit of the run time.")
    if limits and not action:
        raise invalid("resource.scheduling.instanceTerminationAction", "", "A limit of the run time needs it.")
    if scheduling.get("provisioningModel") == "FLEX_START" and not (limits and _run_s(scheduling) <= _LONGEST_FLEX_START_S):
        raise invalid("resource.scheduling.maxRunDuration", "", "Flex-start instances must have a limit of the run time, 7 days at most.")
    if limits and not world.settings.gce_shortest_run_s <= _run_s(scheduling) <= _LONGEST_RUN_S:
        words = "The run time must be between 30 seconds and 120 days."
        raise invalid("resource.scheduling.maxRunDuration", f"{_run_s(scheduling):.0f} s", words)


def _run_s(scheduling: dict[str, Any]) -> float:
    """How many seconds an instance may run that comes to RUNNING now."""
    if "maxRunDuration" in scheduling:
        return duration_s(scheduling["maxRunDuration"])
    try:
        return (dt.datetime.fromisoformat(scheduling["terminationTime"]) - dt.datetime.now(dt.UTC)).total_seconds()
    except (ValueError, TypeError) as error:
        words = "It must be a time in RFC 3339 text format."
        raise invalid("resource.scheduling.terminationTime", scheduling["terminationTime"], words) from error


def _check_labels(labels: dict[str, str]) -> None:
    for key, value in labels.items():
        if not _LABEL.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            raise invalid("resource.labels", f"{key}={value}", "Label keys and values are lower case letters, digits, _ and -, at most 63.")
    if len(labels) > _MOST_LABELS:
        raise invalid("resource.labels", len(labels), f"A resource has at most {_MOST_LABELS} labels.")


def _plan_disks(world: World, guest: Guest, body: dict[str, Any]) -> None:
    """Fill in what the disks are; `make` makes them."""
    if [bool(disk.get("boot")) for disk in body["disks"]] != [True] + [False] * (len(body["disks"]) - 1):
        raise invalid("resource.disks", len(body["disks"]), "The first disk, and only that, must be the boot disk.")
    for index, disk in enumerate(body["disks"]):
        at = f"resource.disks[{index}]"
        new = disk.get("initializeParams", {})
        scratch = disk.setdefault("type", "PERSISTENT") == "SCRATCH"
        if scratch != (last(new.get("diskType", "")) == _LOCAL_SSD):
            raise invalid(f"{at}.type", disk["type"], "A SCRATCH disk is of diskType local-ssd, and no other disk is.")
        keys.check(disk, last(guest.place.scope), at)
        if scratch and not disk.get("autoDelete"):
            raise invalid(f"{at}.autoDelete", disk.get("autoDelete", False), "A local SSD must be deleted with its instance.")
        if disk.get("boot") and "source" not in disk:
            new |= _boot_disk(new, disk, f"{at}.initializeParams", world.settings)
            guest.system = system_of(new["sourceImage"], world.settings)
            guest.image = made_of(new["sourceImage"], world.settings)
            image = boot_image(new["sourceImage"], at, world.settings)
            license_link = f"{image['selfLink'].partition('/images/')[0]}/licenses/{image.get('family', image['name'])}"
            features = [{"type": feature} for feature in _FEATURES]
            disk |= {"architecture": image["architecture"], "licenses": [license_link], "guestOsFeatures": features}
        if "source" in disk:
            source = world.get(guest.place.beside("disks", last(disk["source"])))
            if source.get("users"):
                raise in_use(str(guest.place.beside("disks", source["name"])), source["users"][0])
            disk["diskSizeGb"] = source["sizeGb"]
        else:
            disk["diskSizeGb"] = "375" if scratch else str(new.get("diskSizeGb") or disk.get("diskSizeGb") or 500)
        disk |= {"kind": "compute#attachedDisk", "index": index, "mode": disk.get("mode", "READ_WRITE")}
        disk.setdefault("interface", "SCSI")
        disk.setdefault("deviceName", f"local-ssd-{index}" if scratch else f"persistent-disk-{index}")


def _boot_disk(new: dict[str, Any], disk: dict[str, Any], at: str, settings: GcpSettings) -> dict[str, str]:
    """The image and size of a boot disk that is made with its instance."""
    image = boot_image(new.get("sourceImage", ""), f"{at}.sourceImage", settings)
    size = int(new.get("diskSizeGb") or disk.get("diskSizeGb") or image["diskSizeGb"])
    if size < int(image["diskSizeGb"]):
        words = f"Requested disk size cannot be smaller than the image size ({image['diskSizeGb']} GB)"
        raise invalid(f"{at}.diskSizeGb", size, words)
    return {"sourceImage": image["selfLink"], "diskSizeGb": str(size)}


def _plan_networks(world: World, zone: str, body: dict[str, Any]) -> None:
    region = region_of(zone)
    for index, card in enumerate(body["networkInterfaces"]):
        network = last(card.get("network", "default"))
        if card.get("subnetwork"):
            subnetwork = world.resources.get(ResourcePath(PROJECT, f"regions/{region}", "subnetworks", last(card["subnetwork"])))
            if subnetwork is None or f"regions/{region}/" not in card["subnetwork"]:
                words = "The referenced subnetwork resource cannot be found."
                raise invalid(f"resource.networkInterfaces[{index}].subnetwork", card["subnetwork"], words)
            network, card["subnetwork"] = last(subnetwork["network"]), subnetwork["selfLink"]
        if ResourcePath(PROJECT, "global", "networks", network) not in world.resources:
            raise invalid(f"resource.networkInterfaces[{index}].network", network, "The referenced network resource cannot be found.")
        link = f"{BASE}projects/{PROJECT}/global/networks/{network}"
        card |= {"kind": "compute#networkInterface", "name": f"nic{index}", "network": link}
        card.setdefault("subnetwork", f"{BASE}projects/{PROJECT}/regions/{region}/subnetworks/{network}")
        card.setdefault("stackType", "IPV4_ONLY")
        for access in card.get("accessConfigs", []):
            access |= {"kind": "compute#accessConfig", "name": access.get("name", "External NAT"), "type": "ONE_TO_ONE_NAT"}
            access.setdefault("networkTier", "PREMIUM")


def make(world: World, guest: Guest, body: dict[str, Any], *, powered: bool = True) -> Callable[[], None]:
    """Put a planned instance and its disks there, and power it on unless its operation will fail; returns what takes all of it away."""
    place = guest.place
    for field in ("tags", "metadata"):
        part = body.setdefault(field, {})
        part["fingerprint"] = fingerprint(part.get("items", []))
    body["metadata"]["kind"] = "compute#metadata"
    more = {"cpuPlatform": "Intel Skylake", "labelFingerprint": fingerprint(body.get("labels", {})), "status": "PROVISIONING"}
    if body.get("labels") == {}:
        del body["labels"]
    protection = {"startRestricted": False, "deletionProtection": bool(body.get("deletionProtection"))}
    instance = world.add(place, "instance", {**copy.deepcopy(_UNASKED), **body, **more, **protection})
    world.guests[instance["id"]] = guest
    capacity.taken(world, body)
    number = len(world.guests)
    for index, card in enumerate(instance["networkInterfaces"]):
        address = f"10.{128 + index}.{number // 250 % 250}.{number % 250 + 2}"
        card |= {"networkIP": address, "fingerprint": fingerprint(address)}
    for index, disk in enumerate(instance["disks"]):
        new = disk.pop("initializeParams", {})
        if disk["type"] == "SCRATCH":
            continue
        if "source" not in disk:
            name = new.get("diskName") or (place.name if index == 0 else f"{place.name}-{index}")
            disk["source"] = _disk(world, place.beside("disks", name), new, disk)
        world.resources[place.beside("disks", last(disk["source"]))]["users"] = [place.link]
    if powered:
        power_on(world, instance)
    if powered and (why := world.settings.gce_stops.get(last(place.scope))):
        instance["statusMessage"] = why
        world.timers.after(world.settings.gce_running_s, power_off(world, instance))
    return lambda: erase(world, instance)


def _disk(world: World, place: ResourcePath, new: dict[str, Any], attached: dict[str, Any]) -> str:
    kind = last(new.get("diskType", "pd-standard"))
    body = {
        "sizeGb": attached["diskSizeGb"],
        "status": "READY",
        "type": f"{BASE}projects/{PROJECT}/{place.scope}/diskTypes/{kind}",
        "labelFingerprint": fingerprint(new.get("labels", {})),
        **{key: new[key] for key in ("description", "labels", "sourceImage") if new.get(key)},
        **{key: attached[key] for key in ("diskEncryptionKey",) if key in attached},
    }
    return str(world.add(place, "disk", body)["selfLink"])


def _insert(call: GcpCall) -> dict[str, Any]:
    require(call.body, "name")
    place = call.resource(call.body["name"])
    guest, body = plan(call.world, place, call.body)
    seconds, zone = capacity.waits_s(call.body), last(place.scope)
    error = obstacle(call, guest, waits=seconds > 0) or keys.obstacle(call.world, [body])
    waits = seconds > 0 and not error and room(call.world, zone) <= 0
    kept = call.error is not None and zone in call.world.settings.gce_kept
    undo = make(call.world, guest, body, powered=kept or (not error and not waits))
    if waits:  # it takes a place of its own in the count
        capacity.wait_for_room(call.world, call.world.resources[place], seconds, lambda: room(call.world, zone) >= 0)
    return begin(call, place, undo=None if kept else undo, error=error)


HANDLERS: Final[dict[str, Handler]] = {"compute.instances.insert": _insert}
