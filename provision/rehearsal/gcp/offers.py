"""What the embedded GCP offers: zones, regions, machine types, accelerators and images out of gpuprov's own catalogue."""

from __future__ import annotations

import functools
import re
import zlib
from dataclasses import dataclass
from typing import Any, Final

from provision.clouds.gcp import data, provider
from provision.clouds.gcp.data import Attached
from provision.rehearsal.gcp.listing import as_aggregated_list, as_list
from provision.rehearsal.gcp.refusals import not_found
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import BASE, GcpCall, Handler, last

_MB: Final = 1024
_IMAGE_DATE: Final = "v20261101"
_MOST_CARDS: Final = 16
_LETTERS: Final = "abc"


@dataclass(frozen=True, slots=True)
class MachineType:
    """A machine type.

    Attributes:
        accelerator: what is built in, with `cards` of it; empty for none.
        local_ssd_gb: disks that are built in.
    """

    name: str
    vcpus: int
    memory_mb: int
    accelerator: str = ""
    cards: int = 0
    local_ssd_gb: int = 0


@functools.cache
def _zones_by_accelerator() -> dict[str, tuple[str, ...]]:
    """Accelerator → its zones."""
    return {name: tuple(where) for name, where in data.gcp().zones.items() if isinstance(where, list)}


@functools.cache
def zones() -> tuple[str, ...]:
    """Every zone: those of the catalogue's accelerators, and the usual three of each region."""
    usual = {f"{region}-{letter}" for region in provider.regions() for letter in _LETTERS}
    return tuple(sorted(usual | {zone for where in _zones_by_accelerator().values() for zone in where}))


def region_of(zone: str) -> str:
    """The region of a zone."""
    return zone.rpartition("-")[0]


def regions() -> tuple[str, ...]:
    """Every region."""
    return tuple(sorted({region_of(zone) for zone in zones()}))


def require_scope(call: GcpCall) -> None:
    """Refuse a zone or region that does not exist, and another project than the rehearsal's; images of any project may be read."""
    project = call.path.get("project", PROJECT)
    if project != PROJECT and call.collection != "images":
        raise not_found(f"projects/{project}")
    if call.path.get("zone", zones()[0]) not in zones():
        raise not_found(f"projects/{project}/zones/{call.path['zone']}")
    if call.path.get("region", regions()[0]) not in regions():
        raise not_found(f"projects/{project}/regions/{call.path['region']}")


def accelerators(zone: str) -> list[str]:
    """The accelerators of a zone."""
    return sorted(name for name, where in _zones_by_accelerator().items() if zone in where)


def attachment(accelerator: str) -> Attached | None:
    """How an accelerator may be attached to N1; None when it is only built in."""
    return next((a for a in data.gcp().attached if a.accelerator == accelerator), None)


def metric_of(accelerator: str) -> str | None:
    """The regional quota metric of an accelerator, if the catalogue knows one."""
    model = next((model for model, name in data.gcp().accelerators.items() if name == accelerator), "")
    return data.gcp().quotas.metrics.get(model)


@functools.cache
def _n1() -> dict[str, MachineType]:
    n1 = data.gcp().n1
    return {
        f"n1-{family}-{vcpus}": MachineType(f"n1-{family}-{vcpus}", vcpus, int(vcpus * each * _MB))
        for family, each in n1.gb_per_vcpu.items()
        for vcpus in n1.vcpus
        if vcpus >= n1.smallest.get(family, 1)
    }


@functools.cache
def machines(zone: str) -> dict[str, MachineType]:
    """The machine types of a zone: N1 in all of them, others where their accelerator is."""
    types = dict(_n1())
    for record in data.gcp().machines:
        accelerator = data.accelerator(record.gpu)
        if accelerator in accelerators(zone):
            size = (record.vcpus, int(record.memory_gb * _MB), accelerator, record.gpus, record.local_ssd_gb)
            types[record.type] = MachineType(record.type, *size)
    return types


def machine(zone: str, name: str) -> MachineType | None:
    """A machine type of a zone, if it has it."""
    return machines(zone).get(name)


def image_of(link: str) -> dict[str, Any] | None:
    """The image of a full or partial URL, by family or by name."""
    match = re.search(r"(?:^|/)projects/([^/]+)/global/images/(family/)?([^/]+)$", link)
    if not match:
        return None
    project, family, name = match.groups()
    return next((i for i in _images(project) if i["family" if family else "name"] == name), None)


@functools.cache
def _images(project: str) -> tuple[dict[str, Any], ...]:
    records = data.gcp()
    families = {(i.project, i.family) for i in records.images} | {(i.project, i.family) for i in records.accelerator_images}
    return tuple(_image(project, family) for owner, family in sorted(families) if owner == project)


