"""The life of an instance: a host of the rehearsal behind it, states that take their time, and ends that come by themselves."""

import base64
import datetime as dt
import hashlib
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from provision.host import hostkeys
from provision.rehearsal import rootfs
from provision.rehearsal.gcp import os_login
from provision.rehearsal.gcp.offers import MachineType
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import ResourcePath, World, last, now
from provision.rehearsal.hosts import HostSpec
from provision.structs import MutableStruct, field

ALIVE = {"PROVISIONING", "STAGING", "RUNNING", "STOPPING"}
_LOCAL_SSD_GB = 375
# Of the images that Google offers only Ubuntu's have cloud-init (github.com/kubernetes/kops/pull/17737, which names COS as well); the build
# files of the others install none (GoogleCloudPlatform/compute-image-tools, daisy_workflows/image_build; AlmaLinux/cloud-images,
# ansible/roles/gcp_guest). All have the guest agent (GoogleCloudPlatform/cloud-image-tests, test_suites/packagevalidation/package_test.go),
# which runs `startup-script` at each boot (google-startup-scripts.service of GoogleCloudPlatform/guest-agent). Where the system of an
# image is not known, it is taken for Ubuntu, which the images of tests are.
_WITH_CLOUD_INIT = ("", "ubuntu")


class Guest(MutableStruct):
    """What an instance is besides what its GET shows."""

    place: ResourcePath
    machine: MachineType
    accelerators: dict[str, int]  # accelerator type → how many, built in or attached
    spot: bool  # whether it may be taken back
    addresses: int = 0  # how many external ones it has
    image: str = ""  # its boot disk's image, where a client made that of another instance's disk
    system: str = ""  # of its boot disk's image, in the words of the catalogue
    running_since: float | None = None  # when it last came to RUNNING, on the monotonic clock; None while it does not run
    has_host: bool = False  # whether it ever had a host
    host_on: bool = False  # whether that runs, or is being started
    # held while the host is changed, which takes too long to hold the world for it
    hosting: threading.Lock = field(default_factory=threading.Lock)
    ending: threading.Timer | None = None  # the timer of its maxRunDuration
    turn: int = 0  # raised by every change of power, so that what an earlier one planned does not happen

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


def _keys(world: World, instance: dict[str, Any]) -> list[tuple[str, str]]:
    """Users and their keys: those of the metadata, each for the user that it names, or under OS Login those of the accounts."""
    metadata = metadata_of(instance)
    if metadata.get("enable-oslogin", "").upper() == "TRUE":
        return list(os_login.accounts(world, instance))
    lines = (line.partition(":") for line in metadata.get("ssh-keys", "").splitlines())
    return [(user.strip(), key.strip()) for user, _, key in lines if key]


def _spec(world: World, guest: Guest, instance: dict[str, Any]) -> HostSpec:
    """The host: the boot disk is the root, which it has anyway."""
    metadata, keys = metadata_of(instance), _keys(world, instance)
    volumes = [d for d in instance["disks"] if not d.get("boot") and d.get("type") != "SCRATCH"]
    stores = sum(d.get("type") == "SCRATCH" for d in instance["disks"]) + guest.machine.local_ssd_gb // _LOCAL_SSD_GB
    # The links that Google's udev rules make: docs.cloud.google.com/compute/docs/disks/disk-symlinks
    names = [*(f"google-{d['deviceName']}" for d in volumes), *(f"google-local-nvme-ssd-{number}" for number in range(stores))]
    return HostSpec(
        instance_id=guest.host_id(instance),
        hostname=instance["name"],
        user_data=metadata.get("user-data", "").encode(),
        startup_script=metadata.get("startup-script", "").encode(),
        has_cloud_init=guest.system.partition(" ")[0] in _WITH_CLOUD_INIT,
        authorized_keys=tuple(key for user, key in keys if user == rootfs.LOGIN),
        accounts=tuple((user, key) for user, key in keys if user != rootfs.LOGIN),
        instance_store_gb=stores * _LOCAL_SSD_GB,
        volume_gb=tuple(int(d["diskSizeGb"]) for d in volumes),
        disk_link=lambda number, _serial, _ephemeral: names[number],
        instance_stores=max(stores, 1),
        keeps_address=not instance["networkInterfaces"][0].get("accessConfigs"),
        image=guest.image,
        system=guest.system,
    )


def _address(world: World, guest: Guest, instance: dict[str, Any]) -> str:
    """Power the host on and return its address; called without the world's lock, and with the guest's own."""
    if world.park is None:
        number = int(hashlib.sha256(instance["id"].encode()).hexdigest(), 16)
        return f"127.78.{number % 250}.{number // 250 % 250 + 2}"
    again, guest.has_host = guest.has_host, True
    if guest.host_on:  # it was restarted
        world.park.stop(guest.host_id(instance))
    guest.host_on = True
    return world.park.start(guest.host_id(instance)) if again else world.park.create(_spec(world, guest, instance))


def host_off(world: World, instance: dict[str, Any]) -> None:
    """Power the host off, if it has one that runs; without the world's lock."""
    guest = guest_of(world, instance)
    with guest.hosting:
        if world.park and guest.host_on:
            guest.host_on = False
            world.park.stop(guest.host_id(instance))


