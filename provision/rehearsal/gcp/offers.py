"""What the embedded GCP offers: zones, regions, machine types and accelerators out of gpuprov's own catalogue."""

import functools
import zlib
from typing import Any, Final

from provision.clouds.gcp import data, provider
from provision.clouds.gcp.data import Attached
from provision.rehearsal.gcp.images import by_family, images_of
from provision.rehearsal.gcp.listing import as_aggregated_list, as_list
from provision.rehearsal.gcp.refusals import invalid, not_found
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import BASE, GcpCall, Handler
from provision.structs import Struct

_MB: Final = 1024
_MOST_CARDS: Final = 16
_LETTERS: Final = "abc"


class MachineType(Struct):
    """A machine type, with the accelerators and the disks that are built in."""

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
    for kind, existing in (("zone", zones()), ("region", regions())):
        if (place := call.path.get(kind, existing[0])) not in existing:  # googleapis/google-api-dotnet-client, issue 1354
            path = f"projects/{project}/{kind}s/{place}"
            raise not_found(path) if call.collection == f"{kind}s" else invalid(kind, place, f"Unknown {kind}.")


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


def _in_scope(call: GcpCall, scope: str) -> list[dict[str, Any]]:
    """The resources of the call's collection in a zone or, of images, in a project."""
    match call.collection:
        case "zones":
            return [_zone(name) for name in zones()]
        case "machineTypes":
            return [_machine_type(scope, m) for m in machines(scope).values()]
        case "acceleratorTypes":
            return [_accelerator_type(scope, name) for name in accelerators(scope)]
        case _:
            return images_of(scope, call.world.settings)


def _own(call: GcpCall) -> list[dict[str, Any]]:
    return _in_scope(call, call.path.get("zone") or call.path["project"])


def _get(call: GcpCall) -> dict[str, Any]:
    name = call.name or call.path["zone"]
    resource = next((r for r in _own(call) if r["name"] == name), None)
    if resource is None:
        raise not_found(str(call.resource(name)))
    return resource


def _list(call: GcpCall) -> dict[str, Any]:
    return as_list(call, _own(call))


def _everywhere(call: GcpCall) -> dict[str, Any]:
    resources = [(f"zones/{zone}", resource) for zone in zones() for resource in _in_scope(call, zone)]
    return as_aggregated_list(call, resources, [f"zones/{zone}" for zone in zones()])


HANDLERS: Final[dict[str, Handler]] = {
    **{f"compute.{collection}.get": _get for collection in ("zones", "machineTypes", "acceleratorTypes", "images")},
    **{f"compute.{collection}.list": _list for collection in ("zones", "machineTypes", "acceleratorTypes", "images")},
    **{f"compute.{collection}.aggregatedList": _everywhere for collection in ("machineTypes", "acceleratorTypes")},
    "compute.images.getFromFamily": by_family,
}
