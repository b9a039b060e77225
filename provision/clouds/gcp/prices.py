"""What GCP bills and how it sells: a machine with its GPUs; its balanced disks, attached local SSDs and public IPv4 address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from provision.clouds.gcp import data
from provision.clouds.gcp.data import FLEX_START, HYPERDISK_ONLY, NO_FLEX_START, DiskRate, GcpMachine
from provision.clouds.terms import Extras, Price, PricePart, Refusal, RefusalKind

if TYPE_CHECKING:
    from provision.clouds.gcp.place import GcpPlace

HOURS_PER_MONTH: Final = 730  # as Google's price pages have it
_LOCAL_SSD_GB: Final = 375  # one of them
_BALANCED, _LOCAL_SSD, _ADDRESS = "disk:balanced", "disk:local-ssd", "address"  # what a refresh calls their rates
_FRESH: Final = "refreshed-gcp-prices"


def spot_price(instance_type: str, region: str) -> Price | None:  # noqa: ARG001 - Google publishes no history of its spot prices
    """Not known."""
    return None


def extras_price(instance_type: str, region: str, extras: Extras) -> Price:
    """The disks and the address of a machine. Local SSDs that are built into its type are part of its price."""
    prices = data.gcp().disk_prices
    rate, source = prices.regions.get(region), prices.source
    fresh = data.refreshed().rates
    if region in fresh.get(_BALANCED, {}) and region in fresh.get(_LOCAL_SSD, {}):
        rate, source = DiskRate(fresh[_BALANCED][region], fresh[_LOCAL_SSD][region]), _FRESH
    ssds = data.attached_ssds(instance_type) if extras.local_disk else 0
    # The newest families take Hyperdisk alone, whose price is not known here.
    balanced = rate.balanced if rate and not instance_type.startswith(HYPERDISK_ONLY) else None
    sizes = (
        (extras.network_gb, "balanced disk", balanced, "disks"),
        (ssds * _LOCAL_SSD_GB, "local SSD", rate.local_ssd if rate else None, "local SSDs"),
    )
    parts = [PricePart(f"{gb} GB of {kind}", round(usd * gb / HOURS_PER_MONTH, 6), source) for gb, kind, usd, _ in sizes if gb and usd]
    missing = [name for gb, _, usd, name in sizes if gb and not usd]
    if extras.public_address:
        address = data.gcp().address_price
        usd = fresh.get(_ADDRESS, {}).get(region)
        known = (address.usd_per_hour, address.source) if usd is None else (usd, _FRESH)
        parts.append(PricePart("public IPv4 address", *known))
    return Price(tuple(parts), tuple(missing))


def price(instance_type: str, region: str, gpu: str, count: int) -> Price | None:
    """The on-demand price of a machine with its GPUs; for N1 the GPUs, the vCPUs and the memory are three parts."""
    fresh = _refreshed_price(instance_type, region, gpu, count)
    if fresh:
        return fresh
    machine = data.machine_price(instance_type, region)
    if machine:
        return Price((PricePart("machine", *machine),))
    attached = next((entry for entry in data.shipped().prices if entry.gpu == gpu), None)
    size = n1_size(instance_type)
    if attached is None or size is None:
        return None
    gpus = PricePart(f"{count:g} x {gpu}", round(attached.usd_per_hour * count, 4), attached.source)
    rates = data.shipped().n1_prices
    rate = rates.regions.get(region)
    if rate is None:
        return Price((gpus,), missing=("vCPUs", "memory"))
    vcpus, memory_gb = size
    cpu = PricePart(f"{vcpus} vCPUs", round(rate.vcpu * vcpus, 6), rates.source)
    memory = PricePart(f"{memory_gb:g} GB of memory", round(rate.memory_gb * memory_gb, 6), rates.source)
    return Price((gpus, cpu, memory))


def _refreshed_price(instance_type: str, region: str, gpu: str, count: int) -> Price | None:
    """The sum of a machine's parts as Google's price list has them; None unless a refresh knows each of them."""
    machine = data.machine(instance_type)
    size = (machine.vcpus, machine.memory_gb) if machine else n1_size(instance_type)
    if size is None or (machine and machine.accelerator):  # A3 Mega is billed by SKUs of its own, whose names are not known
        return None
    model, cards, family = machine.gpu if machine else gpu, machine.gpus if machine else count, instance_type.partition("-")[0]
    wanted = [
        (f"{cards:g} x {model}", f"gpu:{model}", float(cards)),
        (f"{size[0]} vCPUs", f"core:{family}", float(size[0])),
        (f"{size[1]:g} GB of memory", f"ram:{family}", size[1]),
    ]
    if machine and machine.local_ssd_gb:
        wanted.append((f"{machine.local_ssd_gb} GB of local SSD", _LOCAL_SSD, machine.local_ssd_gb / HOURS_PER_MONTH))
    rates = data.refreshed().rates
    parts = [PricePart(item, round(rates[key][region] * many, 6), _FRESH) for item, key, many in wanted if region in rates.get(key, {})]
    return Price(tuple(parts)) if len(parts) == len(wanted) else None


def n1_size(machine_type: str) -> tuple[int, float] | None:
    """The vCPUs and GB of memory of an N1 type; None for another family, and for a size that N1 does not have."""
    n1, (_, kind, vcpus) = data.shipped().n1, [*machine_type.split("-"), "", ""][:3]
    count = int(vcpus) if vcpus.isdecimal() else 0
    if machine_type != f"n1-{kind}-{count}" or kind not in n1.gb_per_vcpu or count not in n1.vcpus or count < n1.smallest[kind]:
        return None
    return count, count * n1.gb_per_vcpu[kind]


def sold_note(machine: GcpMachine) -> str:
    """What surprises about how a machine type is sold; empty where it is sold on demand."""
    return "" if "on-demand" in machine.markets else f"not sold on demand: {' or '.join(machine.markets)} only"


def market_problem(place: GcpPlace) -> Refusal | None:
    """Why the machine type is not sold in this way."""
    machine = data.machine(place.instance_type)
    if place.market == FLEX_START:
        if not place.instance_type.startswith(NO_FLEX_START):
            return None
        why = "GCP sells so the types whose GPUs are built in, except A4X and G4"
        return Refusal(RefusalKind.NOT_SOLD, f"{place.instance_type} is not sold as {FLEX_START}: {why}")
    reserved = (
        place.capacity is not None and place.capacity.reservation is not None and "reservation" in machine.markets if machine else False
    )
    if machine is None or place.market in machine.markets or reserved:
        return None
    ways = " or ".join(machine.markets)
    return Refusal(RefusalKind.NOT_SOLD, f"{place.instance_type} is not sold as {place.market}, only as {ways}")