def power_on(world: World, instance: dict[str, Any], *, status: str = "PROVISIONING") -> None:
    """Begin the way to RUNNING, through STAGING; called under the lock."""
    guest = guest_of(world, instance)
    guest.turn += 1
    turn = guest.turn
    instance["status"] = status
    began = time.monotonic()

    def stage() -> None:
        with guest.hosting:
            if guest.turn != turn:
                return
            address = _address(world, guest, instance)
        with world.lock:
            if guest.turn != turn:
                return
            card = instance["networkInterfaces"][0]
            for access in card.get("accessConfigs", []):
                access["natIP"] = address
            if world.park and not card.get("accessConfigs"):  # whoever reaches the network of the hosts reaches it here
                card["networkIP"] = address
            instance["status"] = "STAGING"
        world.timers.after(began + world.settings.gce_running_s - time.monotonic(), run)

    def run() -> None:
        with world.lock:
            if guest.turn == turn:
                instance.update(status="RUNNING", lastStartTimestamp=now())
                guest.running_since = time.monotonic()
                _limit(world, guest, instance)
                if world.park and world.park.has_ended(guest.host_id(instance)):  # before it was RUNNING
                    world.timers.after(0, lambda: ended_by_itself(world, guest.host_id(instance)))

    world.timers.after(world.settings.gce_running_s / 2, stage)


def duration_s(duration: dict[str, Any]) -> float:
    """The seconds of a Duration in Google's JSON."""
    return float(duration.get("seconds", 0)) + float(duration.get("nanos", 0)) / 1e9


def _limit(world: World, guest: Guest, instance: dict[str, Any]) -> None:
    """Start the timer of maxRunDuration, which begins anew whenever the instance comes to RUNNING."""
    scheduling = instance.get("scheduling", {})
    at: dt.datetime | None = None
    if "maxRunDuration" in scheduling:
        at = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=duration_s(scheduling["maxRunDuration"]))
    elif "terminationTime" in scheduling:
        at = dt.datetime.fromisoformat(scheduling["terminationTime"])
    if at is None:
        return
    instance.setdefault("resourceStatus", {})["scheduling"] = {"terminationTimestamp": at.isoformat(timespec="milliseconds")}
    guest.ending = world.timers.after((at - dt.datetime.now(dt.UTC)).total_seconds(), lambda: end(world, instance))


def end(world: World, instance: dict[str, Any]) -> None:
    """Stop or delete an instance whose time is over, or that was taken back."""
    with world.lock:
        if instance["status"] in ALIVE:
            deleted = instance.get("scheduling", {}).get("instanceTerminationAction") == "DELETE"
            finish = power_off(world, instance)
            seconds = world.settings.gce_operation_s
            world.timers.after(seconds, lambda: _settle(world, instance, (lambda: erase(world, instance)) if deleted else finish))


def _settle(world: World, instance: dict[str, Any], act: Callable[[], None]) -> None:
    host_off(world, instance)
    with world.lock:
        act()


def power_off(world: World, instance: dict[str, Any]) -> Callable[[], None]:
    """Begin to stop, under the lock; returns what makes it TERMINATED, for when `host_off` is done."""
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

    return finish


def erase(world: World, instance: dict[str, Any]) -> None:
    """Remove an instance, and the disks that go with it; under the lock."""
    guest = guest_of(world, instance)
    guest.turn += 1
    if guest.ending:
        guest.ending.cancel()
    world.drop(guest.place)
    instance["status"] = "TERMINATED"
    for attachment in instance["disks"]:
        if attachment.get("type") == "SCRATCH":
            continue
        place = guest.place.beside("disks", last(attachment["source"]))
        if attachment.get("autoDelete"):
            world.drop(place)
        elif place in world.resources:
            world.resources[place].pop("users", None)
    if world.park:
        world.timers.after(0, lambda: _destroy(world, guest, instance))


def _destroy(world: World, guest: Guest, instance: dict[str, Any]) -> None:
    with guest.hosting:
        guest.host_on = False
        if world.park and guest.has_host:
            world.park.destroy(guest.host_id(instance))


def host_keys(world: World, instance: dict[str, Any]) -> tuple[str, ...]:
    """The public host keys that the guest has published by now: those on its console, or made-up ones where there is no host."""
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
        running = [i for _, i in world.within(PROJECT, "instances") if i["status"] == "RUNNING"]
        ends = [(i, power_off(world, i)) for i in running if guest_of(world, i).host_id(i) == host_id]
    for instance, finish in ends:
        _settle(world, instance, finish)


def rows(world: World) -> list[dict[str, str]]:
    """The instances for `gpuprov rehearse status`."""
    with world.lock:
        return [
            {"id": place.name, "state": instance["status"], "type": last(instance["machineType"]), "address": _address_of(instance)}
            for place, instance in world.within(PROJECT, "instances")
        ]


def _address_of(instance: dict[str, Any]) -> str:
    card = instance["networkInterfaces"][0]
    public = card.get("accessConfigs")
    return str(public[0].get("natIP", "") if public else card.get("networkIP", ""))
