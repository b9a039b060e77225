"""Making instances: what Compute Engine refuses at once, what it finds out later, and what an instance looks like."""

from __future__ import annotations

import copy
import datetime as dt
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from provision.rehearsal.gcp.guests import Guest, erase, power_on
from provision.rehearsal.gcp.listing import aggregated, listed
from provision.rehearsal.gcp.offers import MachineType, accelerators, attached, image_of, machine, zones
from provision.rehearsal.gcp.operations import begin
from provision.rehearsal.gcp.quota import shortage, stock_out
from provision.rehearsal.gcp.refusals import ComputeError, exists, in_use, invalid, not_found, required
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import BASE, GcpCall, Handler, ResourcePath, World, fingerprint, last

_MB: Final = 1024
_LONGEST_RUN_S: Final = 120 * 86_400  # docs.cloud.google.com/compute/docs/instances/limit-vm-runtime, "Restrictions"
_LABEL: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}")  # docs.cloud.google.com/compute/docs/labeling-resources, "Requirements for labels"
_LABEL_VALUE: Final = re.compile(r"[a-z0-9_-]{0,63}")
_MOST_LABELS: Final = 64
_LOCAL_SSD: Final = "local-ssd"
# docs.cloud.google.com/compute/docs/metadata/overview, "Limitations": 256 KB for one value, 512 KB for all
_MOST_METADATA: Final = 256 * 1024


def planned(world: World, place: ResourcePath, wanted: dict[str, Any]) -> tuple[Guest, dict[str, Any]]:
    """Check what is wanted at a place; returns the guest and the instance's body, with Google's defaults filled in.

    Raises:
        ComputeError: as Compute Engine refuses it, before any operation.
    """
    zone = last(place.scope)
    body = copy.deepcopy(wanted)
    for name in ("machineType", "networkInterfaces", "disks"):
        if not body.get(name):
            raise required(f"resource.{name}")
    if place in world.resources:
        raise exists(str(place))
    given = _machine(zone, body["machineType"])
    cards = _accelerators(zone, given, body.get("guestAccelerators", []))
    scheduling = body.setdefault("scheduling", {})
    spot = scheduling.get("provisioningModel") == "SPOT"
    scheduling.setdefault("provisioningModel", "STANDARD")
    scheduling.setdefault("preemptible", spot)
    scheduling.setdefault("automaticRestart", not spot)
    scheduling.setdefault("onHostMaintenance", "TERMINATE" if spot else "MIGRATE")
    check_scheduling(world, scheduling)
    if cards and scheduling["onHostMaintenance"] != "TERMINATE":
        # The words: jenkinsci/google-compute-engine-plugin#63
        raise ComputeError(HTTPStatus.BAD_REQUEST, "badRequest", "Instances with guest accelerators do not support live migration.")
    _check_labels(body.get("labels", {}))
    if any(len(item.get("value", "").encode()) > _MOST_METADATA for item in body.get("metadata", {}).get("items", [])):
        raise invalid("resource.metadata.items[].value", "…", f"A value has at most {_MOST_METADATA} bytes.")
    addresses = sum(len(card.get("accessConfigs", [])) for card in body["networkInterfaces"])
    guest = Guest(place, given, cards, spot, addresses)
    if given.cards:
        link = f"{BASE}projects/{PROJECT}/zones/{zone}/acceleratorTypes/{given.accelerator}"
        body["guestAccelerators"] = [{"acceleratorType": link, "acceleratorCount": given.cards}]
    body["machineType"] = f"{BASE}projects/{PROJECT}/zones/{zone}/machineTypes/{given.name}"
    _plan_disks(world, guest, body)
    _plan_networks(world, zone, body)
    return guest, body


def _machine(zone: str, link: str) -> MachineType:
    name = last(link)
    found = machine(zone, name)
    if f"zones/{zone}/machineTypes/" not in link:
        raise invalid("resource.machineType", link, "The URL is malformed: it must name a machine type of the instance's zone.")
    if found is None:
        raise invalid("resource.machineType", link, f"Machine type with name '{name}' does not exist in zone '{zone}'.")
    return found


