"""Rehearsal hosts are real: they boot systemd, reboot, stop and end as EC2 instances do, and leave nothing on this machine."""

import datetime as dt
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provision import paths
from provision.clouds.userdata import user_data
from provision.host import hostkeys
from provision.rehearsal import leftovers, rootfs
from provision.rehearsal.aws.launch import disk_link
from provision.rehearsal.hosts import HostPark, HostSpec
from provision.rehearsal.network import HostNetwork
from tests.waiting import until

pytestmark = pytest.mark.rehearsal


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


@pytest.fixture(scope="module")
def root() -> Path:
    return rootfs.build(paths.cache_dir(), lambda _: None)


@pytest.fixture
def ended() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def park(tmp_path: Path, root: Path, ended: list[tuple[str, str]]) -> Iterator[HostPark]:
    made = HostPark(tmp_path / "hosts", rootfs=root, network=HostNetwork(tmp_path / "hosts"), on_exit=lambda i, how: ended.append((i, how)))
    yield made
    made.close()
    assert left_of(tmp_path) == []


def left_of(folder: Path) -> list[str]:
    """Mounts, loop devices, links and processes that mention a folder."""
    listings = (["mount"], ["losetup", "--list"], ["ip", "-d", "link"])
    text = "".join(subprocess.run(argv, capture_output=True, text=True, check=True).stdout for argv in listings)
    processes = subprocess.run(["pgrep", "-fa", f"init.sh {folder}"], capture_output=True, text=True, check=False).stdout
    return [line for line in (text + processes).splitlines() if str(folder) in line]


def spec(key: Path, instance_id: str = "i-1", **more: Any) -> HostSpec:
    keys = (key.with_suffix(".pub").read_text().strip(),)
    return HostSpec(instance_id, f"host-{instance_id}", authorized_keys=keys, disk_link=disk_link, **more)


def ssh(key: Path, known: Path, address: str, command: str) -> subprocess.CompletedProcess[str]:
    options = ["BatchMode=yes", "ConnectTimeout=2", "StrictHostKeyChecking=yes", f"UserKnownHostsFile={known}", "LogLevel=ERROR"]
    argv = ["ssh", "-F", "/dev/null", "-i", str(key), *[w for o in options for w in ("-o", o)], f"{rootfs.LOGIN}@{address}", command]
    return subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=480)


def ready(park: HostPark, instance_id: str, address: str, key: Path, folder: Path) -> Any:
    """Wait for the console's host keys, then for the first boot, and return a function that runs commands."""
    known = folder / f"known-{instance_id}-{address}"
    keys = until(lambda: hostkeys.parse_console(park.console(instance_id)))
    known.write_text("".join(f"{address} {k}\n" for k in keys))
    until(lambda: ssh(key, known, address, "cloud-init status --wait").returncode in {0, 2})

    def run(command: str) -> str:
        done = ssh(key, known, address, command)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def test_systemd_is_pid_1_user_data_is_applied_and_nothing_failed(park: HostPark, key: Path, tmp_path: Path) -> None:
    data = b'#cloud-config\n{"runcmd": [["sh", "-c", "echo from-user-data > /etc/told"]]}\n'
    run = ready(park, "i-1", park.create(spec(key, user_data=data)), key, tmp_path)
    assert run("cat /proc/1/comm") == "systemd"
    assert run("systemctl is-system-running --wait; systemctl --failed --no-legend") == "running"
    assert run("cat /etc/told") == "from-user-data"
    assert run("hostname") == "host-i-1"
    assert run("sudo -n id -u") == "0"


def test_a_host_sees_no_other_network_and_cannot_touch_the_machine(park: HostPark, key: Path, tmp_path: Path) -> None:
    run = ready(park, "i-1", park.create(spec(key)), key, tmp_path)
    assert run("ip -br link | awk '{print $1}' | sort | tr '\\n' ' '").split("@")[0].startswith("eth0")
    assert run("ip route show default") == ""
    panic, before = Path("/proc/sys/kernel/panic").read_text(), time.time()
    run("sudo sysctl -w kernel.panic=77 >/dev/null 2>&1 || true")
    run("sudo date -s '2001-01-01' >/dev/null 2>&1 || true")
    assert Path("/proc/sys/kernel/panic").read_text() == panic
    assert time.time() >= before


