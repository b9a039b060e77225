"""The host key that a machine was given goes at the first contact, whatever dies on the way: on real hosts of the embedded cloud."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from provision import clouds
from provision.clouds import base
from provision.clouds.digitalocean.cloud import DigitalOceanCloud
from provision.clouds.userdata import FIRST_KEY
from provision.errors import HostKeyChangedError
from provision.host import hostkeys
from provision.host.reach import wait_ready
from provision.host.rotate import rotate
from provision.host.ssh import execute
from provision.host.sshconfig import SshHome
from provision.rehearsal import control
from provision.structs import replace
from tests.clouds.digitalocean.orders import order as some
from tests.embedded import Embedded

pytestmark = pytest.mark.rehearsal


class DeadError(Exception):
    """A client dies here."""


@dataclass
class Place:
    cloud: DigitalOceanCloud
    ssh: SshHome

    def launched(self, given: str, *, told: str = "") -> base.Instance:
        """A droplet that has one key, and whose tags tell that or another."""
        launch_id, name = uuid.uuid4().hex, f"r{uuid.uuid4().hex[:6]}"
        plain = some(ssh_from=("10.0.0.0/8",), public_key=self.ssh.public_key())
        tags = {**plain.tags, base.NAME_TAG: name, base.LAUNCH_TAG: launch_id}
        (machine,) = self.cloud.launch(replace(plain, name=name, launch_id=launch_id, tags=tags, host_key=given))
        machine = self.cloud.wait_running(machine, timeout_s=60)
        keys = (hostkeys.public_of(told),) if told else self.cloud.host_keys(machine, timeout_s=10)
        self.ssh.add(machine.name, address=machine.address, login=machine.login, keys=keys)
        return machine

    def known(self, name: str) -> list[str]:
        lines = self.ssh.known_hosts.read_text().splitlines()
        return [line.partition(" ")[2] for line in lines if line.startswith(f"gpuprov-{name} ")]

    def run(self, name: str, command: str) -> str:
        return asyncio.run(execute(self.ssh.target(name), command, timeout_s=60)).stdout.decode().strip()

    def wait(self, name: str) -> None:
        asyncio.run(wait_ready(self.ssh.target(name), timeout_s=120))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, embedded: Embedded) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("rotate")
    running = embedded.start(folder / "rehearsal", hosts=True)
    access = clouds.access_from("digitalocean", running.settings("digitalocean"))
    yield Place(DigitalOceanCloud("nyc2", access), SshHome(folder / "ssh", folder / "ssh_config"))
    assert control.stop(folder / "rehearsal")


def test_the_given_key_goes_and_only_the_hosts_own_is_accepted_and_told(place: Place) -> None:
    given = hostkeys.fresh_private_key()
    machine = place.launched(given)
    place.wait(machine.name)
    told: list[Sequence[str]] = []

    def publish(keys: Sequence[str]) -> None:
        told.append(keys)
        place.cloud.publish_host_keys(machine, keys)

    old = hostkeys.public_of(given)
    rotate(place.ssh, machine.name, [old], publish)
    (fresh,) = place.known(machine.name)
    assert fresh != old
    assert [list(keys) for keys in told] == [[fresh], [fresh]]
    assert place.cloud.host_keys(machine, timeout_s=10) == (fresh,)
    assert place.run(machine.name, f"cat /etc/ssh/ssh_host_ed25519_key.pub; sudo ls {FIRST_KEY} /etc/ssh/gpuprov-new 2>/dev/null") == fresh
    assert place.run(machine.name, "sudo stat -c '%a %U' /etc/ssh/ssh_host_ed25519_key") == "600 root"
    place.ssh.accept(machine.name, (old,))
    place.ssh.close(machine.name)
    with pytest.raises(HostKeyChangedError):  # whoever has the given key is nobody now
        place.run(machine.name, "true")


@pytest.mark.parametrize("dies", [1, 2])
def test_a_client_that_died_on_the_way_is_followed_by_one_that_does_the_rest(place: Place, dies: int) -> None:
    machine = place.launched(hostkeys.fresh_private_key())
    place.wait(machine.name)
    calls = 0

    def publish(keys: Sequence[str]) -> None:
        nonlocal calls
        calls += 1
        if calls == dies:
            raise DeadError
        place.cloud.publish_host_keys(machine, keys)

    with pytest.raises(DeadError):
        rotate(place.ssh, machine.name, place.cloud.host_keys(machine, timeout_s=10), publish)
    place.ssh.close(machine.name)
    keys = place.cloud.host_keys(machine, timeout_s=10)  # as the next `up` reads them
    place.ssh.accept(machine.name, keys)
    rotate(place.ssh, machine.name, keys, lambda new: place.cloud.publish_host_keys(machine, new))
    (fresh,) = place.known(machine.name)
    assert place.cloud.host_keys(machine, timeout_s=10) == (fresh,)
    assert place.run(machine.name, f"sudo ls {FIRST_KEY} 2>/dev/null; hostname -s") == machine.name


def test_a_droplet_that_shows_another_key_is_refused_at_the_first_contact(place: Place) -> None:
    machine = place.launched(hostkeys.fresh_private_key(), told=hostkeys.fresh_private_key())
    with pytest.raises(HostKeyChangedError):
        place.wait(machine.name)
