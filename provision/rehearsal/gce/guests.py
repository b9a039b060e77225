"""The life of an instance: a host of the rehearsal behind it, states that take their time, and ends that come by themselves."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from provision.host import hostkeys
from provision.rehearsal import rootfs
from provision.rehearsal.gce.offered import Machine
from provision.rehearsal.gce.world import PROJECT, Place, World, last, now
from provision.rehearsal.hosts import HostSpec

__all__ = [
    "ALIVE",
    "Guest",
    "end",
    "ended_by_itself",
    "erase",
    "guest_of",
    "host_keys",
    "metadata_of",
    "power_off",
    "power_on",
    "shown",
]

ALIVE = {"PROVISIONING", "STAGING", "RUNNING", "STOPPING"}
_LOCAL_SSD_GB = 375


@dataclass(slots=True)
class Guest:
    """What an instance is besides what its GET shows.

    Attributes:
        accelerators: accelerator type → how many, built in or attached.
        spot: whether it may be taken back.
        running_since: when it last came to RUNNING, on the monotonic clock; None while it does not run.
        made: whether it ever had a host.
        ending: the timer of its maxRunDuration.
        turn: raised by every change of power, so that what an earlier one planned does not happen.
    """

    place: Place
    machine: Machine
    accelerators: dict[str, int]
    spot: bool
    running_since: float | None = None
    made: bool = False
    ending: threading.Timer | None = None
    turn: int = 0

    def host_id(self, instance: dict[str, Any]) -> str:
        """What the host of the instance is called."""
        return f"gce-{instance['id']}"


def guest_of(world: World, instance: dict[str, Any]) -> Guest:
    """The guest of an instance."""
    guest: Guest = world.guests[instance["id"]]
    return guest


def metadata_of(instance: dict[str, Any]) -> dict[str, str]:
    """The metadata of an instance by key."""
    return {item["key"]: item.get("value", "") for item in instance.get("metadata", {}).get("items", [])}


def _spec(guest: Guest, instance: dict[str, Any]) -> HostSpec:
    """The host: the boot disk is the root, which it has anyway; keys are those of the image's login user."""
    said = metadata_of(instance)
    keys = [line.partition(":") for line in said.get("ssh-keys", "").splitlines()]
    disks = instance["disks"]
    scratch = sum(disk.get("type") == "SCRATCH" for disk in disks)
    return HostSpec(
        instance_id=guest.host_id(instance),
        hostname=instance["name"],
        user_data=said.get("user-data", "").encode(),
        authorized_keys=tuple(key.strip() for user, _, key in keys if user.strip() == rootfs.LOGIN and key.strip()),
        instance_store_gb=scratch * _LOCAL_SSD_GB + guest.machine.local_ssd_gb,
        volume_gb=tuple(int(d["diskSizeGb"]) for d in disks if not d.get("boot") and d.get("type") != "SCRATCH"),
    )


def _address(world: World, guest: Guest, instance: dict[str, Any]) -> str:
    """Power the host on and return its address; called without the lock, because a host takes its time."""
    if world.park is None:
        number = int(hashlib.sha256(instance["id"].encode()).hexdigest(), 16)
        return f"127.78.{number % 250}.{number // 250 % 250 + 2}"
    if guest.made:
        return world.park.start(guest.host_id(instance))
    address = world.park.create(_spec(guest, instance))
    guest.made = True
    return address


def power_on(world: World, instance: dict[str, Any], *, status: str = "PROVISIONING") -> None:
    """Begin the way to RUNNING, through STAGING; called under the lock."""
    guest = guest_of(world, instance)
    guest.turn += 1
    turn = guest.turn
    instance["status"] = status
    began = time.monotonic()

    def stage() -> None:
        address = _address(world, guest, instance)
        with world.lock:
            if guest.turn != turn:
                return
            for access in instance["networkInterfaces"][0].get("accessConfigs", []):
                access["natIP"] = address
            instance["status"] = "STAGING"
        world.clock.after(began + world.settings.gce_running_s - time.monotonic(), run)

    def run() -> None:
        with world.lock:
            if guest.turn == turn:
                instance.update(status="RUNNING", lastStartTimestamp=now())
                guest.running_since = time.monotonic()
                _limit(world, guest, instance)

    world.clock.after(world.settings.gce_running_s / 2, stage)


