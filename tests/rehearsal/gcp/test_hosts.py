"""An instance of the embedded GCP is a real Linux host: keys and user data of its metadata, disks with Google's names."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.api_core import exceptions as x
from google.cloud import compute_v1 as c

from provision.rehearsal import control, rootfs
from tests.embedded import Embedded
from tests.rehearsal.gcp.conftest import IMAGE, ZONE, Gce

pytestmark = pytest.mark.rehearsal


@pytest.fixture
def hosts(tmp_path: Path, embedded: Embedded) -> Iterator[Gce]:
    folder = tmp_path / "rehearsal"
    yield Gce(embedded.start(folder, hosts=True))
    assert control.stop(folder)


def disks(image: str) -> list[c.AttachedDisk]:
    new = c.AttachedDiskInitializeParams
    return [
        c.AttachedDisk(boot=True, auto_delete=True, initialize_params=new(source_image=image)),
        c.AttachedDisk(device_name="data", auto_delete=True, initialize_params=new(disk_size_gb=20)),
        c.AttachedDisk(
            type_="SCRATCH", interface="NVME", auto_delete=True, initialize_params=new(disk_type=f"zones/{ZONE}/diskTypes/local-ssd")
        ),
    ]


def known_keys(gce: Gce, name: str) -> list[str]:
    asked = c.GetGuestAttributesInstanceRequest(project=gce.project, zone=ZONE, instance=name, query_path="hostkeys/")
    deadline = time.monotonic() + 360
    while True:
        try:
            return [f"{item.key} {item.value}" for item in gce.instances.get_guest_attributes(asked).query_value.items]
        except x.NotFound:
            assert time.monotonic() < deadline
            time.sleep(0.2)


class Shell:
    """Whoever logs in to an instance with its key."""

    def __init__(self, gce: Gce, name: str, folder: Path) -> None:
        self.gce, self.name, self.key, self.known = gce, name, folder / "id", folder / "known"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)], check=True)

    def insert(self, image: str, metadata: dict[str, str]) -> None:
        public = self.key.with_suffix(".pub").read_text().strip()
        keys = "\n".join(f"{user}:{public}" for user in (rootfs.LOGIN, "rocky"))
        items = {**metadata, "ssh-keys": keys, "enable-guest-attributes": "TRUE"}
        given = c.Metadata(items=[c.Items(key=k, value=v) for k, v in items.items()])
        self.gce.done(self.gce.insert(self.name, disks=disks(image), metadata=given))

    def __call__(self, command: str, user: str = rootfs.LOGIN) -> str:
        address = self.gce.until(self.name, "RUNNING").network_interfaces[0].access_configs[0].nat_i_p
        self.known.write_text("".join(f"{address} {k}\n" for k in known_keys(self.gce, self.name)))
        options = ["BatchMode=yes", "ConnectTimeout=2", "StrictHostKeyChecking=yes", f"UserKnownHostsFile={self.known}", "LogLevel=ERROR"]
        argv = ["ssh", "-F", "/dev/null", "-i", str(self.key), *[w for o in options for w in ("-o", o)], f"{user}@{address}", command]
        deadline = time.monotonic() + 240
        while (done := subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)).returncode:
            assert time.monotonic() < deadline, done.stderr
            time.sleep(0.2)
        return done.stdout.strip()


TOLD = '#cloud-config\n{"runcmd": [["sh", "-c", "echo from-user-data > /etc/told"]]}\n'


def test_an_image_of_debian_ignores_user_data_and_runs_the_startup_script_at_each_boot(hosts: Gce, tmp_path: Path) -> None:
    run = Shell(hosts, "gpu-2", tmp_path)
    script = "#!/bin/sh\necho from-script >> /etc/told\n"
    run.insert("projects/debian-cloud/global/images/family/debian-12", {"user-data": TOLD, "startup-script": script})
    ended = "systemctl is-system-running --wait >/dev/null; "
    assert run(f"{ended} cat /etc/told; command -v cloud-init || echo none").split() == ["from-script", "none"]
    assert run("sudo -n whoami", "rocky") == "root"
    hosts.done(
        hosts.instances.stop_unary(c.StopInstanceRequest(project=hosts.project, zone=ZONE, instance="gpu-2", discard_local_ssd=True))
    )
    hosts.done(hosts.instances.start_unary(project=hosts.project, zone=ZONE, instance="gpu-2"))
    assert run(f"{ended} cat /etc/told").split() == ["from-script", "from-script"]
    # A machine of an image that was made of it has no cloud-init either.
    hosts.done(
        hosts.instances.stop_unary(c.StopInstanceRequest(project=hosts.project, zone=ZONE, instance="gpu-2", discard_local_ssd=True))
    )
    disk = hosts.get("gpu-2").disks[0].source
    hosts.done(hosts.client("ImagesClient").insert_unary(project=hosts.project, image_resource=c.Image(name="baked", source_disk=disk)))
    (tmp_path / "other").mkdir()
    other = Shell(hosts, "gpu-3", tmp_path / "other")
    other.insert("global/images/baked", {"user-data": TOLD, "startup-script": script})
    assert other(f"{ended} cat /etc/told; command -v cloud-init || echo none").split() == ["from-script"] * 3 + ["none"]


def test_it_is_logged_into_with_the_host_key_of_its_guest_attributes(hosts: Gce, tmp_path: Path) -> None:
    name = "gpu-1"
    run = Shell(hosts, name, tmp_path)
    run.insert(IMAGE, {"user-data": TOLD})
    assert run("cloud-init status --wait >/dev/null; cat /etc/told; hostname").split() == ["from-user-data", name]
    assert run("sudo -n whoami", "rocky") == "root"
    links = run("ls /dev/disk/by-id").split()
    assert {"google-data", "google-local-nvme-ssd-0"} <= set(links)
    run("sudo touch /root/kept")
    stop = c.StopInstanceRequest(project=hosts.project, zone=ZONE, instance=name, discard_local_ssd=True)
    hosts.done(hosts.instances.stop_unary(stop))
    assert hosts.get(name).status == "TERMINATED"
    hosts.done(hosts.instances.start_unary(project=hosts.project, zone=ZONE, instance=name))
    assert run("sudo ls /root/kept") == "/root/kept"
    # A power-off inside stops the instance.
    run("sudo systemd-run --on-active=0.2 --timer-property=AccuracySec=10ms systemctl poweroff")
    hosts.until(name, "TERMINATED")
    assert "SSH HOST KEY" in hosts.instances.get_serial_port_output(project=hosts.project, zone=ZONE, instance=name).contents
    hosts.done(hosts.instances.delete_unary(project=hosts.project, zone=ZONE, instance=name))
    assert hosts.names() == []
    deadline = time.monotonic() + 240
    while (tmp_path / "rehearsal/hosts").is_dir() and list((tmp_path / "rehearsal/hosts").glob("gce-*")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
