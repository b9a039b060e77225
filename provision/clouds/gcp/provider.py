"""GCP as far as it is known without contacting it: this module is the `Provider` of GCP."""

import datetime as dt
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from provision.clouds import baked
from provision.clouds.account import setting
from provision.clouds.base import NAME_TAG, OWNER_TAG, Order
from provision.clouds.forms import Form
from provision.clouds.gcp import bake_permissions, capacity, data, disk_key, first_boot, identity, requests
from provision.clouds.gcp.data import sources as sources  # noqa: PLC0414 - part of the Provider
from provision.clouds.gcp.image_choice import own_of
from provision.clouds.gcp.offers import offered_in as offered_in  # noqa: PLC0414 - part of the Provider
from provision.clouds.gcp.offers import offers as offers  # noqa: PLC0414 - part of the Provider
from provision.clouds.gcp.offers import refreshes as refreshes  # noqa: PLC0414 - part of the Provider
from provision.clouds.gcp.offers import regions as regions  # noqa: PLC0414 - part of the Provider
from provision.clouds.gcp.offers import regions_with
from provision.clouds.gcp.permissions import permissions as permissions  # noqa: PLC0414 - part of the Provider
from provision.clouds.gcp.place import GcpPlace
from provision.clouds.gcp.prices import extras_price as extras_price  # noqa: PLC0414 - part of the Provider
from provision.clouds.gcp.prices import market_problem, n1_size
from provision.clouds.gcp.prices import price as price  # noqa: PLC0414 - part of the Provider
from provision.clouds.gcp.prices import spot_price as spot_price  # noqa: PLC0414 - part of the Provider
from provision.clouds.offline import PlaceBase
from provision.clouds.own import BucketCopy, CloudOption
from provision.clouds.own_image import option_of
from provision.clouds.terms import (
    DataPart,
    DeadlineKeeper,
    DriverAdvice,
    DriverImage,
    FirstKey,
    Grant,
    Image,
    KnownImage,
    Offer,
    PlannedCall,
    Refusal,
    RefusalKind,
    Safeguard,
    SecureBoot,
    Way,
)
from provision.errors import UsageError, counted
from provision.paths import text_of

_MACHINE_TYPE: Final = re.compile(r"[a-z][a-z0-9]{1,3}-[a-z0-9-]{1,30}")
_SHOWN: Final = 4
_LOCAL_SSD_GB: Final = 375  # the smallest that GCP has; a larger total is one or several
# All connections of Identity-Aware Proxy come from this range: https://cloud.google.com/iap/docs/using-tcp-forwarding, "Create a firewall
# rule"; the permission is from "Grant roles" on the same page. Machines are reached by IPv4, so the IPv6 range there is not opened.
_RANGE = "35.235.240.0/20"

name: str = "gcp"
title: str = "GCP"
deadline: DeadlineKeeper = DeadlineKeeper(by="cloud")
secure_boot: SecureBoot = SecureBoot(available=True)
first_key: FirstKey = FirstKey()
boot_disk_doubt: str = ""
stopped_costs: str = ""
safeguards: tuple[Safeguard, ...] = (
    Safeguard("no service account", unless="identity"),
    Safeguard("host keys read from guest attributes"),
    Safeguard(
        "the project's own SSH keys do not log in",
        "No login for the project's SSH keys",
        "keys in the project's metadata open none of its machines that gpuprov makes",
    ),
    Safeguard(
        "port 22 denied to all others, whatever the network's default rules say",
        "Port 22 is closed to everybody else",
        "a rule of its own comes before the default network's, which lets SSH in from everywhere",
    ),
)
# The command: cloud.google.com/sdk/gcloud/reference/compute/start-iap-tunnel. `gcloud compute ssh --tunnel-through-iap --dry-run` itself
# puts --listen-on-stdin into its ProxyCommand (googlecloudsdk/command_lib/compute/iap_tunnel.py).
ways: Mapping[str, Way] = {
    "iap": Way(
        name="iap",
        opens=(_RANGE,),
        origin="Google's Identity-Aware Proxy only",
        origin_detail="Google's Identity-Aware Proxy only, which checks who connects",
        needs=("through `gcloud compute start-iap-tunnel`: the Google Cloud CLI on this machine, logged in (`gcloud auth login`)",),
        programs=("gcloud",),
        credential_variables=("CLOUDSDK_ACTIVE_CONFIG_NAME", "CLOUDSDK_CONFIG"),
        permissions=("iap.tunnelInstances.accessViaIAP",),
        proxy_command="gcloud compute start-iap-tunnel {id} %p --listen-on-stdin --zone {zone} --project {project}",
    )
}
bucket: BucketCopy | None = identity.BUCKET
forms: Mapping[str, Form] = {
    "terraform-gcp": Form("Terraform of one place on GCP", None, "provision.clouds.gcp.forms.terraform", "gcp"),
}
agent_files: tuple[str, ...] = ("/etc/default/instance_configs.cfg", "/var/lib/google")
reserved_tags: tuple[str, ...] = ("goog",)
metadata_hosts: tuple[str, ...] = ("169.254.169.254", "metadata.google.internal")
where_to_look: str = "https://docs.cloud.google.com/compute/docs/gpus/gpu-regions-zones, or ask with `gpuprov catalog refresh --only gcp`"
price_hint: str = "`gpuprov catalog refresh --only gcp-prices` asks Google for its prices"
place: type[PlaceBase] = GcpPlace


