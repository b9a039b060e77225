"""DigitalOcean as far as it is known without contacting it: this module is the `Provider` of DigitalOcean."""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from provision.clouds.base import OWNER_TAG, Order
from provision.clouds.digitalocean import data, requests
from provision.clouds.digitalocean.data import sources as sources  # noqa: PLC0414 - part of the Provider
from provision.clouds.digitalocean.image_choice import own_of
from provision.clouds.digitalocean.offers import offered_in as offered_in  # noqa: PLC0414 - part of the Provider
from provision.clouds.digitalocean.offers import offers as offers  # noqa: PLC0414 - part of the Provider
from provision.clouds.digitalocean.offers import refreshes as refreshes  # noqa: PLC0414 - part of the Provider
from provision.clouds.digitalocean.offers import regions as regions  # noqa: PLC0414 - part of the Provider
from provision.clouds.digitalocean.permissions import permissions as permissions  # noqa: PLC0414 - part of the Provider
from provision.clouds.digitalocean.place import DigitalOceanPlace
from provision.clouds.digitalocean.prices import extras_price as extras_price  # noqa: PLC0414 - part of the Provider
from provision.clouds.digitalocean.prices import price as price  # noqa: PLC0414 - part of the Provider
from provision.clouds.digitalocean.prices import spot_price as spot_price  # noqa: PLC0414 - part of the Provider
from provision.clouds.forms import Form
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
from provision.errors import CloudUnsupportedError

_SIZE: Final = re.compile(r"gpu-[a-z0-9]{2,20}-[0-9]{1,5}gb")
_VPC: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

name: str = "digitalocean"
title: str = "DigitalOcean"
deadline: DeadlineKeeper = DeadlineKeeper(
    by="host",
    title="On DigitalOcean a droplet powers itself off at the deadline, and goes on costing money",
    reason="nothing in the account ends a droplet: a timer on the host powers it off, root there can stop the timer, and a droplet that is "
    "off is billed until `gpuprov sweep` or `gpuprov down` removes it",
    narrower="`gpuprov sweep --yes` in a scheduled job",
)
secure_boot: SecureBoot = SecureBoot(available=False, why="DigitalOcean's API has no word for Secure Boot")
first_key: FirstKey = FirstKey(
    given=True,
    title="The first host key of a droplet was given to it",
    reason="DigitalOcean shows neither a console nor host keys: the key is made here and brought by the user data, which every process on "
    "the droplet can read from the metadata service, and which passes through DigitalOcean. It is replaced at the first contact, before "
    "anything else is sent, and a droplet that shows another key is refused. That is worth less than a key that the machine made and that "
    "the cloud itself shows: whoever read the user data before the first contact could pose as the droplet in it",
    narrower="a place on a cloud whose machines make their own",
)
boot_disk_doubt: str = "DigitalOcean says of volumes that they are encrypted, and nothing of the disks of a droplet"
stopped_costs: str = "DigitalOcean bills a droplet that is off as one that runs"
safeguards: tuple[Safeguard, ...] = (
    Safeguard("the first host key is given by user data, and rotated at the first contact"),
    Safeguard("no droplet agent, no monitoring agent, and root's password is locked"),
    Safeguard(
        "the firewall exists before the droplet",
        "The firewall exists before the machine",
        "it is bound to a tag that the droplet is created with; until it applies to the droplet every port is open, and nobody connects",
    ),
)
ways: Mapping[str, Way] = {}
bucket: BucketCopy | None = None
forms: Mapping[str, Form] = {
    "terraform-digitalocean": Form(
        "Terraform of one place on DigitalOcean", None, "provision.clouds.digitalocean.forms.terraform", "digitalocean"
    ),
}
agent_files: tuple[str, ...] = ()
reserved_tags: tuple[str, ...] = ()
metadata_hosts: tuple[str, ...] = ("169.254.169.254",)
where_to_look: str = "`doctl compute size list`, or ask with `gpuprov catalog refresh --only digitalocean`"
price_hint: str = "`gpuprov catalog refresh --only digitalocean` asks DigitalOcean for its prices"
place: type[PlaceBase] = DigitalOceanPlace


def default_region() -> tuple[str, str]:
    """None is read."""
    return "", ""