def _image(project: str, family: str) -> dict[str, Any]:
    name = f"{family}-{_IMAGE_DATE}"
    return {
        "kind": "compute#image",
        "id": _id(f"{project}/{name}"),
        "name": name,
        "family": family,
        "status": "READY",
        "architecture": "X86_64",
        "diskSizeGb": "20" if "rocky" in family else "10",
        "archiveSizeBytes": "1000000000",
        "creationTimestamp": "2026-11-01T00:00:00.000-07:00",
        "selfLink": f"{BASE}projects/{project}/global/images/{name}",
    }


def _id(text: str) -> str:
    """A number that is always the same for the same thing."""
    return str(zlib.crc32(text.encode()) + 10**12)


def _zone(name: str) -> dict[str, Any]:
    link = f"{BASE}projects/{PROJECT}"
    region = f"{link}/regions/{region_of(name)}"
    return {"kind": "compute#zone", "id": _id(name), "name": name, "status": "UP", "region": region, "selfLink": f"{link}/zones/{name}"}


def _machine_type(zone: str, machine_type: MachineType) -> dict[str, Any]:
    cards = [{"guestAcceleratorType": machine_type.accelerator, "guestAcceleratorCount": machine_type.cards}] if machine_type.cards else []
    return {
        "kind": "compute#machineType",
        "id": _id(machine_type.name),
        "name": machine_type.name,
        "description": f"{machine_type.vcpus} vCPUs, {machine_type.memory_mb // _MB} GB RAM",
        "guestCpus": machine_type.vcpus,
        "memoryMb": machine_type.memory_mb,
        "maximumPersistentDisks": 128,
        "maximumPersistentDisksSizeGb": "263168",
        "isSharedCpu": False,
        "architecture": "X86_64",
        "zone": zone,
        "selfLink": f"{BASE}projects/{PROJECT}/zones/{zone}/machineTypes/{machine_type.name}",
        **({"accelerators": cards} if cards else {}),
    }


def _accelerator_type(zone: str, name: str) -> dict[str, Any]:
    rule = attachment(name)
    return {
        "kind": "compute#acceleratorType",
        "id": _id(name),
        "name": name,
        "description": name.upper().replace("-", " "),
        "maximumCardsPerInstance": max(shape.gpus for shape in rule.shapes) if rule else _MOST_CARDS,
        "zone": f"{BASE}projects/{PROJECT}/zones/{zone}",
        "selfLink": f"{BASE}projects/{PROJECT}/zones/{zone}/acceleratorTypes/{name}",
    }


def _existing(call: GcpCall, resource: dict[str, Any] | None) -> dict[str, Any]:
    if resource is None:
        raise not_found(str(call.resource(call.name)))
    return resource


def _get_machine_type(call: GcpCall) -> dict[str, Any]:
    machine_type = machine(call.path["zone"], call.name)
    return _existing(call, _machine_type(call.path["zone"], machine_type) if machine_type else None)


def _get_accelerator(call: GcpCall) -> dict[str, Any]:
    zone = call.path["zone"]
    return _existing(call, _accelerator_type(zone, call.name) if call.name in accelerators(zone) else None)


def _get_image(call: GcpCall) -> dict[str, Any]:
    return _existing(call, image_of(f"projects/{call.path['project']}/global/images/{call.name}"))


def _get_from_family(call: GcpCall) -> dict[str, Any]:
    path = f"projects/{call.path['project']}/global/images/family/{call.name}"
    image = image_of(path)
    if image is None:
        raise not_found(path)
    return image


def _types_of(zone: str) -> list[dict[str, Any]]:
    return [_machine_type(zone, m) for m in machines(zone).values()]


def _cards_of(zone: str) -> list[dict[str, Any]]:
    return [_accelerator_type(zone, name) for name in accelerators(zone)]


def _everywhere(call: GcpCall, of: Any, kind: str) -> dict[str, Any]:
    resources = [(f"zones/{zone}", resource) for zone in zones() for resource in of(zone)]
    return as_aggregated_list(call, resources, kind, [f"zones/{zone}" for zone in zones()])


HANDLERS: Final[dict[str, Handler]] = {
    "compute.zones.get": lambda call: _zone(last(call.path["zone"])),
    "compute.zones.list": lambda call: as_list(call, [_zone(name) for name in zones()], "zone"),
    "compute.machineTypes.get": _get_machine_type,
    "compute.machineTypes.list": lambda call: as_list(call, _types_of(call.path["zone"]), "machineType"),
    "compute.machineTypes.aggregatedList": lambda call: _everywhere(call, _types_of, "machineType"),
    "compute.acceleratorTypes.get": _get_accelerator,
    "compute.acceleratorTypes.list": lambda call: as_list(call, _cards_of(call.path["zone"]), "acceleratorType"),
    "compute.acceleratorTypes.aggregatedList": lambda call: _everywhere(call, _cards_of, "acceleratorType"),
    "compute.images.getFromFamily": _get_from_family,
    "compute.images.get": _get_image,
    "compute.images.list": lambda call: as_list(call, list(_images(call.path["project"])), "image"),
}