def test_disks_survive_a_reboot_and_a_stop_wipes_the_instance_store(park: HostPark, key: Path, tmp_path: Path) -> None:
    address = park.create(spec(key, instance_store_gb=2, volume_gb=(1,)))
    run = ready(park, "i-1", address, key, tmp_path)
    links = run("ls /dev/disk/by-id").split()
    store = next(name for name in links if name.startswith("nvme-Amazon_EC2_NVMe_Instance_Storage_AWS") and not name.endswith("-ns-1"))
    volume = next(name for name in links if name.startswith("nvme-Amazon_Elastic_Block_Store_vol") and not name.endswith("-ns-1"))
    assert f"{store}-ns-1" in links
    boot = run("cat /proc/sys/kernel/random/boot_id")
    for link in (store, volume):
        run(f"sudo mkfs.ext4 -q /dev/disk/by-id/{link}")
    unit = f"[Mount]\\nWhat=/dev/disk/by-id/{volume}\\nWhere=/data\\nType=ext4\\n[Install]\\nWantedBy=multi-user.target\\n"
    run(
        f"printf '{unit}' | sudo tee /etc/systemd/system/data.mount >/dev/null; "
        "sudo systemctl enable --now data.mount && sudo touch /data/kept"
    )
    park.reboot("i-1")
    run = ready(park, "i-1", address, key, tmp_path)
    assert run("cat /proc/sys/kernel/random/boot_id") != boot
    assert run("ls /data") == "kept\nlost+found"
    park.stop("i-1")
    assert not park.is_alive("i-1")
    run = ready(park, "i-1", park.start("i-1"), key, tmp_path)
    assert run("ls /data") == "kept\nlost+found"
    # Another disk, as on EC2, where the next start is on another machine.
    other = next(name for name in run("ls /dev/disk/by-id").split() if name.startswith("nvme-Amazon_EC2_NVMe_Instance_Storage_AWS"))
    assert other.removesuffix("-ns-1") != store
    assert run(f"sudo blkid -p /dev/disk/by-id/{other} || echo blank") == "blank"


def test_a_power_off_inside_is_told(park: HostPark, key: Path, tmp_path: Path, ended: list[tuple[str, str]]) -> None:
    run = ready(park, "i-1", park.create(spec(key)), key, tmp_path)
    run("sudo systemd-run --on-active=0.2 systemctl poweroff")
    until(lambda: ended)
    assert ended == [("i-1", "poweroff")]
    assert "SSH HOST KEY" in park.console("i-1")


def test_two_parks_live_side_by_side(park: HostPark, root: Path, key: Path, tmp_path: Path) -> None:
    other = HostPark(tmp_path / "other", rootfs=root, network=HostNetwork(tmp_path / "other"))
    try:
        first, second = park.create(spec(key, instance_store_gb=1)), other.create(spec(key, instance_store_gb=1))
        here, there = set(leftovers.present(park.folder)), set(leftovers.present(other.folder))
        # A group, the bridge, a card in it, a disk, and files: those of hosts of one name are called the same.
        assert (len(here), len(there), here & there) == (5, 5, {"processes of i-1", "files of i-1"})
        assert first.rsplit(".", 1)[0] != second.rsplit(".", 1)[0]
        assert ready(park, "i-1", first, key, tmp_path)("echo one") == "one"
        assert ready(other, "i-1", second, key, tmp_path)("echo two") == "two"
    finally:
        other.close()


def test_the_key_of_the_user_data_may_log_in_and_the_deadline_is_set(park: HostPark, key: Path, tmp_path: Path) -> None:
    """No key pair is imported for a launch on EC2: cloud-init is told the key."""
    public = key.with_suffix(".pub").read_text()
    told = user_data(deadline=dt.datetime.now(dt.UTC) + dt.timedelta(hours=2), authorized_key=public)
    address = park.create(HostSpec("i-told", "host-told", user_data=told.encode()))
    run = ready(park, "i-told", address, key, tmp_path)
    assert run("systemctl is-active gpuprov-deadline.timer") == "active"
    assert run("wc -l < ~/.ssh/authorized_keys") == "1"
