"""Linux hosts on this machine, shaped like a cloud's instances: systemd as PID 1, an address, sshd, disks, user data for cloud-init.

Each host is a process in namespaces of its own. Its overlay is mounted inside its mount namespace and its network card lives in its
network namespace, so when the process ends nothing stays mounted or plugged. It is tied to this process by the parent-death signal, so
`kill -9` of the embedded cloud takes the hosts along; what stays then (files, loop devices, the bridge, empty control groups) `sweep`
removes at the next start.
"""

import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import threading
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Final, Literal

import psutil

from provision.errors import RehearsalFailedError
from provision.rehearsal import cgroups, disks, rootfs
from provision.rehearsal.disks import IMAGES
from provision.rehearsal.namespaces import apart
from provision.rehearsal.network import HostNetwork
from provision.rehearsal.packages import Packages
from provision.rehearsal.programs import run
from provision.structs import MutableStruct, Struct

_INIT: Final = Path(__file__).with_name("init.sh")
# reboot(2) in a pid namespace ends its init with SIGHUP for a restart and SIGINT for a power-off (pid_namespaces(7)).
_REBOOTED: Final = {-1, 129}
_POWERED_OFF: Final = {-2, 130, 0}
# systemd(1), "Signals".
_POWEROFF: Final = signal.SIGRTMIN + 4
_REBOOT: Final = signal.SIGRTMIN + 5
# What runs a script of the metadata at each boot: google-startup-scripts.service of GoogleCloudPlatform/guest-agent.
_SCRIPT: Final = "/var/lib/google/startup-script"
_SCRIPT_UNIT: Final = "google-startup-scripts.service"
_CLOUD_INIT, _AGENT = "usr/bin/cloud-init", "usr/lib/google/guest-agent"
_RUNS_SCRIPT: Final = f"""[Unit]
Description=Google Compute Engine Startup Scripts (stand-in)
Wants=network-online.target
After=network-online.target
[Service]
Type=oneshot
ExecStart={_SCRIPT}
KillMode=process
[Install]
WantedBy=multi-user.target
"""
# Of the console of a host that was removed, in characters, and of how many hosts: a real cloud keeps 64 KiB for an hour.
_KEPT: Final = 65_536
_MOST_KEPT: Final = 100

Ended = Literal["poweroff", "crash"]


class HostSpec(Struct):
    """What a host is made of."""

    instance_id: str
    hostname: str
    user_data: bytes = b""  # given to cloud-init as it is
    startup_script: bytes = b""  # run as root at each boot, by the cloud's agent
    has_cloud_init: bool = True  # False: nothing reads the user data, and nobody who logs in finds cloud-init
    authorized_keys: tuple[str, ...] = ()  # OpenSSH public keys that may log in as the image's user
    root_login: bool = False  # whether the keys are root's, as on images that have no other user
    accounts: tuple[tuple[str, str], ...] = ()  # further users, each with one key
    instance_store_gb: int = 0  # size of the ephemeral disks together; 0 for none
    volume_gb: tuple[int, ...] = ()  # sizes of the data volumes
    disk_link: disks.LinkName = lambda _number, serial, _ephemeral: f"nvme-Disk_{serial}"  # its name in /dev/disk/by-id
    instance_stores: int = 1  # how many disks the instance store has
    keeps_address: bool = False  # whether it has the same address after a stop, as a private one is kept
    image: str = ""  # the image that was made of another host's disk and that it starts from; empty: a root that nobody has changed
    system: str = ""  # what its image is, in the words of the catalogue; hosts of EL systems have another root. Empty: this machine's


class _RunningHost(MutableStruct):
    spec: HostSpec
    folder: Path
    address: str
    lower: tuple[Path, ...]  # what its disk begins with, the topmost first
    process: subprocess.Popen[bytes] | None = None
    supervisor: threading.Thread | None = None
    admitted: tuple[tuple[str, str], ...] | None = None  # who reaches which of its ports; None for everybody
    powered: bool = True  # whether it should run: a reboot starts it again, a stop does not
    devices: list[disks.HostDisk] = field(default_factory=list)


