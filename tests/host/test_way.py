"""Machines without a public address, reached through another one: real hosts, real OpenSSH, pinned keys; and a port of theirs here."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.clouds import base
from provision.errors import HostKeyChangedError, HostUnreachableError
from provision.host.reach import wait_ready
from provision.host.ssh import execute
from provision.host.sshconfig import SshHome
from provision.host.way import directives
from provision.profile.network import Network
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.clouds.aws.rig import AwsRig
from tests.clouds.contract import Rig
from tests.clouds.gcp.rig import GcpRig
from tests.conftest import access_to
from tests.embedded import Embedded

pytestmark = pytest.mark.rehearsal

THROUGH_A = Network(address="private", jump="gpuprov-a", ssh_from=("10.77.0.0/16",), subnet="subnet-01234567")
# Listens on the host's own loopback for one connection, and answers with one byte.
SERVER = "import socket; s = socket.create_server(('127.0.0.1', 7777)); print('up', flush=True); s.accept()[0].sendall(b'!')"


@pytest.fixture
def rehearsal(tmp_path_factory: pytest.TempPathFactory, embedded: Embedded) -> Iterator[Rehearsal]:
    folder = tmp_path_factory.mktemp("way")  # short: the path of a socket in it has at most 107 characters
    yield embedded.start(folder, hosts=True)
    assert control.stop(folder)


def launched(rig: Rig, name: str, home: SshHome, network: Network, keys: dict[str, tuple[str, ...]]) -> base.Instance:
    """A machine that runs and is in ssh's configuration."""
    zone = rig.cloud().zones(rig.order())[0]
    private = network.address == "private"
    where = {"subnet": rig.subnet(zone), "ssh_from": network.opens} if private else {}
    order = rig.order(name, public_key=home.public_key(), public_address=not private, zone=zone, **where)
    (instance,) = rig.cloud().launch(order)
    running = rig.cloud().wait_running(instance, timeout_s=480)
    keys[name] = rig.cloud().host_keys(running, timeout_s=480)
    home.add(name, address=running.address, login=running.login, keys=keys[name], way=directives(network, running))
    asyncio.run(wait_ready(home.target(name), timeout_s=480))
    return running


def output_of(home: SshHome, name: str, command: str) -> str:
    result = asyncio.run(execute(home.target(name), command, timeout_s=240))
    assert result.exit_code == 0, result.stderr
    return result.stdout.decode().strip()


def test_private_machines_of_both_clouds_are_reached_through_another_one_and_nobody_else_answers_for_them(
    rehearsal: Rehearsal, own_home: Path, tmp_path: Path
) -> None:
    home = SshHome(own_home / "ssh", tmp_path / "ssh_config")
    aws, gcp = AwsRig(rehearsal, access_to(rehearsal)), GcpRig(rehearsal)
    keys: dict[str, tuple[str, ...]] = {}
    first = launched(aws, "a", home, Network(), keys)
    for rig, name in ((aws, "b"), (gcp, "c")):
        private = launched(rig, name, home, THROUGH_A, keys)
        assert rig.seen(private).public == ""
        assert rig.seen(private).open == {"10.77.0.0/16"}
        connection = output_of(home, name, "echo $SSH_CONNECTION").split()
        assert (connection[0], connection[2]) == (first.address, private.address)
    forwards_a_byte(tmp_path)
    aws.cloud().stop([first], timeout_s=240)
    subprocess.run(["ssh", "-F", str(home.target("b").config), "-O", "exit", "gpuprov-b"], check=False, capture_output=True)
    with pytest.raises(HostUnreachableError):  # there is no other way
        output_of(home, "b", "true")
    aws.cloud().start(aws.cloud().find("a"), timeout_s=240)
    (again,) = aws.cloud().find("a")
    home.add("a", address=again.address, login=again.login, keys=None)
    asyncio.run(wait_ready(home.target("a"), timeout_s=480))
    assert output_of(home, "b", "hostname")
    (other,) = gcp.cloud().find("c")
    home.add("c", address=other.address, login=other.login, keys=keys["b"], way=directives(THROUGH_A, other))
    subprocess.run(["ssh", "-F", str(home.target("c").config), "-O", "exit", "gpuprov-c"], check=False, capture_output=True)
    with pytest.raises(HostKeyChangedError):
        output_of(home, "c", "true")


def forwards_a_byte(folder: Path) -> None:
    """`gpuprov ssh -L` brings a port of b's loopback to this machine's, and to no other address of it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [sys.executable, "-m", "provision", "ssh", "-L", f"{port}:7777", "b", "--", "python3", "-c", f'"{SERVER}"']
    with (folder / "stderr").open("w") as err:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n", (folder / "stderr").read_text()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((own_address(), port), timeout=60)
        second = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=240)
        assert (second.returncode, second.stdout) == (255, "")
        with socket.create_connection(("127.0.0.1", port), timeout=60) as there:
            assert there.recv(1) == b"!"
        process.stdout.close()
        assert process.wait(timeout=240) == 0
    with pytest.raises(ConnectionRefusedError):  # with the session goes the port
        socket.create_connection(("127.0.0.1", port), timeout=60)


def own_address() -> str:
    """An address of this machine that others reach."""
    addresses = subprocess.run(["ip", "-4", "-br", "address"], capture_output=True, text=True, check=True).stdout
    return next(word.partition("/")[0] for word in addresses.split() if word.startswith("10.77."))