def default_region() -> tuple[str, str]:
    """That of gcloud, or the one of its zone: https://cloud.google.com/sdk/docs/properties and /sdk/docs/configurations."""
    folder = Path(os.environ.get("CLOUDSDK_CONFIG") or "~/.config/gcloud")
    active = os.environ.get("CLOUDSDK_ACTIVE_CONFIG_NAME") or text_of((folder / "active_config").expanduser()).strip() or "default"
    path = folder / "configurations" / f"config_{active}"
    region, zone = (setting((f"CLOUDSDK_COMPUTE_{key.upper()}",), path, "compute", key) for key in ("region", "zone"))
    return region if region[0] else (zone[0].rpartition("-")[0], zone[1])


def parts() -> dict[str, DataPart]:
    """Zones and machine types, prices, images and quotas."""
    known = data.gcp()
    return {
        "gcp zones": DataPart(known.zones, "gcp"),
        "gcp machine types": DataPart([known.attached, known.n1, known.machines], ""),
        "gcp prices": DataPart([known.prices, known.machine_prices, known.n1_prices, known.disk_prices, known.address_price], "gcp-prices"),
        "gcp images": DataPart([known.images, known.accelerator_images], "gcp"),
        "gcp quotas": DataPart(known.quotas, ""),
    }


def driver_advice(instance_type: str) -> DriverAdvice | None:  # noqa: ARG001 - nothing is known of any type
    """No machine type is known to need other kernel modules than its GPU alone would say."""
    return None


def place_at(offer: Offer, regions: Sequence[str]) -> GcpPlace:
    """A place with the zones of these regions that have the GPU."""
    offered = offered_in(offer.instance_type, offer.gpu)
    zones = tuple(zone for region in regions for zone in offered[region])
    return GcpPlace(cloud="gcp", instance_type=offer.instance_type, gpu=offer.gpu or "", gpu_count=int(offer.gpus), zones=zones)


def local_disks(instance_type: str) -> int | None:
    """How many local SSDs a machine has when the data disk is to be there; None where only their total is known."""
    attached, machine = data.attached_ssds(instance_type), data.machine(instance_type)
    if attached:
        return attached
    if machine and machine.local_ssd_gb <= _LOCAL_SSD_GB:
        return 1 if machine.local_ssd_gb else 0
    return None


def has_nvswitch(instance_type: str) -> bool | None:
    """Whether a machine type has NVSwitches: no N1 does; None for a type that is not in the catalog."""
    if instance_type.startswith("n1-"):
        return False
    return instance_type in data.gcp().nvswitch.types if data.machine(instance_type) else None


def smallest_with(gpu: str) -> str:
    """Where a GPU can be had, in a few words; empty when nowhere."""
    accelerator = data.accelerator(gpu)
    zones = data.zones(accelerator)
    return f"{counted(len(zones), 'zone')} of GCP ({_few(regions_with(accelerator))})" if zones else ""


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _SHOWN else f"{len(names)} regions"


def refusal(place: GcpPlace, zone: str, gpu: str, count: int) -> Refusal | None:
    """What the catalog knows against a place.

    Args:
        place: of the profile.
        zone: one of its zones.
        gpu: the model that the profile asks for.
        count: how many of them, at least.
    """
    against = _shape_problem(place)
    if against is None and (place.gpu != gpu or place.gpu_count < count):
        message = f"the place has {place.gpu_count} x {place.gpu}, and the profile asks for {count} x {gpu}"
        against = Refusal(RefusalKind.WRONG_GPU if place.gpu != gpu else RefusalKind.TOO_FEW_GPUS, message)
    against = against or market_problem(place)
    if against:
        return against
    accelerator = data.accelerator_of(place.instance_type, place.gpu)
    zones = data.zones(accelerator)
    if not zones:
        return Refusal(RefusalKind.UNRECORDED, f"the zones with {accelerator or place.gpu} are not recorded")
    if zone not in zones:
        return Refusal(RefusalKind.NOT_OFFERED, f"{zone} has no {accelerator}; it is in {_few(regions_with(accelerator))}")
    return None


