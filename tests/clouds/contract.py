"""What every cloud must do, as a suite: a cloud's test file gives a `rig` and inherits the tests.

class TestAws(ZonedContract):
    @pytest.fixture
    def rig(self, ...) -> Rig: ...
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest

from provision.clouds import base
from provision.errors import (
    CapacityError,
    CloudError,
    CloudInvalidError,
    CloudUnreachableError,
    CredentialsExpiredError,
    InstanceNotFoundError,
    NameTakenError,
    PermissionRefusedError,
    QuotaExceededError,
    ThrottledError,
)
from provision.structs import replace

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP6Z8Eyq6a8dy/8jo/NfTxIr+kYmRfiGzsEyoPLj1JoS test"
OWNER = "isa@example.org"
Failure = Literal["capacity", "quota", "throttled", "refused", "invalid", "expired", "server", "html", "drop"]
CLASSES: dict[Failure, type[CloudError]] = {
    "capacity": CapacityError,
    "quota": QuotaExceededError,
    "throttled": ThrottledError,
    "refused": PermissionRefusedError,
    "invalid": CloudInvalidError,
    "expired": CredentialsExpiredError,
    "server": CloudUnreachableError,
    "html": CloudUnreachableError,
    "drop": CloudUnreachableError,
}


@dataclass(frozen=True)
class Seen:
    """What a client of the cloud's own finds: addresses, the subnet, and the networks that rules of ours let in to port 22."""

    public: str
    private: str
    subnet: str
    open: set[str]


class Rig(ABC):
    """One region of one emulated cloud, and how it is made to fail."""

    region: ClassVar[str]
    """A region with at least two zones that have the order's machine type, or without zones."""
    making: ClassVar[str]
    """The action in the call log that makes machines."""
    machine: ClassVar[dict[str, Any]]
    """instance_type, gpu, gpu_count and os of an order."""

    def spots(self, order: base.Order) -> list[str]:
        """The zones in which an order can be; one empty name where a region has none."""
        return self.cloud().zones(order) or [""]

    @abstractmethod
    def cloud(self) -> base.Cloud:
        """A cloud object that has seen nothing yet."""

    @abstractmethod
    def calls(self) -> list[str]:
        """The actions called since the last `forget`, in their order."""

    @abstractmethod
    def forget(self) -> None:
        """Empty the call log."""

    @abstractmethod
    def stock(self, left: dict[str, int]) -> None:
        """How many machines each of these spots has left; all others have no end of them."""

    @abstractmethod
    def no_quota(self) -> None:
        """Let the account's quota be smaller than one machine."""

    @abstractmethod
    def fail(self, how: Failure) -> None:
        """Let every call that makes machines fail so."""

    @abstractmethod
    def lose_reply(self) -> None:
        """Let the next call that makes machines be carried out and its reply be lost."""

    @abstractmethod
    def subnet(self, zone: str) -> str:
        """A fresh subnet for machines of this zone, in another network than the default one."""

    @abstractmethod
    def seen(self, instance: base.Instance) -> Seen:
        """The machine as the cloud's own client sees it."""

    @abstractmethod
    def heal(self) -> None:
        """Take back all of the above."""

    def order(self, name: str = "", **changes: Any) -> base.Order:
        """An order for one machine under a fresh launch id."""
        name, launch_id = name or f"c{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
        deadline = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(hours=12)
        tags = {
            base.NAME_TAG: name,
            base.LAUNCH_TAG: launch_id,
            base.PROFILE_TAG: "t4-train",
            base.PROFILE_DIGEST_TAG: "0" * 64,
            base.OWNER_TAG: OWNER,
            base.DEADLINE_TAG: deadline.isoformat(),
            base.COUNT_TAG: str(changes.get("count", 1)),
            base.FIRST_TAG: str(changes.get("first", 1)),
        }
        plain: dict[str, Any] = {
            "market": "on-demand",
            "root_gb": 100,
            "volume_gb": None,
            "instance_store": False,
            "ssh_from": ("caller",),
            "public_key": KEY,
            "tags": tags,
        }
        return base.Order(name=name, launch_id=launch_id, deadline=deadline, **{**plain, **self.machine, **changes})


def ids(instances: list[base.Instance]) -> list[str]:
    return sorted(i.id for i in instances)


def alive(cloud: base.Cloud, name: str) -> list[base.Thing]:
    return [t for t in cloud.things(name) if t.alive]