def _accelerators(zone: str, given: MachineType, asked: list[dict[str, Any]]) -> dict[str, int]:
    """What is built in or attached; only N1 takes attached ones, in the counts and up to the sizes of gcp.yaml."""
    if not asked:
        return {given.accelerator: given.cards} if given.cards else {}
    if len(asked) > 1:
        raise invalid("resource.guestAccelerators", len(asked), "At most one accelerator type can be attached.")
    name, count = last(asked[0].get("acceleratorType", "")), asked[0].get("acceleratorCount", 0)
    rule = attached(name)
    if name not in accelerators(zone):
        raise not_found(f"projects/{PROJECT}/zones/{zone}/acceleratorTypes/{name}")
    if rule is None or not given.name.startswith("n1-"):
        if {name: count} == {given.accelerator: given.cards}:
            return {name: count}
        words = f"[{given.name}, {name}] features are not compatible for creating instance."
        raise ComputeError(HTTPStatus.BAD_REQUEST, "badRequest", words)
    shape = next((s for s in rule.shapes if s.gpus == count), None)
    if shape is None or given.vcpus > shape.vcpus or given.memory_mb > shape.memory_gb * _MB:
        words = f"[{given.name}, {name}, {count}] features are not compatible for creating instance."
        raise ComputeError(HTTPStatus.BAD_REQUEST, "badRequest", words)
    return {name: count}


def check_scheduling(world: World, scheduling: dict[str, Any]) -> None:
    """Refuse scheduling options that contradict one another."""
    spot, action = scheduling.get("provisioningModel") == "SPOT", scheduling.get("instanceTerminationAction")
    limited = "maxRunDuration" in scheduling or "terminationTime" in scheduling
    if spot and (scheduling.get("automaticRestart") or scheduling.get("onHostMaintenance") == "MIGRATE"):
        words = "Spot instances must have automaticRestart false and onHostMaintenance TERMINATE."
        raise invalid("resource.scheduling", scheduling, words)
    if "maxRunDuration" in scheduling and "terminationTime" in scheduling:
        raise invalid("resource.scheduling", scheduling, "Only one of maxRunDuration and terminationTime can be set.")
    if action and not (spot or limited):
        raise invalid("resource.scheduling.instanceTerminationAction", action, "It needs SPOT or a limit of the run time.")
    if limited and not action:
        raise invalid("resource.scheduling.instanceTerminationAction", "", "A limit of the run time needs it.")
    if limited and not world.settings.gce_shortest_run_s <= _run_s(scheduling) <= _LONGEST_RUN_S:
        words = "The run time must be between 30 seconds and 120 days."
        raise invalid("resource.scheduling.maxRunDuration", f"{_run_s(scheduling):.0f} s", words)


