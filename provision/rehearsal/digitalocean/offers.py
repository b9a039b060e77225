"""What the embedded DigitalOcean offers: sizes with their prices, regions, and images.

The shapes and hourly prices of sizes with GPUs are those of GET /v2/sizes on 2026-10-08, as shyamsfo/bernoulli quotes it ("DigitalOcean GPU
options"); docs.digitalocean.com/products/droplets/details/pricing had H100 at 3.39 and 23.92 USD, MI300X at 1.99 on 28 May 2026.
In that list an account without access to GPUs sees NVIDIA's sizes as available, in no region. The scratch disk, the image and `gpu_info` of
gpu-h100x1-80gb are the document's example `gpu_droplets`. From memory: CPU sizes, other scratch disks, `gpu_info.model` of other cards, and
the regions of NVIDIA's. A client has to believe what the lists say.
"""

from typing import Any, Final

from provision.rehearsal.digitalocean.refusals import not_found
from provision.rehearsal.digitalocean.world import Answer, DropletCall, DropletWorld, Handler
from provision.structs import Struct

_MB: Final = 1024
_HOURS: Final = 744  # of a month: 3281.04 for 4.41 an hour in the list of 2026-10-08
_CPU_HOURS: Final = 672
# slug → name, as the document's examples write it
_REGIONS: Final = {
    "nyc1": "New York 1",
    "nyc2": "New York 2",
    "nyc3": "New York 3",
    "sfo3": "San Francisco 3",
    "ams3": "Amsterdam 3",
    "sgp1": "Singapore 1",
    "lon1": "London 1",
    "fra1": "Frankfurt 1",
    "tor1": "Toronto 1",
    "blr1": "Bangalore 1",
    "syd1": "Sydney 1",
    "atl1": "Atlanta 1",
}
# The document's list of the regions of images and volumes does not have it, though the pricing page's AMD cards are sold there alone.
_UNDOCUMENTED: Final = {"atl1"}
_FEATURES: Final = ("backups", "ipv6", "metadata", "install_agent", "storage", "image_transfer", "server_id", "management_networking")
_EVERYWHERE: Final = " ".join(_REGIONS)


class OfferedSize(Struct):
    """A size of droplets; without GPUs, `model` is empty."""

    slug: str
    vcpus: int
    memory_gb: float
    disk_gb: int
    hourly_usd: float
    regions: str
    words: str
    model: str = ""
    count: int = 0
    vram_gb: int = 0
    scratch_gb: int = 0


_SIZES: Final = (
    OfferedSize("s-1vcpu-1gb", 1, 1, 25, 0.00893, _EVERYWHERE, "Basic"),
    OfferedSize("s-2vcpu-4gb", 2, 4, 80, 0.03571, _EVERYWHERE, "Basic"),
    OfferedSize("g-2vcpu-8gb", 2, 8, 25, 0.09375, _EVERYWHERE, "General Purpose"),
    OfferedSize("gpu-4000adax1-20gb", 8, 32, 500, 0.76, "nyc2 tor1", "RTX 4000 Ada GPU Droplet - 1X", "nvidia_rtx4000_ada", 1, 20),
    OfferedSize("gpu-6000adax1-48gb", 8, 64, 500, 1.57, "tor1", "RTX 6000 Ada GPU Droplet - 1X", "nvidia_rtx6000_ada", 1, 48),
    OfferedSize("gpu-l40sx1-48gb", 8, 64, 500, 1.57, "tor1", "L40S GPU Droplet - 1X", "nvidia_l40s", 1, 48),
    OfferedSize("gpu-h100x1-80gb", 20, 240, 720, 4.41, "nyc2 tor1 ams3", "H100 GPU - 1X", "nvidia_h100", 1, 80, 5120),
    OfferedSize("gpu-h100x8-640gb", 160, 1920, 2046, 35.28, "nyc2 tor1", "H100 GPU - 8X", "nvidia_h100", 8, 640, 40960),
    OfferedSize("gpu-h200x1-141gb", 24, 240, 720, 4.47, "nyc2 atl1", "Nvidia H200 - 1X", "nvidia_h200", 1, 141, 5120),
    OfferedSize("gpu-h200x8-1128gb", 192, 1920, 2046, 35.76, "nyc2 atl1", "Nvidia H200 - 8X", "nvidia_h200", 8, 1128, 40960),
    OfferedSize("gpu-mi300x1-192gb", 20, 240, 720, 2.59, "atl1", "AMD MI300X - 1X", "amd_mi300x", 1, 192, 5120),
    OfferedSize("gpu-mi325x1-256gb", 20, 160, 720, 3.8, "nyc2 tor1", "AMD MI325X - 1X", "amd_mi325x", 1, 256, 5120),
)
# slug → number, distribution, name, gigabytes of the smallest disk
_IMAGES: Final = {
    "gpu-h100x1-base": (166407044, "Ubuntu", "AI/ML Ready H100x1", 25),
    "gpu-h100x8-base": (166407045, "Ubuntu", "AI/ML Ready H100x8", 25),
    "gpu-amd-base": (188571990, "Ubuntu", "AMD AI/ML Ready", 25),
    "ubuntu-22-04-x64": (195932981, "Ubuntu", "22.04 (LTS) x64", 7),
    "ubuntu-24-04-x64": (195932982, "Ubuntu", "24.04 (LTS) x64", 7),
    "debian-12-x64": (195932983, "Debian", "12 x64", 7),
    "rockylinux-9-x64": (195932984, "Rocky Linux", "9 x64", 10),
}