class CloudContract:
    """The suite; every test launches under a name of its own."""

    def test_one_machine_carries_what_was_ordered_and_is_found_by_its_tags(self, rig: Rig) -> None:
        order = rig.order()
        (machine,) = rig.cloud().launch(order)
        (current,) = rig.cloud().find(order.name)
        assert current.id == machine.id
        assert (current.name, current.group, current.count) == (order.name, order.name, 1)
        assert (current.launch_id, current.profile, current.profile_digest, current.owner) == (order.launch_id, "t4-train", "0" * 64, OWNER)
        assert (current.type, current.market, current.region) == (order.instance_type, "on-demand", rig.region)
        assert current.deadline == order.deadline.isoformat()
        assert dt.datetime.fromisoformat(current.launched_at).utcoffset() == dt.timedelta(0)
        assert current.id in ids(rig.cloud().find())
        assert rig.cloud().find("nobody") == []

    def test_the_tags_of_a_profile_are_on_the_machine_as_written_beside_ours(self, rig: Rig) -> None:
        order = rig.order()
        own = {"CostCenter": "4711", "Project": "Vision / phase 2"}
        (machine,) = rig.cloud().launch(replace(order, tags={**order.tags, **own}))
        (current,) = rig.cloud().find(order.name)
        assert (machine.tags, current.tags) == (tuple(own.items()), tuple(own.items()))
        assert (current.name, current.owner) == (order.name, OWNER)

    def test_asking_again_returns_the_same_machines(self, rig: Rig) -> None:
        order = rig.order(count=2, minimum=2)
        first = rig.cloud().launch(order)
        assert ids(rig.cloud().launch(order)) == ids(first)
        assert ids(rig.cloud().find(order.name)) == ids(first)

    def test_several_have_names_and_addresses_of_their_own(self, rig: Rig) -> None:
        order = rig.order(count=3, minimum=3)
        machines = rig.cloud().launch(order)
        wanted = [f"{order.name}-{n}" for n in (1, 2, 3)]
        assert sorted(i.name for i in machines) == wanted
        cloud = rig.cloud()
        ready = [cloud.wait_running(i, timeout_s=240) for i in machines]
        assert len({i.address for i in ready}) == 3
        assert sorted(i.name for i in cloud.find(order.name)) == wanted
        assert {i.group for i in ready} == {order.name}

    def test_a_later_attempt_goes_on_with_the_numbers(self, rig: Rig) -> None:
        order = rig.order(count=2, minimum=2, first=2)
        order.tags[base.COUNT_TAG] = "3"
        assert sorted(i.name for i in rig.cloud().launch(order)) == [f"{order.name}-2", f"{order.name}-3"]

    def test_a_name_belongs_to_one_launch_in_whichever_zone_another_one_asks(self, rig: Rig) -> None:
        first = rig.order()
        here, *others = rig.spots(first)
        (machine,) = rig.cloud().launch(first.at(here))
        for zone in dict.fromkeys((here, *others[:1], "")):
            second = rig.order(first.name)
            with pytest.raises(NameTakenError, match=first.launch_id[:8]) as caught:
                rig.cloud().launch(second.at(zone))
            assert OWNER in caught.value.message
            assert f"gpuprov down {first.name}" in caught.value.hint
        cloud = rig.cloud()
        assert ids(cloud.find(first.name)) == [machine.id]
        assert ids(cloud.launch(first.at(here))) == [machine.id]  # its own launch goes on
        cloud.remove(cloud.things(first.name), on_step=lambda _: None)
        assert len(rig.cloud().launch(second)) == 1  # the name is free

    def test_fewer_than_asked_for_and_enough(self, rig: Rig) -> None:
        order = rig.order(count=3, minimum=2)
        zone = rig.spots(order)[0]
        rig.stock({zone: 2})
        machines = rig.cloud().launch(order.at(zone))
        assert sorted(i.name for i in machines) == [f"{order.name}-1", f"{order.name}-2"]

    def test_fewer_than_the_minimum_is_nothing(self, rig: Rig) -> None:
        order = rig.order(count=3, minimum=3)
        zone = rig.spots(order)[0]
        rig.stock({zone: 2})
        with pytest.raises(CapacityError):
            rig.cloud().launch(order.at(zone))
        assert rig.cloud().find(order.name) == []

    def test_no_quota_is_no_capacity_of_another_zone(self, rig: Rig) -> None:
        order = rig.order()
        rig.no_quota()
        with pytest.raises(QuotaExceededError) as caught:
            rig.cloud().launch(order)
        assert caught.value.hint
        answers = {a.about: a for a in rig.cloud().examine(order)}
        assert answers["quota"].holds is False

    @pytest.mark.parametrize("how", CLASSES)
    def test_an_answer_has_its_class_and_the_call_is_not_sent_again(self, rig: Rig, how: Failure) -> None:
        rig.forget()
        rig.fail(how)
        order = rig.order()
        with pytest.raises(CLASSES[how]) as caught:
            rig.cloud().launch(order)
        assert type(caught.value) is CLASSES[how]
        assert caught.value.hint
        assert rig.calls().count(rig.making) == 1
        rig.heal()
        assert rig.cloud().find(order.name) == []
        (machine,) = rig.cloud().launch(order)  # the same order, once the cloud is well again
        assert ids(rig.cloud().find(order.name)) == [machine.id]

    def test_a_lost_reply_is_asked_for_again(self, rig: Rig) -> None:
        order = rig.order(count=2, minimum=2)
        rig.lose_reply()
        with pytest.raises(CloudUnreachableError):
            rig.cloud().launch(order)
        assert ids(rig.cloud().launch(order)) == ids(rig.cloud().find(order.name))
        assert len(rig.cloud().find(order.name)) == 2

    def test_examining_answers_everything_and_makes_nothing(self, rig: Rig) -> None:
        order = rig.order()
        answers = {a.about: a for a in rig.cloud().examine(order)}
        assert set(answers) >= {"region", "offered", "quota", "image"}
        assert [a for a in answers.values() if a.holds is False] == []
        assert all(a.said for a in answers.values())
        assert rig.cloud().things(order.name) == []

    def test_off_and_on(self, rig: Rig) -> None:
        order = rig.order()
        cloud = rig.cloud()
        (machine,) = cloud.launch(order)
        running = cloud.wait_running(machine, timeout_s=240)
        assert running.state == "running"
        cloud.stop([running], timeout_s=240)
        (stopped,) = cloud.find(order.name)
        assert stopped.state == "stopped"
        rig.forget()
        cloud.stop([stopped], timeout_s=240)  # left alone
        assert not [a for a in rig.calls() if "stop" in a.lower()]
        (again,) = cloud.start([stopped], timeout_s=240)
        assert (again.id, again.state) == (machine.id, "running")
        assert again.address

    def test_the_deadline_moves(self, rig: Rig) -> None:
        order = rig.order()
        machines = rig.cloud().launch(order)
        later = order.deadline + dt.timedelta(hours=3)
        rig.cloud().extend(machines, later)
        (current,) = rig.cloud().find(order.name)
        assert dt.datetime.fromisoformat(current.deadline) == later

    def test_exactly_the_networks_that_are_allowed_are_open(self, rig: Rig) -> None:
        order = rig.order(ssh_from=("192.0.2.0/24",))
        rig.cloud().launch(order)
        cloud = rig.cloud()
        assert cloud.allow(order.name, ["198.51.100.7/32", "192.0.2.0/24"]) == ["192.0.2.0/24", "198.51.100.7/32"]
        assert cloud.allow(order.name, ["198.51.100.7/32"]) == ["198.51.100.7/32"]
        (own,) = cloud.allow(order.name, ["caller"])
        assert own.endswith(("/32", "/128"))
        with pytest.raises(InstanceNotFoundError):
            cloud.allow("nobody", ["caller"])

    @pytest.mark.parametrize("where", ["in-a-zone", "anywhere"])
    @pytest.mark.parametrize("count", [1, 2])
    @pytest.mark.parametrize("networks", [(), ("10.9.0.0/16",)])
    def test_a_private_machine_has_no_public_address_and_opens_only_what_it_must(
        self, rig: Rig, networks: tuple[str, ...], count: int, where: str
    ) -> None:
        cloud = rig.cloud()
        zone = rig.spots(rig.order())[-1]
        subnet = rig.subnet(zone)
        order = rig.order(
            subnet=subnet, public_address=False, ssh_from=networks, count=count, minimum=count, zone=zone if where == "in-a-zone" else ""
        )
        assert {a.holds for a in rig.cloud().examine(order)} <= {True, None}
        machines = cloud.launch(order)
        assert ids(rig.cloud().launch(order)) == ids(machines)
        for instance in [cloud.wait_running(i, timeout_s=240) for i in machines]:
            seen = rig.seen(instance)
            assert seen == Seen(public="", private=instance.address, subnet=subnet, open=set(networks))
            assert ipaddress.ip_address(instance.address).is_private
        cloud.stop(machines, timeout_s=240)
        before = {i.id: i.address for i in cloud.find(order.name)}
        after = cloud.start(cloud.find(order.name), timeout_s=240)
        assert {i.id: i.address for i in after} == before  # a private address stays
        assert cloud.allow(order.name, ["192.0.2.0/24"]) == ["192.0.2.0/24"]
        assert rig.seen(after[0]).open == {"192.0.2.0/24"}
        assert cloud.allow(order.name, []) == []
        assert rig.seen(after[0]).open == set()
        cloud.remove(cloud.things(order.name), on_step=lambda _: None)
        assert alive(cloud, order.name) == []

    def test_a_subnet_gives_public_addresses_as_well(self, rig: Rig) -> None:
        cloud = rig.cloud()
        subnet = rig.subnet(rig.spots(rig.order())[0])
        (machine,) = cloud.launch(order := rig.order(subnet=subnet))
        running = cloud.wait_running(machine, timeout_s=240)
        seen = rig.seen(running)
        assert (seen.public, seen.subnet) == (running.address, subnet)
        assert seen.private != running.address
        cloud.remove(cloud.things(order.name), on_step=lambda _: None)

    def test_a_subnet_that_is_not_there_is_said_and_nothing_is_left_running(self, rig: Rig) -> None:
        order = rig.order(subnet="subnet-0123456789abcdef0", public_address=False, ssh_from=("10.9.0.0/16",))
        with pytest.raises(CloudInvalidError, match="subnet-0123456789abcdef0"):
            rig.cloud().launch(order)
        assert rig.cloud().find(order.name) == []

    def test_nothing_is_announced_of_a_quiet_machine(self, rig: Rig) -> None:
        machines = rig.cloud().launch(rig.order())
        assert rig.cloud().notices(machines) == {}
        assert rig.cloud().notices([]) == {}

    def test_removing_takes_everything_of_a_name_and_nothing_else(self, rig: Rig) -> None:
        mine, other = rig.order(count=2, minimum=2, volume_gb=50), rig.order()
        cloud = rig.cloud()
        cloud.launch(mine)
        cloud.launch(other)
        things = cloud.things(mine.name)
        assert {t.group for t in things} == {mine.name}
        assert {t.owner for t in things} == {OWNER}
        assert len([t for t in things if t.kind == "instance"]) == 2
        assert set(map(str, things)) <= set(map(str, cloud.things()))
        steps: list[str] = []
        removed = cloud.remove(things, on_step=steps.append)
        assert len(removed) == len(things)
        assert steps
        assert alive(cloud, mine.name) == []
        assert cloud.find(mine.name) == []
        cloud.remove(things, on_step=steps.append)  # gone already: no error
        assert len(cloud.find(other.name)) == 1
        cloud.remove(cloud.things(other.name), on_step=steps.append)
        assert alive(cloud, other.name) == []

    def test_what_a_refused_launch_made_can_be_removed(self, rig: Rig) -> None:
        order = rig.order()
        rig.fail("capacity")
        cloud = rig.cloud()
        with pytest.raises(CapacityError):
            cloud.launch(order)
        rig.heal()
        cloud.remove(cloud.things(order.name), on_step=lambda _: None)
        assert alive(cloud, order.name) == []