@dataclass(slots=True)
class HostPark:
    """The hosts of one rehearsal, with their files in its folder; `on_exit` hears how a host ended by itself."""

    folder: Path
    _: KW_ONLY
    rootfs: Path  # from `rootfs.build`
    el_rootfs: Callable[[], Path] | None = None  # the root of hosts with an EL system, asked for when the first one is made
    network: HostNetwork
    packages: Packages | None = None
    on_exit: Callable[[str, Ended], None] = lambda _id, _how: None
    _hosts: dict[str, _RunningHost] = field(default_factory=dict, init=False)
    _dropped: set[str] = field(default_factory=set, init=False)  # images that were removed, and whose files a host may still use
    _consoles: dict[str, str] = field(default_factory=dict, init=False)  # the end of the consoles of hosts that were removed

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def create(self, spec: HostSpec) -> str:
        """Make a host and return its address; it boots in the background."""
        el = self.el_rootfs if spec.system and rootfs.is_el(spec.system) else None
        lower = (*self._layers(spec.image), el() if el else self.rootfs)
        folder = self.folder / spec.instance_id
        for name in ("upper", "work", "root"):
            (folder / name).mkdir(parents=True)
        host = _RunningHost(spec, folder, self.network.take_address(), lower)
        self._hosts[spec.instance_id] = host
        self._seed(host)
        if el:
            _write(folder / "upper/etc/os-release", rootfs.el_release(spec.system))
        host.devices = disks.attach(
            folder,
            instance_store_gb=spec.instance_store_gb,
            volume_gb=spec.volume_gb,
            link=spec.disk_link,
            stores=spec.instance_stores,
        )
        self._power_on(host)
        return host.address

    def _layers(self, image: str) -> list[Path]:
        """What an image holds beside the root that its hosts share; nothing where a host starts from none."""
        folder = self.folder / IMAGES / image
        return sorted(folder.iterdir()) if image else []

    def keep_image(self, instance_id: str, image: str) -> None:
        """Make an image of a host's disk as it is now. Hosts that start from it do not see what is written afterwards."""
        host, folder = self._hosts[instance_id], self.folder / IMAGES
        draft = folder / f".{image}"
        draft.mkdir(parents=True)
        below = [path for path in host.lower if path.is_relative_to(folder)]
        for number, layer in enumerate([host.folder / "upper", *below]):
            # An overlay says with devices and attributes what is gone from the layers below: both are copied.
            run("cp", "--archive", "--reflink=auto", "--sparse=auto", str(layer), str(draft / f"{number:03}"))
        draft.rename(folder / image)

    def drop_image(self, image: str) -> None:
        """Remove an image; where hosts started from it, its files go with the last of them."""
        self._dropped.add(image)
        self._clear_images()

    def _clear_images(self) -> None:
        for each in list(self._dropped):
            gone = self.folder / IMAGES / each
            if not any(path.is_relative_to(gone) for host in self._hosts.values() for path in host.lower):
                self._dropped.discard(each)
                shutil.rmtree(gone, ignore_errors=True)

    def _seed(self, host: _RunningHost) -> None:
        """Leave what the hypervisor provides for the first boot, and the way to the packages."""
        seed = host.folder / "upper/var/lib/cloud/seed/nocloud"
        seed.mkdir(parents=True)
        told = host.spec.user_data if host.spec.has_cloud_init else b""
        (seed / "user-data").write_bytes(told or b"#cloud-config\n{}\n")
        meta = {
            "instance-id": host.spec.instance_id,
            "local-hostname": host.spec.hostname,
            "public-keys": list(host.spec.authorized_keys),
        }
        (seed / "meta-data").write_text(json.dumps(meta))
        rights = {"sudo": ["ALL=(ALL) NOPASSWD:ALL"], "shell": "/bin/bash", "lock_passwd": True}
        users = [{"name": name, "ssh_authorized_keys": [key], **rights} for name, key in host.spec.accounts]
        if host.spec.root_login:
            # What cloud-init does where it may: the keys of the metadata are root's, and nobody else's (cc_ssh, `disable_root`).
            (seed / "vendor-data").write_text("#cloud-config\n" + json.dumps({"disable_root": False, "users": users}))
            sshd = host.folder / "upper/etc/ssh/sshd_config.d/50-root.conf"  # the first that speaks of it is believed: before 60-cloudimg
            sshd.parent.mkdir(parents=True, exist_ok=True)
            sshd.write_text("PermitRootLogin prohibit-password\n")
        elif users:
            (seed / "vendor-data").write_text("#cloud-config\n" + json.dumps({"users": ["default", *users]}))
        self._seed_agent(host)
        if self.packages:
            for name, text in self.packages.host_files().items():
                _write(host.folder / "upper" / name, text)

    def _seed_agent(self, host: _RunningHost) -> None:
        """What runs a script at each boot; without cloud-init also another name for this machine's, which plays the rest of an agent."""
        upper = host.folder / "upper"
        if host.spec.startup_script:
            script = upper / _SCRIPT.lstrip("/")
            _write(script, host.spec.startup_script.decode())
            script.chmod(0o700)
            _write(upper / "etc/systemd/system" / _SCRIPT_UNIT, _RUNS_SCRIPT)
            wanted = upper / "etc/systemd/system/multi-user.target.wants" / _SCRIPT_UNIT
            wanted.parent.mkdir(parents=True, exist_ok=True)
            wanted.symlink_to(f"../{_SCRIPT_UNIT}")
        if host.spec.has_cloud_init:
            return
        root = host.lower[-1]
        for unit in (root / "usr/lib/systemd/system").glob("cloud-*.service"):
            _write(upper / "etc/systemd/system" / unit.name, unit.read_text().replace(f"/{_CLOUD_INIT}", f"/{_AGENT}"))
        _write(upper / _AGENT, (root / _CLOUD_INIT).read_text())
        (upper / _AGENT).chmod(0o700)
        (upper / "usr/bin").mkdir(parents=True, exist_ok=True)
        os.mknod(upper / _CLOUD_INIT, stat.S_IFCHR, os.makedev(0, 0))  # to an overlay: there is no such file

    def _power_on(self, host: _RunningHost) -> None:
        host.powered = True
        ready = threading.Event()
        # One thread for the host's whole life: the parent-death signal is sent when the *thread* that spawned ends.
        host.supervisor = threading.Thread(target=self._supervise, args=(host, ready), name=host.spec.instance_id, daemon=True)
        host.supervisor.start()
        ready.wait(timeout=15)

    def _supervise(self, host: _RunningHost, ready: threading.Event) -> None:
        """Run the host until it is powered off; a reboot runs it again."""
        while True:
            code = self._run_once(host, ready)
            if not (host.powered and code in _REBOOTED):
                break
        if host.powered:
            host.powered = False
            self.on_exit(host.spec.instance_id, "poweroff" if code in _POWERED_OFF else "crash")

    def _run_once(self, host: _RunningHost, ready: threading.Event) -> int:
        """One boot of the host, from its init's start to its end; returns how it ended."""
        master, slave = os.openpty()
        group = cgroups.make(self.folder, host.spec.instance_id)
        names = [word for disk in host.devices for word in (disk.node, disk.loop, disk.link)]
        init = ["bash", str(_INIT), str(host.folder), ":".join(map(str, host.lower)), host.spec.hostname, os.ttyname(slave), *names]
        with (host.folder / "console.log").open("ab", buffering=0) as console:
            reader = threading.Thread(target=_copy, args=(master, console.fileno()), daemon=True)
            reader.start()
            host.process = subprocess.Popen(
                [*apart(group), *init],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
            try:
                self.network.plug(host.process.pid, host.address)
                if host.admitted is not None:
                    self.network.admit(host.process.pid, host.admitted)
            except (OSError, subprocess.CalledProcessError, RehearsalFailedError):
                host.process.kill()  # it ended before it had a network, or never made one: its end says which
            ready.set()
            code = host.process.wait()
            cgroups.remove(group)
            os.close(slave)
            reader.join(timeout=2)
        os.close(master)
        return code

    def admit(self, instance_id: str, rules: Iterable[tuple[str, str]] | None) -> None:
        """Let only these networks reach these ports of a host, now and after each start; see `HostNetwork.admit`."""
        host = self._hosts[instance_id]
        host.admitted = None if rules is None else tuple(rules)
        try:
            if host.process and host.process.poll() is None:
                self.network.admit(host.process.pid, host.admitted)
        except subprocess.CalledProcessError:
            if host.process and host.process.poll() is None:  # otherwise it ended at this moment, and is held when it starts again
                host.process.kill()  # better off than open
                raise

    def console(self, instance_id: str) -> str:
        """The text of the console since the host was made; of a host that was removed, the end of it."""
        host = self._hosts.get(instance_id)
        path = host.folder / "console.log" if host else None
        return path.read_text(errors="replace") if path and path.exists() else self._consoles.get(instance_id, "")

    def has_ended(self, instance_id: str) -> bool:
        """Whether the host powered itself off, or was, and was not started again."""
        host = self._hosts.get(instance_id)
        return host is None or not host.powered

    def is_alive(self, instance_id: str) -> bool:
        """Whether the host's init runs."""
        host = self._hosts.get(instance_id)
        return bool(host and host.process and host.process.poll() is None)

    def reboot(self, instance_id: str) -> None:
        """Restart the host as its own `systemctl reboot` would, or reset it if it does not obey within ten seconds."""
        host = self._hosts[instance_id]
        self._off(host, _REBOOT, stay_off=False)

    def stop(self, instance_id: str) -> None:
        """Power off. The root disk and volumes stay, the instance store is another, blank one, and the address is given back or kept."""
        host = self._hosts[instance_id]
        self._off(host, _POWEROFF, stay_off=True)
        host.devices = disks.wipe_instance_store(host.devices, host.spec.disk_link)
        if not host.spec.keeps_address:
            self.network.give_back(host.address)

    def start(self, instance_id: str) -> str:
        """Power on again; returns the address, another one unless the host keeps its own."""
        host = self._hosts[instance_id]
        if not host.spec.keeps_address:
            host.address = self.network.take_address()
        self._power_on(host)
        return host.address

    def _off(self, host: _RunningHost, number: int, *, stay_off: bool) -> None:
        """Send systemd a signal to go, and pull the plug when it does not."""
        host.powered = not stay_off
        process = host.process
        if process is None or process.poll() is not None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):  # it ends at this moment
            for init in psutil.Process(process.pid).children():
                init.send_signal(number)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
        if stay_off and host.supervisor:
            host.supervisor.join(timeout=10)

    def destroy(self, instance_id: str) -> None:
        """Remove a host and everything of it; one that does not exist is not an error."""
        if instance_id in self._hosts:
            self._keep_console(self._hosts[instance_id])  # before it goes, so that there is one at any time
        host = self._hosts.pop(instance_id, None)
        if host is None:
            return
        host.powered = False
        if host.process and host.process.poll() is None:
            host.process.kill()
        if host.supervisor:
            host.supervisor.join(timeout=10)
        disks.detach(host.devices)
        self.network.give_back(host.address)
        self._keep_console(host)
        shutil.rmtree(host.folder, ignore_errors=True)
        self._clear_images()

    def _keep_console(self, host: _RunningHost) -> None:
        log = host.folder / "console.log"
        self._consoles[host.spec.instance_id] = log.read_text(errors="replace")[-_KEPT:] if log.exists() else ""
        for oldest in list(self._consoles)[:-_MOST_KEPT]:
            self._consoles.pop(oldest, None)

    def close(self) -> None:
        """Remove all hosts, the packages' proxies and the network."""
        for instance_id in list(self._hosts):
            self.destroy(instance_id)
        if self.packages:
            self.packages.close()
        self.network.close()
        shutil.rmtree(self.folder / IMAGES, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _copy(source: int, target: int) -> None:
    """Drain a pty into a file until its other end is closed."""
    while True:
        try:
            data = os.read(source, 65_536)
        except OSError:  # EIO is how Linux says that the last slave was closed
            return
        if not data:
            return
        os.write(target, data)