def _run_s(scheduling: dict[str, Any]) -> float:
    """How long an instance may run that comes to run now."""
    if "maxRunDuration" in scheduling:
        return float(scheduling["maxRunDuration"].get("seconds", 0)) + float(scheduling["maxRunDuration"].get("nanos", 0)) / 1e9
    try:
        until = dt.datetime.fromisoformat(scheduling["terminationTime"])
        return (until - dt.datetime.now(dt.UTC)).total_seconds()
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
    """Fill in what the disks are; they are made by `make`."""
    if sum(bool(disk.get("boot")) for disk in body["disks"]) != 1 or not body["disks"][0].get("boot"):
        raise invalid("resource.disks", len(body["disks"]), "The first disk, and only that, must be the boot disk.")
    for index, disk in enumerate(body["disks"]):
        at = f"resource.disks[{index}]"
        new = disk.get("initializeParams", {})
        scratch = disk.setdefault("type", "PERSISTENT") == "SCRATCH"
        if scratch != (last(new.get("diskType", "")) == _LOCAL_SSD):
            raise invalid(f"{at}.type", disk["type"], "A SCRATCH disk is of diskType local-ssd, and no other disk is.")
        if scratch and not disk.get("autoDelete"):
            raise invalid(f"{at}.autoDelete", disk.get("autoDelete", False), "A local SSD must be deleted with its instance.")
        if disk.get("boot") and "source" not in disk:
            image = image_of(new.get("sourceImage", ""))
            if image is None:
                raise invalid(
                    f"{at}.initializeParams.sourceImage", new.get("sourceImage", ""), "The referenced image resource cannot be found."
                )
            size = int(new.get("diskSizeGb") or disk.get("diskSizeGb") or image["diskSizeGb"])
            if size < int(image["diskSizeGb"]):
                words = f"Requested disk size cannot be smaller than the image size ({image['diskSizeGb']} GB)"
                raise invalid(f"{at}.initializeParams.diskSizeGb", size, words)
            new |= {"sourceImage": image["selfLink"], "diskSizeGb": str(size)}
        if "source" in disk:
            found = world.get(guest.place.beside("disks", last(disk["source"])))
            if found.get("users"):
                raise in_use(str(guest.place.beside("disks", found["name"])), found["users"][0])
            disk["diskSizeGb"] = found["sizeGb"]
        else:
            disk["diskSizeGb"] = "375" if scratch else str(new.get("diskSizeGb") or disk.get("diskSizeGb") or 500)
        disk |= {"kind": "compute#attachedDisk", "index": index, "mode": disk.get("mode", "READ_WRITE")}
        disk.setdefault("interface", "SCSI")
        disk.setdefault("deviceName", f"local-ssd-{index}" if scratch else f"persistent-disk-{index}")


def _plan_networks(world: World, zone: str, body: dict[str, Any]) -> None:
    region = zone.rpartition("-")[0]
    for index, card in enumerate(body["networkInterfaces"]):
        network = last(card.get("network", "default"))
        if card.get("subnetwork"):
            found = world.resources.get(ResourcePath(PROJECT, f"regions/{region}", "subnetworks", last(card["subnetwork"])))
            if found is None or f"regions/{region}/" not in card["subnetwork"]:
                words = "The referenced subnetwork resource cannot be found."
                raise invalid(f"resource.networkInterfaces[{index}].subnetwork", card["subnetwork"], words)
            network, card["subnetwork"] = last(found["network"]), found["selfLink"]
        if ResourcePath(PROJECT, "global", "networks", network) not in world.resources:
            raise invalid(f"resource.networkInterfaces[{index}].network", network, "The referenced network resource cannot be found.")
        link = f"{BASE}projects/{PROJECT}/global/networks/{network}"
        card |= {"kind": "compute#networkInterface", "name": f"nic{index}", "network": link}
        card.setdefault("subnetwork", f"{BASE}projects/{PROJECT}/regions/{region}/subnetworks/{network}")
        for access in card.get("accessConfigs", []):
            access |= {"kind": "compute#accessConfig", "name": access.get("name", "External NAT"), "type": "ONE_TO_ONE_NAT"}


def make(world: World, guest: Guest, body: dict[str, Any], *, powered: bool = True) -> tuple[dict[str, Any], Callable[[], None]]:
    """Put an instance and its disks there; returns it, and what takes all of it away again.

    Args:
        world: where.
        guest: from `planned`.
        body: from there, too.
        powered: whether it gets a host and comes to RUNNING; one whose operation will fail does not.
    """
    place = guest.place
    tags = body.setdefault("tags", {})
    metadata = body.setdefault("metadata", {})
    tags["fingerprint"], metadata["fingerprint"] = fingerprint(tags.get("items", [])), fingerprint(metadata.get("items", []))
    metadata["kind"] = "compute#metadata"
    more = {"cpuPlatform": "Intel Skylake", "labelFingerprint": fingerprint(body.get("labels", {})), "status": "PROVISIONING"}
    if body.get("labels") == {}:
        del body["labels"]
    instance = world.add(
        place, "instance", {**body, **more, "startRestricted": False, "deletionProtection": bool(body.get("deletionProtection"))}
    )
    world.guests[instance["id"]] = guest
    number = len(world.guests)
    for index, card in enumerate(instance["networkInterfaces"]):
        address = f"10.{128 + index}.{number // 250 % 250}.{number % 250 + 2}"
        card |= {"networkIP": address, "fingerprint": fingerprint(address)}
    for index, attached_disk in enumerate(instance["disks"]):
        new = attached_disk.pop("initializeParams", {})
        if attached_disk["type"] == "SCRATCH":
            continue
        if "source" not in attached_disk:
            name = new.get("diskName") or (place.name if index == 0 else f"{place.name}-{index}")
            attached_disk["source"] = _disk(world, place.beside("disks", name), new, attached_disk["diskSizeGb"])
        world.resources[place.beside("disks", last(attached_disk["source"]))]["users"] = [place.link]
    if powered:
        power_on(world, instance)
    return instance, lambda: erase(world, instance)


