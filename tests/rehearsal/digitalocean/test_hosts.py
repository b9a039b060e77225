"""A droplet is a real Linux host: root's keys, the host key of its user data, disks with DigitalOcean's names."""

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.rehearsal import control
from tests.embedded import Embedded
from tests.rehearsal.digitalocean.conftest import CPU, GPU, REGION, Ocean, fresh
from tests.waiting import until

pytestmark = pytest.mark.rehearsal


@pytest.fixture
def hosts(tmp_path: Path, embedded: Embedded) -> Iterator[Ocean]:
    folder = tmp_path / "rehearsal"
    yield Ocean(embedded.start(folder, hosts=True))
    assert control.stop(folder)


def key_pair(path: Path) -> str:
    """Make a key; returns its public half."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], check=True)
    return path.with_suffix(".pub").read_text().strip()


def test_root_logs_in_and_the_host_key_is_the_one_of_the_user_data(hosts: Ocean, tmp_path: Path) -> None:
    key, host_key, known, name = tmp_path / "id", tmp_path / "host", tmp_path / "known", "gpu-1"
    mine = hosts.call("POST", "account/keys", {"name": "mine", "public_key": key_pair(key)}).body["ssh_key"]
    public = key_pair(host_key)
    user_data = {
        "ssh_deletekeys": True,
        "ssh_keys": {"ed25519_private": host_key.read_text()},
        "runcmd": [["sh", "-c", "echo from-user-data > /etc/told"]],
    }
    volume = hosts.call("POST", "volumes", {"name": "data", "size_gigabytes": 20, "region": REGION}).body["volume"]["id"]
    text = "#cloud-config\n" + json.dumps(user_data)
    number = hosts.made(name, ssh_keys=[mine["fingerprint"]], user_data=text, volumes=[volume])

    def run(command: str) -> str:
        cards = hosts.until(number, "active")["networks"]["v4"]
        address = next(card["ip_address"] for card in cards if card["type"] == "public")
        known.write_text(f"{address} {public}\n")
        options = ["BatchMode=yes", "ConnectTimeout=2", "StrictHostKeyChecking=yes", f"UserKnownHostsFile={known}", "LogLevel=ERROR"]
        argv = ["ssh", "-F", "/dev/null", "-i", str(key), *[w for o in options for w in ("-o", o)], f"root@{address}", command]
        deadline = time.monotonic() + 240
        while (done := subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)).returncode:
            assert time.monotonic() < deadline, done.stderr
            time.sleep(0.2)
        return done.stdout.strip()

    assert run("cloud-init status --wait >/dev/null; cat /etc/told; hostname; id -un").split() == ["from-user-data", name, "root"]
    assert run("ls /etc/ssh/ssh_host_*_key") == "/etc/ssh/ssh_host_ed25519_key"  # cloud-init makes no other beside it
    assert run("getent passwd ubuntu || true") == ""
    assert {"scsi-0DO_Volume_data", "scratch"} <= set(run("ls /dev/disk/by-id").split())
    before = hosts.droplet(number)["networks"]
    run("touch /root/kept")
    assert hosts.act(number, "power_off").status == 201
    hosts.until(number, "off")
    assert hosts.act(number, "power_on").status == 201
    assert run("ls /root/kept") == "/root/kept"
    assert hosts.droplet(number)["networks"] == before  # an address stays as long as its droplet
    # A power-off inside turns the droplet off; it is there, and billed, until it is deleted.
    run("systemd-run --on-active=0.2 --timer-property=AccuracySec=10ms systemctl poweroff")
    hosts.until(number, "off")
    assert hosts.names() == [name]
    assert hosts.call("DELETE", f"droplets/{number}").status == 204
    until(lambda: hosts.names() == [])
    deadline = time.monotonic() + 240
    while (tmp_path / "rehearsal/hosts").is_dir() and list((tmp_path / "rehearsal/hosts").glob("droplet-*")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert hosts.get(f"volumes/{volume}")["volume"]["droplet_ids"] == []


def reached(hosts: Ocean, number: int) -> bool:
    """Whether this machine gets through to the port of SSH."""
    with contextlib.suppress(OSError), socket.create_connection((hosts.row(number)["address"], 22), timeout=1):
        return True
    return False


def test_a_firewall_holds_the_packets_of_the_hosts_with_its_tag(hosts: Ocean) -> None:
    this = f"{control.ask(hosts.rehearsal, 'status')['gateway']}/32"  # as the hosts see this machine
    assert hosts.call("POST", "tags", {"name": "closed"}).status == 201
    made = hosts.call("POST", "firewalls", hosts.firewall(tags=["closed"])).body["firewall"]
    mine, other = hosts.made("mine", size=CPU, tags=["closed"]), hosts.made("other", size=CPU)
    until(lambda: reached(hosts, other))
    assert not reached(hosts, mine)
    opened = hosts.firewall(made["name"], tags=["closed"], sources={"addresses": [this]})
    assert hosts.call("PUT", f"firewalls/{made['id']}", opened).status == 200
    until(lambda: reached(hosts, mine))
    opened["inbound_rules"][0]["ports"] = "80"
    assert hosts.call("PUT", f"firewalls/{made['id']}", opened).status == 200
    until(lambda: not reached(hosts, mine))
    # A restart makes another network: the host is held in it as well, until it loses the tag.
    for kind, state in (("power_off", "off"), ("power_on", "active")):
        for number in (mine, other):
            assert hosts.act(number, kind).status == 201
        for number in (mine, other):
            hosts.until(number, state)
    until(lambda: reached(hosts, other))
    assert not reached(hosts, mine)
    resources = {"resources": [{"resource_id": str(mine), "resource_type": "droplet"}]}
    assert hosts.call("DELETE", "tags/closed/resources", resources).status == 204
    until(lambda: reached(hosts, mine))


def test_without_public_networking_its_one_address_is_private(hosts: Ocean) -> None:
    number = hosts.made(fresh(), size=CPU, public_networking=False)
    (card,) = hosts.droplet(number)["networks"]["v4"]
    assert card["type"] == "private"
    assert card["ip_address"].startswith("10.77.")  # where hosts of the rehearsal are reached
    assert hosts.create(size=GPU, public_networking=False, ipv6=True).status == 422