def parts() -> dict[str, DataPart]:
    """Sizes with regions and prices, and images."""
    known = data.digitalocean()
    return {
        "digitalocean sizes": DataPart([known.sizes, known.nvswitch, known.machine_prices, known.volume_price], "digitalocean"),
        "digitalocean images": DataPart(known.images, "digitalocean"),
    }


def driver_advice(instance_type: str) -> DriverAdvice | None:  # noqa: ARG001 - nothing is known of any size
    """No size is known to need other kernel modules than its GPU alone would say."""
    return None


def place_at(offer: Offer, regions: Sequence[str]) -> DigitalOceanPlace:
    """A place with these regions."""
    return DigitalOceanPlace(cloud="digitalocean", instance_type=offer.instance_type, regions=tuple(regions))


def source_of(instance_type: str) -> str:  # noqa: ARG001 - one source for all
    """The id of the source of the regions."""
    return data.digitalocean().regions.source


def gpu_of(instance_type: str) -> str | None:
    """The GPU of a size."""
    size = data.size(instance_type)
    return size.gpu if size else None


def names_type(instance_type: str) -> bool:
    """A size with GPUs begins with `gpu-`, and ends with their memory."""
    return _SIZE.fullmatch(instance_type) is not None


def why_nowhere(instance_type: str, gpu: str | None) -> Refusal:  # noqa: ARG001 - a size has its own
    """Why a size is offered nowhere."""
    if data.is_amd(instance_type):
        return _amd(instance_type)
    if data.size(instance_type):
        return Refusal(RefusalKind.NOT_OFFERED, f"this account has {instance_type} in no region", "ask DigitalOcean's support for access")
    return Refusal(RefusalKind.UNKNOWN_TYPE, f"{instance_type} is not in the catalog")


def _amd(instance_type: str) -> Refusal:
    return Refusal(RefusalKind.UNSUPPORTED, f"the GPUs of {instance_type} are AMD's, and everything here is for NVIDIA's")


def smallest_with(gpu: str) -> str:
    """Where a GPU can be had, in a few words; empty when nowhere."""
    sizes = [size for size in data.digitalocean().sizes if size.gpu == gpu and size.regions]
    smallest = min(sizes, key=lambda size: (size.gpus, size.vcpus), default=None)
    return f"{smallest.slug} in {', '.join(smallest.regions)} of DigitalOcean" if smallest else ""


def withdrawn_with(gpu: str) -> tuple[tuple[str, dt.date], ...]:  # noqa: ARG001 - nobody recorded any
    """No size is known to have been withdrawn."""
    return ()


def refusal(place: DigitalOceanPlace, region: str, gpu: str, count: int) -> Refusal | None:
    """What the catalog knows against a place."""
    size = data.size(place.instance_type)
    if size is None:
        return why_nowhere(place.instance_type, gpu)
    has = f"{place.instance_type} has {size.gpus} x {size.gpu}, and the profile asks for {count} x {gpu}"
    if size.gpu != gpu:
        return Refusal(RefusalKind.WRONG_GPU, has)
    if size.gpus < count:
        return Refusal(RefusalKind.TOO_FEW_GPUS, has)
    if region not in size.regions:
        where = f"; it is in {', '.join(size.regions)}" if size.regions else ", nor anywhere for this account"
        return Refusal(RefusalKind.NOT_OFFERED, f"{region} has no {place.instance_type}{where}")
    return None


def image(os: tuple[str, str], place: DigitalOceanPlace | None = None) -> Image | None:
    """The place's own image, or the public one of a system."""
    record, own = data.image(os), own_of(place)
    if own is not None:
        return Image(own.lookup, own.login or (record.login if record else os[0]))
    return Image(record.slug, record.login) if record else None


def image_systems() -> tuple[tuple[str, str], ...]:
    """The systems that have a public image."""
    return tuple(sorted((record.os, record.version) for record in data.digitalocean().images))


def driver_images() -> tuple[DriverImage, ...]:
    """None: which driver the AI/ML images have is not recorded."""
    return ()


def known_image(region: str, os: tuple[str, str], place: DigitalOceanPlace | None = None) -> KnownImage | None:  # noqa: ARG001 - everywhere
    """The image that the place names, or the one that a slug named when a refresh asked."""
    own, record, layer = own_of(place), data.image(os), data.refreshed()
    if own is not None:
        return KnownImage(str(own.id), own.lookup) if own.id is not None else None
    number = layer.images.get(record.slug) if record else None
    return KnownImage(number, record.slug, "DigitalOcean", layer.days.get(number, "")) if record and number else None