def _limit(world: World, guest: Guest, instance: dict[str, Any]) -> None:
    """Start the timer of maxRunDuration, which begins anew whenever the instance comes to RUNNING."""
    scheduling = instance.get("scheduling", {})
    at: dt.datetime | None = None
    if "maxRunDuration" in scheduling:
        seconds = float(scheduling["maxRunDuration"].get("seconds", 0)) + scheduling["maxRunDuration"].get("nanos", 0) / 1e9
        at = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
    elif "terminationTime" in scheduling:
        at = dt.datetime.fromisoformat(scheduling["terminationTime"])
    if at is None:
        return
    instance.setdefault("resourceStatus", {})["scheduling"] = {"terminationTimestamp": at.isoformat(timespec="milliseconds")}
    guest.ending = world.clock.after((at - dt.datetime.now(dt.UTC)).total_seconds(), lambda: end(world, instance))


def end(world: World, instance: dict[str, Any]) -> None:
    """Stop or delete an instance whose time is over, or that was taken back."""
    with world.lock:
        if instance["status"] in ALIVE:
            deleted = instance.get("scheduling", {}).get("instanceTerminationAction") == "DELETE"
            finish = power_off(world, instance)
            act = (lambda: erase(world, instance)) if deleted else finish
            world.clock.after(world.settings.gce_operation_s, lambda: _locked(world, act))


def _locked(world: World, act: Callable[[], None]) -> None:
    with world.lock:
        act()


def power_off(world: World, instance: dict[str, Any]) -> Callable[[], None]:
    """Begin to stop, under the lock; returns what makes it TERMINATED."""
    guest = guest_of(world, instance)
    guest.turn += 1
    turn = guest.turn
    guest.running_since = None
    if guest.ending:
        guest.ending.cancel()
    instance["status"] = "STOPPING"

    def finish() -> None:
        if guest.turn != turn:
            return
        instance.update(status="TERMINATED", lastStopTimestamp=now())
        instance.get("resourceStatus", {}).pop("scheduling", None)
        for access in instance["networkInterfaces"][0].get("accessConfigs", []):
            access.pop("natIP", None)

    if world.park and guest.made:
        park, host_id = world.park, guest.host_id(instance)
        world.clock.after(0, lambda: park.stop(host_id))
    return finish


def erase(world: World, instance: dict[str, Any]) -> None:
    """Let an instance be gone, and the disks that go with it; under the lock."""
    guest = guest_of(world, instance)
    guest.turn += 1
    if guest.ending:
        guest.ending.cancel()
    world.resources.pop(guest.place, None)
    instance["status"] = "TERMINATED"
    for attached in instance["disks"]:
        if attached.get("type") == "SCRATCH":
            continue
        place = guest.place.beside("disks", last(attached["source"]))
        disk = world.resources.get(place)
        if disk and attached.get("autoDelete"):
            del world.resources[place]
        elif disk:
            disk.pop("users", None)
    if world.park:
        park, host_id = world.park, guest.host_id(instance)
        world.clock.after(0, lambda: park.destroy(host_id))


def host_keys(world: World, instance: dict[str, Any]) -> tuple[str, ...]:
    """The public host keys that the guest has told by now: those on its console, or made-up ones where there is no host."""
    guest = guest_of(world, instance)
    if guest.running_since is None or time.monotonic() - guest.running_since < world.settings.gce_guest_attributes_s:
        return ()
    if world.park:
        return hostkeys.parse_console(world.park.console(guest.host_id(instance)))
    words = (b"ssh-ed25519", hashlib.sha256(instance["id"].encode()).digest())
    return (f"ssh-ed25519 {base64.b64encode(b''.join(struct.pack('>I', len(w)) + w for w in words)).decode()}",)


def ended_by_itself(world: World, host_id: str) -> None:
    """A host powered itself off: its instance stops, and can be started again."""
    with world.lock:
        for _, instance in world.within(PROJECT, "instances"):
            if guest_of(world, instance).host_id(instance) == host_id and instance["status"] == "RUNNING":
                power_off(world, instance)()


def shown(world: World) -> list[dict[str, str]]:
    """The instances for `gpuprov rehearse status`, in the words that the embedded EC2 uses."""
    with world.lock:
        return [
            {
                "id": place.name,
                "state": instance["status"],
                "type": last(instance["machineType"]),
                "address": instance["networkInterfaces"][0].get("accessConfigs", [{}])[0].get("natIP", ""),
            }
            for place, instance in world.within(PROJECT, "instances")
        ]