def _shape_problem(place: GcpPlace) -> Refusal | None:
    """Why there is no such machine with such GPUs."""
    name, gpu, count = place.instance_type, place.gpu, place.gpu_count
    machine = data.machine(name)
    if machine:
        if (machine.gpu, machine.gpus) == (gpu, count):
            return None
        message = f"{name} has {machine.gpus} x {machine.gpu} built in, and the place names {count} x {gpu}"
        return Refusal(RefusalKind.BAD_SHAPE, message)
    attached = next((record for record in data.gcp().attached if record.gpu == gpu), None)
    size = n1_size(name)
    if attached is None or size is None:
        return Refusal(RefusalKind.UNKNOWN_TYPE, f"{f'{name} with {gpu}' if gpu else name} is not in the catalog")
    shape = next((record for record in attached.shapes if record.gpus == count), None)
    if shape is None:
        counts = ", ".join(str(record.gpus) for record in attached.shapes)
        return Refusal(RefusalKind.BAD_SHAPE, f"{gpu} is attached {counts} at a time, not {count}")
    vcpus, memory_gb = size
    if vcpus > shape.vcpus or memory_gb > shape.memory_gb:
        most = f"with {count} x {gpu} a machine has at most {shape.vcpus} vCPUs and {shape.memory_gb:g} GB"
        return Refusal(RefusalKind.BAD_SHAPE, f"{most}, and {name} has more")
    return None


def source_of(instance_type: str) -> str:
    """The id of the source of the zones."""
    return data.zones_source(data.accelerator_of(instance_type, None))


def gpu_of(instance_type: str) -> str | None:
    """The GPU that is built into a machine type."""
    machine = data.machine(instance_type)
    return machine.gpu if machine else None


def names_type(instance_type: str) -> bool:
    """A machine type of Compute Engine has a family and a kind, with a hyphen between them."""
    return _MACHINE_TYPE.fullmatch(instance_type) is not None


def why_nowhere(instance_type: str, gpu: str | None) -> Refusal:
    """Why a machine type is offered nowhere.

    Raises:
        UsageError: N1 is everywhere, and its zones depend on a GPU that was not given.
    """
    if gpu is None and instance_type.startswith("n1-"):
        msg = f"{instance_type} is everywhere, and its GPU decides which zones have both"
        raise UsageError(msg, hint="give the GPU with --gpu")
    machine = data.machine(instance_type)
    model, count = (machine.gpu, machine.gpus) if machine else (gpu or "", 1)
    somewhere = GcpPlace.model_construct(None, cloud="gcp", instance_type=instance_type, gpu=model, gpu_count=count, zones=())
    return refusal(somewhere, "", model, count) or Refusal(RefusalKind.NOT_OFFERED, f"{instance_type} is offered nowhere")


def withdrawn_with(gpu: str) -> tuple[tuple[str, dt.date], ...]:  # noqa: ARG001 - as above
    """No machine type is known to have been withdrawn."""
    return ()


def image(os: tuple[str, str], place: GcpPlace | None = None) -> Image | None:
    """The place's own image, or the image family of a system."""
    record, own = data.image(os), own_of(place)
    if own is not None:
        return Image(own.lookup, own.login or (record.login if record else os[0]))
    return Image(f"{record.project}/{record.family}", record.login) if record else None


def image_systems() -> tuple[tuple[str, str], ...]:
    """The systems that have an image family."""
    return tuple(sorted({(record.os, record.version) for record in data.gcp().images}))


def driver_images() -> tuple[DriverImage, ...]:
    """Google's accelerator images; whether their modules are open or proprietary is not known."""
    records = data.gcp().accelerator_images
    return tuple(DriverImage(f"{r.project}/{r.family}", (r.os, r.version), r.driver, "", r.source) for r in records)


