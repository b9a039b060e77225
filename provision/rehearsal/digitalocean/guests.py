"""The life of a droplet: a host of the rehearsal behind it, whose root has the SSH keys, and states that take their time."""

import hashlib
import ipaddress
import time
from typing import Any, Final

from provision.rehearsal.digitalocean import networks, offers
from provision.rehearsal.digitalocean.world import DropletState, DropletWorld
from provision.rehearsal.hosts import HostSpec

_MASK: Final = "255.255.255.0"


def _spec(world: DropletWorld, droplet: DropletState) -> HostSpec:
    """The host: the keys are root's, as on DigitalOcean's images, and the address stays as long as the droplet."""
    size = offers.size_named(droplet.shown["size_slug"])
    volumes = [world.volumes[volume] for volume in droplet.shown["volume_ids"]]
    # docs.digitalocean.com/products/volumes/how-to/mount: /dev/disk/by-id/scsi-0DO_Volume_NAME
    names = [*(f"scsi-0DO_Volume_{volume['name']}" for volume in volumes), "scratch"]
    return HostSpec(
        instance_id=droplet.host_id,
        hostname=droplet.shown["name"],
        user_data=droplet.user_data.encode(),
        authorized_keys=droplet.keys,
        root_login=True,
        system=offers.system_of(world, int(droplet.shown["image"]["id"])),
        instance_store_gb=size.scratch_gb if size else 0,
        volume_gb=tuple(volume["size_gigabytes"] for volume in volumes),
        disk_link=lambda number, _serial, _ephemeral: names[number],
        keeps_address=True,
    )


def _power(world: DropletWorld, droplet: DropletState) -> str:
    """Power the host on and return its address; called without the world's lock, and with the droplet's own."""
    if world.park is None:
        number = int(hashlib.sha256(str(droplet.id).encode()).hexdigest(), 16)
        return f"127.79.{number % 250}.{number // 250 % 250 + 2}"
    again, droplet.has_host, droplet.on = droplet.has_host, True, True
    return world.park.start(droplet.host_id) if again else world.park.create(_spec(world, droplet))


def arrive(world: DropletWorld, droplet: DropletState) -> None:
    """Begin the way to `active`: an address comes before it."""
    seconds = world.settings.do_active_s
    if seconds is not None:
        world.timers.after(seconds / 2, lambda: boot(world, droplet))


def boot(world: DropletWorld, droplet: DropletState) -> None:
    """Power on, and show the addresses."""
    with droplet.hosting:
        if droplet.id not in world.droplets or droplet.on:
            return
        address = _power(world, droplet)
        networks.hold(world, droplet)
    with world.lock:
        block = ipaddress.IPv4Network(world.vpcs[droplet.shown["vpc_uuid"]]["ip_range"])
        private = str(block[2 + droplet.id % (block.num_addresses - 3)])
        if world.park and not droplet.public:  # whoever reaches the network of the hosts reaches it here
            private = address
        cards = [{"ip_address": private, "netmask": str(block.netmask), "type": "private"}]
        if droplet.public:
            gateway = f"{address.rpartition('.')[0]}.1"
            cards.append({"ip_address": address, "netmask": _MASK, "gateway": gateway, "type": "public"})
        v6 = [{"ip_address": f"2001:db8::{droplet.id % 65535 + 1:x}", "netmask": 64, "gateway": "2001:db8::1", "type": "public"}]
        droplet.shown["networks"] = {"v4": cards, "v6": v6 if "ipv6" in droplet.shown["features"] else []}
        networks.protect(world)  # rules may name this droplet


def activate(world: DropletWorld, droplet: DropletState) -> None:
    """End the create or a power-on: the droplet is `active`, unless its host has ended meanwhile."""
    boot(world, droplet)  # if it did not yet
    with world.lock:
        droplet.shown["status"] = "active"
        ended = bool(world.park and droplet.has_host and world.park.has_ended(droplet.host_id))
    if ended:
        ended_by_itself(world, droplet.host_id)


def power_off(world: DropletWorld, droplet: DropletState) -> None:
    """Power off; what is billed goes on, and so do the places that it takes."""
    with droplet.hosting:
        if world.park and droplet.on:
            world.park.stop(droplet.host_id)
        droplet.on = False
    with world.lock:
        droplet.shown["status"] = "off"


def restart(world: DropletWorld, droplet: DropletState) -> None:
    """Boot a droplet that runs anew."""
    with droplet.hosting:
        if world.park and droplet.on:
            world.park.reboot(droplet.host_id)


def erase(world: DropletWorld, droplet: DropletState) -> None:
    """Remove a droplet, under the lock; its volumes stay."""
    world.droplets.pop(droplet.id, None)
    networks.protect(world)
    for volume in droplet.shown["volume_ids"]:
        world.volumes[volume]["droplet_ids"] = []
    for firewall in world.firewalls.values():
        firewall["droplet_ids"] = [number for number in firewall["droplet_ids"] if number != droplet.id]
    if world.park:
        world.timers.after(0, lambda: _destroy(world, droplet))


def _destroy(world: DropletWorld, droplet: DropletState) -> None:
    with droplet.hosting:
        droplet.on = False
        if world.park and droplet.has_host:
            world.park.destroy(droplet.host_id)


def ended_by_itself(world: DropletWorld, host_id: str) -> None:
    """A host powered itself off: its droplet is off, and can be powered on again."""
    with world.lock:
        mine = [d for d in world.droplets.values() if d.host_id == host_id and d.shown["status"] == "active"]
    for droplet in mine:
        power_off(world, droplet)


def is_seen(world: DropletWorld, droplet: DropletState) -> bool:
    """Whether lists show the droplet by now."""
    return time.monotonic() - droplet.created >= world.late_s(droplet.id, "lists", world.settings.do_unseen_s)


def view(world: DropletWorld, droplet: DropletState) -> dict[str, Any]:
    """A droplet as its GET shows it."""
    size = offers.size_named(droplet.shown["size_slug"])
    more = {"region": offers.region(world, droplet.region), "size": offers.shown(world, size) if size else {}}
    return {**droplet.shown, **more}


def rows(world: DropletWorld) -> list[dict[str, Any]]:
    """The droplets for `gpuprov rehearse status`; `open` are the networks that firewalls let in to port 22, `busy` is a pending event."""
    with world.lock:
        return [
            {
                "id": str(d.id),
                "state": d.shown["status"],
                "type": d.shown["size_slug"],
                "address": address_of(d),
                "open": networks.ssh_from(world, d),
                "busy": bool(d.event),
            }
            for d in world.droplets.values()
        ]


def address_of(droplet: DropletState) -> str:
    """The address under which a droplet's host is reached; empty before it has one."""
    cards = droplet.shown["networks"]["v4"]
    wanted = "public" if droplet.public else "private"
    return next((card["ip_address"] for card in cards if card["type"] == wanted), "")