def _disk(world: World, place: ResourcePath, new: dict[str, Any], size: str) -> str:
    kind = last(new.get("diskType", "pd-standard"))
    body = {
        "sizeGb": size,
        "status": "READY",
        "type": f"{BASE}projects/{PROJECT}/{place.scope}/diskTypes/{kind}",
        "labelFingerprint": fingerprint(new.get("labels", {})),
        **{key: new[key] for key in ("description", "labels", "sourceImage") if new.get(key)},
    }
    return str(world.add(place, "disk", body)["selfLink"])


def room(world: World, zone: str) -> int | None:
    """How many more instances a zone can run; None for no end."""
    most: int | None = world.settings.gce_capacity.get(zone)
    if most is None:
        return None
    return most - sum(1 for _, i in world.within(PROJECT, "instances", f"zones/{zone}") if i["status"] != "TERMINATED")


def out_of_stock(world: World, zone: str, guest: Guest) -> dict[str, Any] | None:
    """How an operation fails that makes or starts an instance in a zone without room; None where there is some."""
    left = room(world, zone)
    if left is None or left > 0:
        return None
    region, wanted = zone.rpartition("-")[0], set(guest.accelerators)
    others = [z for z in zones() if z != zone and z.startswith(f"{region}-") and wanted <= set(accelerators(z))]
    return stock_out(zone, guest, [z for z in others if (room(world, z) or 0) > 0 or room(world, z) is None])


def _insert(call: GcpCall) -> dict[str, Any]:
    world, zone = call.world, call.path["zone"]
    if not call.body.get("name"):
        raise required("resource.name")
    place = call.resource(call.body["name"])
    guest, body = planned(world, place, call.body)
    failed = call.failing or shortage(world, zone.rpartition("-")[0], [guest]) or out_of_stock(world, zone, guest)
    _, undo = make(world, guest, body, powered=not failed)
    return begin(call, place, finish=undo if failed else None, failed=failed)


def _all_zones(call: GcpCall) -> dict[str, Any]:
    found = [(place.scope, _shown(call.world, instance)) for place, instance in call.world.within(call.path["project"], "instances")]
    return aggregated(call, found, "instance", [f"zones/{zone}" for zone in zones()])


def _in_zone(call: GcpCall) -> dict[str, Any]:
    found = call.world.within(call.path["project"], "instances", call.scope)
    return listed(call, [_shown(call.world, instance) for _, instance in found], "instance", "instances")


def _shown(world: World, instance: dict[str, Any]) -> dict[str, Any]:
    """An instance as it is shown: with the maintenance that is announced."""
    announced = world.settings.gce_maintenance.get(instance["name"])
    if announced is None:
        return dict(instance)
    return {**instance, "resourceStatus": {**instance.get("resourceStatus", {}), "upcomingMaintenance": announced}}


def _get(call: GcpCall) -> dict[str, Any]:
    return _shown(call.world, call.world.get(call.resource(call.path["instance"])))


HANDLERS: Final[dict[str, Handler]] = {
    "compute.instances.insert": _insert,
    "compute.instances.get": _get,
    "compute.instances.list": _in_zone,
    "compute.instances.aggregatedList": _all_zones,
}