class ZonedContract(CloudContract):
    """The suite of clouds whose regions have zones."""

    def test_a_machine_lands_in_the_zone_that_was_asked_for(self, rig: Rig) -> None:
        order = rig.order()
        zones = rig.cloud().zones(order)
        assert len(zones) >= 2
        (machine,) = rig.cloud().launch(order.at(zones[-1]))
        assert machine.zone == zones[-1]

    def test_without_a_zone_the_cloud_finds_one_that_has_it(self, rig: Rig) -> None:
        order = rig.order()
        *empty, last = rig.cloud().zones(order)
        rig.stock(dict.fromkeys(empty, 0))
        (machine,) = rig.cloud().launch(order)
        assert machine.zone == last

    def test_an_empty_zone_is_said_with_those_that_have_it_and_makes_nothing(self, rig: Rig) -> None:
        order = rig.order()
        first, *others = rig.cloud().zones(order)
        rig.stock({first: 0})
        cloud = rig.cloud()
        with pytest.raises(CapacityError) as caught:
            cloud.launch(order.at(first))
        assert set(caught.value.elsewhere) <= set(others)
        assert caught.value.elsewhere
        assert cloud.find(order.name) == []
        (machine,) = cloud.launch(order.at(caught.value.elsewhere[0]))
        assert machine.zone == caught.value.elsewhere[0]