def image_gap(region: str, os: tuple[str, str], place: DigitalOceanPlace | None = None) -> str:  # noqa: ARG001 - as above
    """A slug finds the newest image at the launch; without one nothing does."""
    return "" if own_of(place) is not None or data.image(os) else f"digitalocean: the image of {' '.join(os)}"


def local_disks(instance_type: str) -> int | None:
    """None where a size has scratch disks: under which name a droplet shows them is not recorded."""
    size = data.size(instance_type)
    return None if size is None or size.scratch_gb else 0


def has_nvswitch(instance_type: str) -> bool | None:
    """Whether a size has NVSwitches; None for one that is not in the catalog."""
    return instance_type in data.digitalocean().nvswitch.sizes if data.size(instance_type) else None


def quota(instance_type: str, gpu: str | None, market: str) -> str | None:  # noqa: ARG001 - it counts droplets, whatever they are
    """The limit of the account on droplets."""
    return "droplet_limit"


def subnet_problem(subnet: str | None, *, private: bool, regions: Sequence[str]) -> str:
    """A subnet is the id of a VPC, which belongs to one region; a private droplet needs one with a way out."""
    if private and subnet is None:
        return "address: private on DigitalOcean needs subnet: the id of a VPC with a way out (a NAT gateway)"
    if subnet is not None and not _VPC.fullmatch(subnet):
        return "subnet on DigitalOcean is the id of a VPC, such as 760e09ef-dc84-11e8-981e-3cfdfeaae000"
    if subnet is not None and len(set(regions)) > 1:
        return "on DigitalOcean a VPC belongs to one region, and the places name several; keep the region of the VPC"
    return ""


def cloud_options(place: DigitalOceanPlace) -> tuple[CloudOption, ...]:
    """An image of one's own."""
    return option_of(place.image)


def policy(grant: Grant) -> tuple[dict[str, Any] | None, str]:  # noqa: ARG001 - scopes know no places
    """DigitalOcean has no policy document: a token has scopes."""
    note = "every scope to launch, look after and remove, for a custom-scoped token; scopes apply to the whole team, not to one launch"
    return None, note


def bake_policy(grant: Grant, line: str) -> tuple[tuple[str, ...], dict[str, Any] | None]:  # noqa: ARG001 - the contract's
    """This release makes no images here."""
    msg = "this release bakes no images on DigitalOcean"
    raise CloudUnsupportedError(msg, hint="make a snapshot in the cloud's console, and name it in `image:` of the place")


def user_data(order: Order, region: str) -> str:  # noqa: ARG001 - the same everywhere
    """The cloud-init document that a create carries."""
    return requests.first_boot(order)


def calls(order: Order, region: str) -> list[PlannedCall]:
    """The calls that change something, and those that find what they need.

    Args:
        order: of the first attempt; words stand in it for what only the launch decides.
        region: where.
    """
    networks = ["<the address of the caller>" if network == "caller" else network for network in order.ssh_from]
    host, tag = requests.hosts(order)[0], requests.launch_tag(order.launch_id, order.name, order.tags.get(OWNER_TAG, ""))
    made = requests.droplet_name(host, order.launch_id)
    volumes = ["<the volume>"] if order.volume_gb and not order.instance_store else []
    planned: list[tuple[str, str, dict[str, Any]]] = [
        ("droplets_list", "find what an earlier run made: droplets with GPUs", {"type": "gpus"}),
        ("tags_create", "make the tag that binds the firewall to the droplet", {"name": tag}),
        (
            "firewalls_create",
            "claim the name, open SSH and nothing else, before the droplet is there",
            requests.firewall(order.name, tag, networks),
        ),
        ("droplets_list", "find what a try with a lost answer made: by name", {"name": made}),
        ("droplets_list", "the same: droplets with GPUs", {"type": "gpus"}),
        ("droplets_list", "the same: by tag", {"tag_name": tag}),
        *([("volumes_create", "make the data volume", requests.volume(order, host, region))] if volumes else []),
        ("droplets_create", "make the droplet", requests.droplet(order, host, region, volumes)),
        ("droplets_get", "wait until it is active and has its address and its tags", {"droplet_id": "<the droplet>"}),
        ("firewalls_list", "wait until the firewall applies to it", {}),
    ]
    return [PlannedCall("digitalocean", action, purpose, parameters) for action, purpose, parameters in planned]