def size_named(slug: str) -> OfferedSize | None:
    """A size by its slug."""
    return next((size for size in _SIZES if size.slug == slug), None)


def regions_of(world: DropletWorld, size: OfferedSize) -> list[str]:
    """Where an account finds the size: one with NVIDIA's GPUs nowhere, until it has access to them."""
    if size.model.startswith("nvidia") and not world.settings.do_gpu_access:
        return []
    return world.settings.do_size_regions.get(size.slug, size.regions.split())


def is_region(slug: str) -> bool:
    """Whether there is such a region."""
    return slug in _REGIONS


def region_slugs() -> list[str]:
    """The slugs of all regions."""
    return list(_REGIONS)


def region(world: DropletWorld, slug: str) -> dict[str, Any]:
    """A region as the API shows it."""
    sizes = [size.slug for size in _SIZES if slug in regions_of(world, size)]
    return {"slug": slug, "name": _REGIONS[slug], "features": [*_FEATURES], "available": True, "sizes": sizes}


def disks(size: OfferedSize) -> list[dict[str, Any]]:
    """The `disk_info` of a size."""
    amounts = {"local": size.disk_gb, "scratch": size.scratch_gb}
    return [{"type": kind, "size": {"amount": amount, "unit": "gib"}} for kind, amount in amounts.items() if amount]


def gpus(size: OfferedSize) -> dict[str, Any]:
    """The `gpu_info` of a size; empty for one without GPUs."""
    card = {"count": size.count, "model": size.model, "vram": {"amount": size.vram_gb, "unit": "gib"}}
    return {"gpu_info": card} if size.model else {}


def _whole(amount: float) -> float:
    """An amount as DigitalOcean writes it: 12, and 35414.4."""
    return int(amount) if amount == int(amount) else amount


def shown(world: DropletWorld, size: OfferedSize) -> dict[str, Any]:
    """A size as the API shows it."""
    return {
        "slug": size.slug,
        "memory": int(size.memory_gb * _MB),
        "vcpus": size.vcpus,
        "disk": size.disk_gb,
        "transfer": 15.0 if size.model else 1.0,
        "price_monthly": _whole(round(size.hourly_usd * (_HOURS if size.model else _CPU_HOURS), 2)),
        "price_hourly": size.hourly_usd,
        "regions": regions_of(world, size),
        "available": True,
        "description": size.words,
        "networking_throughput": 10000 if size.model else 2000,  # of GPUs: from memory
        "disk_info": disks(size),
        **gpus(size),
    }


def images(world: DropletWorld) -> list[dict[str, Any]]:
    """Every image that the account may use."""
    public = [
        _image({"id": number, "slug": slug, "distribution": distribution, "name": name, "min_disk_size": smallest})
        for slug, (number, distribution, name, smallest) in _IMAGES.items()
    ]
    own = ({key: value for key, value in given.items() if key != "system"} for given in world.settings.do_images)
    return public + [_image({"slug": None, "public": False, "type": "custom", **given}) for given in own]


def system_of(world: DropletWorld, number: int) -> str:
    """The system of an own image, in the words of the catalogue; empty for every other."""
    return next((str(given.get("system", "")) for given in world.settings.do_images if given["id"] == number), "")


def _image(given: dict[str, Any]) -> dict[str, Any]:
    plain = {
        "type": "base",
        "public": True,
        "regions": [slug for slug in _REGIONS if slug not in _UNDOCUMENTED],
        "created_at": "2024-09-27T15:35:19Z",
        "min_disk_size": 7,
    }
    return {**plain, "size_gigabytes": 2.4, "description": "", "tags": [], "status": "available", "error_message": "", **given}


def image_named(world: DropletWorld, name: int | str) -> dict[str, Any] | None:
    """An image by its number or its slug."""
    return next((image for image in images(world) if str(name) in {str(image["id"]), image["slug"]}), None)


def is_in(image: dict[str, Any], slug: str) -> bool:
    """Whether droplets of a region can be made of an image: public ones are everywhere."""
    return bool(image["public"]) or slug in image["regions"]


def _list_images(call: DropletCall) -> Answer:
    found = images(call.world)
    if call.query.get("type") == "application":
        found = [image for image in found if (image["slug"] or "").startswith("gpu-")]
    if call.query.get("type") == "distribution":
        found = [image for image in found if image["public"] and not image["slug"].startswith("gpu-")]
    if call.query.get("private"):
        found = [image for image in found if not image["public"]]
    if "tag_name" in call.query:
        found = [image for image in found if call.query["tag_name"] in image["tags"]]
    return call.listed("images", found)


def _get_image(call: DropletCall) -> Answer:
    image = image_named(call.world, call.path["image_id"])
    if image is None:
        raise not_found()
    return 200, {"image": image}


HANDLERS: Final[dict[str, Handler]] = {
    "sizes_list": lambda call: call.listed("sizes", [shown(call.world, size) for size in _SIZES]),
    "regions_list": lambda call: call.listed("regions", [region(call.world, slug) for slug in _REGIONS]),
    "images_list": _list_images,
    "images_get": _get_image,
}