def known_image(region: str, os: tuple[str, str], place: GcpPlace | None = None) -> KnownImage | None:  # noqa: ARG001 - of the whole world
    """The image that the place names, or the newest of a family, where a refresh has found it."""
    own = own_of(place)
    if own is not None:
        return KnownImage(own.source, own.name, own.project or "") if own.name else None
    layer = data.refreshed()
    found = layer.images.get(" ".join(os))
    about = layer.described.get(found or "")
    if found is None or about is None:
        return KnownImage(found) if found else None
    return KnownImage(found, about.name, about.project, about.created)


def image_gap(region: str, os: tuple[str, str], place: GcpPlace | None = None) -> str:  # noqa: ARG001 - as above
    """A family finds the newest image at the launch; without one nothing does, and nobody knows what an image of one's own runs."""
    what = "what images run at their first boot" if own_of(place) is not None else "the image family"
    return "" if data.image(os) else f"gcp: {what} of {' '.join(os)}"


def quota(instance_type: str, gpu: str | None, market: str) -> str | None:  # noqa: ARG001 - quotas count GPUs, not types
    """The metric of the quota on GPUs."""
    return data.quota(gpu, market)


def subnet_problem(subnet: str | None, *, private: bool, regions: Sequence[str]) -> str:  # noqa: ARG001 - any will do
    """A subnetwork is a name, and the default one leads out where the project has Cloud NAT."""
    return ""


def cloud_options(place: GcpPlace) -> tuple[CloudOption, ...]:
    """An image, a key and an identity of one's own, and where the capacity comes from."""
    keys = disk_key.options(place, scratch=local_disks(place.instance_type) != 0)
    return (
        *option_of(place.image),
        *baked.options(place),
        *keys,
        *identity.options(place),
        *capacity.options(place.capacity, place.market),
    )


def policy(grant: Grant) -> tuple[dict[str, Any] | None, str]:
    """GCP has no policy document of this kind: a custom role holds the permissions."""
    return None, f"every permission to launch, look after and remove, for a custom role{disk_key.agent_note(grant.places)}"


def bake_policy(grant: Grant, line: str) -> tuple[tuple[str, ...], dict[str, Any] | None]:  # noqa: ARG001 - the contract's
    """What making images needs; a custom role cannot be narrowed to a line."""
    return bake_permissions.ACTIONS, None


def user_data(order: Order, region: str) -> str:
    """What the instance's metadata carries for its first boot: a document of cloud-init, or a script."""
    items = requests.bulk(order, [], region, [order.zone])["instance_properties"]["metadata"]["items"]
    return first_boot.of(items)[1]


def calls(order: Order, region: str) -> list[PlannedCall]:
    """The calls that change something, and those that find what they need.

    Args:
        order: of the first attempt, in a zone; words stand in it for what only the launch decides.
        region: where.
    """
    described = requests.description(order.name, order.launch_id, order.tags.get(OWNER_TAG, ""))
    networks = ["<the address of the caller>" if network == "caller" else network for network in order.ssh_from]
    network = "<the network of the subnetwork>" if order.subnet else requests.NETWORK
    (name,) = requests.machine_names(order)
    planned: list[tuple[str, str, dict[str, Any]]] = [
        (
            "compute.instances.aggregatedList",
            "find what an earlier run made",
            {"filter": f"labels.{requests.LABELS[NAME_TAG]}={requests.label(order.name)}"},
        )
    ]
    if order.subnet:
        where = {"region": region, "subnetwork": order.subnet}
        planned.append(("compute.subnetworks.get", "find the network of the subnetwork", where))
    for rule in requests.firewalls(order.name, order.launch_id, described, networks, network):
        claims = ", and claim the name with the rule, of which GCP makes one" if rule["name"] == requests.claim_name(order.name) else ""
        purpose = "open SSH and nothing else" if "allowed" in rule else f"close SSH to everybody else{claims}"
        planned.append(("compute.firewalls.insert", purpose, {"firewall": rule}))
    if identity.by_os_login(order):
        given = {"parent": "users/<the caller>", "sshPublicKey": {"key": order.public_key, "expirationTimeUsec": "<the deadline>"}}
        planned.append(("oslogin.users.importSshPublicKey", "let the key log in, as the caller's POSIX account", given))
    planned += [
        ("compute.instances.insert", "make the instance", {"zone": order.zone, "instance": requests.instance(order, name)}),
        (
            "compute.instances.getGuestAttributes",
            "read the host keys",
            {"zone": order.zone, "instance": name, "queryPath": "hostkeys/"},
        ),
    ]
    return [PlannedCall("gcp", action, purpose, parameters) for action, purpose, parameters in planned]
