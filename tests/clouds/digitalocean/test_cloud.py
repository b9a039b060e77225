"""DigitalOcean keeps the contract, over HTTP against the embedded DigitalOcean; and what is DigitalOcean's alone."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pytest

from provision.clouds import base
from provision.clouds.digitalocean import errors, permissions, power, removal, requests
from provision.clouds.digitalocean.answers import instance_of
from provision.clouds.digitalocean.api import DigitalOceanApi
from provision.clouds.digitalocean.cloud import DigitalOceanCloud
from provision.errors import (
    CloudInvalidError,
    CloudUnreachableError,
    CredentialsExpiredError,
    HostKeyUnknownError,
    InstanceLostError,
    QuotaExceededError,
    ThrottledError,
)
from provision.host import hostkeys
from provision.launch.ours import Ours
from provision.launch.sweep import clear_away, leftovers
from provision.rehearsal import control
from provision.structs import replace
from tests.clouds.contract import OWNER, CloudContract, alive, ids
from tests.clouds.digitalocean.rig import HOST_KEY, MAKING, REGION, DigitalOceanRig


class TestContract(CloudContract):
    """The suite of all clouds."""


def made(rig: DigitalOceanRig, order: base.Order) -> list[Any]:
    """The droplets that carry the order's name, however many."""
    return [raw for raw in rig.droplets() if raw["name"].startswith(f"{order.name}.")]


def again(rig: DigitalOceanRig, order: base.Order, raw: Any) -> int:
    """A second droplet of the same name and tags, as a create whose client died makes it; its number."""
    body = requests.droplet(order, order.name, REGION)
    return int(rig.ask("POST", "droplets", {**body, "tags": raw["tags"]})["droplet"]["id"])


def test_a_create_is_looked_for_in_three_lists_before_it_is_sent(rig: DigitalOceanRig) -> None:
    rig.cloud().launch(rig.order())
    calls = rig.calls()
    assert calls[: calls.index(MAKING)].count("droplets_list") == 3
    assert calls.index("firewalls_create") < calls.index(MAKING)
    assert calls.index("tags_create") < calls.index("firewalls_create")


def test_of_two_droplets_with_one_name_the_older_one_stays(rig: DigitalOceanRig) -> None:
    order = rig.order()
    (first,) = rig.cloud().launch(order)
    (raw,) = made(rig, order)
    second = again(rig, order, raw)
    assert second > int(first.id)
    assert ids(rig.cloud().find(order.name)) == [first.id]  # nobody is given the other
    assert len([t for t in rig.cloud().things(order.name) if t.kind == "instance"]) == 2  # `down` would remove both
    assert ids(rig.cloud().launch(order)) == [first.id]
    assert [raw["id"] for raw in made(rig, order)] == [int(first.id)]


def test_a_second_droplet_that_comes_late_is_removed_while_the_first_one_is_waited_for(rig: DigitalOceanRig) -> None:
    order = rig.order()
    cloud = rig.cloud()
    (first,) = cloud.launch(order)
    again(rig, order, made(rig, order)[0])
    assert cloud.wait_running(first, timeout_s=240).id == first.id
    assert [raw["id"] for raw in made(rig, order)] == [int(first.id)]


def test_a_create_that_is_carried_out_late_is_waited_for_and_not_sent_again(rig: DigitalOceanRig) -> None:
    order = rig.order()
    rig.faults({"kind": "delay", "action": MAKING, "delay_s": 1.0, "count": 1})
    cloud = DigitalOceanCloud(REGION, replace(rig.access, timeout_s=0.5))
    with pytest.raises(CloudUnreachableError):
        cloud.launch(order)
    (machine,) = cloud.launch(order)
    assert rig.calls().count(MAKING) == 1
    assert [str(raw["id"]) for raw in made(rig, order)] == [machine.id]


def test_a_droplet_of_an_earlier_client_that_no_list_shows_yet_is_not_made_again(rig: DigitalOceanRig) -> None:
    order = rig.order()
    rig.set(do_unseen_s=60.0, do_tags_s=60.0)
    (first,) = rig.cloud().launch(order)
    assert ids(rig.cloud().launch(replace(order, had=(first.id, "1")))) == [first.id]
    assert rig.calls().count(MAKING) == 1


def test_a_droplet_that_was_destroyed_is_none_although_its_id_is_still_known() -> None:
    class Archived:
        def call(self, action: str, **parameters: str) -> dict[str, Any]:
            assert (action, parameters) == ("droplets_get", {"droplet": "1"})
            return {"droplet": {"id": 1, "name": "x", "status": "archive"}}

    assert removal.droplet(Archived(), "1") is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "status", "there"),
    [
        ("train.gpuprov-f00df00df0", "new", True),
        ("train.gpuprov-f00df00df0", "active", True),
        ("train.gpuprov-f00df00df0", "off", True),  # costs as much
        ("train.gpuprov-f00df00df0", "archive", False),
        ("train.gpuprov-beefbeefbe", "active", False),
        ("train", "active", False),  # its owner gave it this name
        ("", "", False),
    ],
)
def test_of_a_launch_are_the_droplets_whose_names_say_so(name: str, status: str, *, there: bool) -> None:
    none = errors.NotThereError("no droplet", hint="x")

    class Droplets:
        def call(self, _action: str, *, droplet: str) -> dict[str, Any]:
            if droplet != "7" or not name:
                raise none
            return {"droplet": {"id": 7, "name": name, "status": status, "region": {"slug": "nyc2"}}}

    launch = base.Known("train", "f00d" * 8, OWNER, (("6", "nyc2"), ("7", "")))
    expected = [base.Thing("instance", "7", "train", "f00d" * 8, OWNER, "nyc2")] if there else []
    assert removal.known(Droplets(), launch) == expected  # type: ignore[arg-type]


def test_a_create_of_a_client_that_died_is_looked_for_until_it_is_late(rig: DigitalOceanRig) -> None:
    order, now = rig.order(), dt.datetime.now(dt.UTC)
    rig.set(do_unseen_s=1.0)
    (first,) = rig.cloud().launch(order)
    assert ids(rig.cloud().launch(replace(order, look_until=now + dt.timedelta(seconds=20)))) == [first.id]
    assert rig.calls().count(MAKING) == 1
    other, long_ago = rig.order("other"), now - dt.timedelta(minutes=10)
    assert len(rig.cloud().launch(replace(other, look_until=long_ago))) == 1


def test_before_its_tags_are_there_the_name_and_the_firewall_tell_whose_a_droplet_is(rig: DigitalOceanRig) -> None:
    rig.set(do_tags_s=2.0)
    order = rig.order()
    cloud = rig.cloud()
    (machine,) = cloud.launch(order)
    (thing,) = [t for t in cloud.things(order.name) if t.kind == "instance"]
    assert (thing.id, thing.launch_id, thing.owner) == (machine.id, order.launch_id, order.tags[base.OWNER_TAG])
    (found,) = cloud.find(order.name)  # waits for them, because only they tell the rest
    assert (found.profile_digest, found.deadline) == (machine.profile_digest, order.deadline.isoformat())


def test_a_droplet_that_never_becomes_active_is_lost_and_said_to_cost(rig: DigitalOceanRig) -> None:
    rig.set(do_active_s=None, do_new_can_be_deleted=True)
    order = rig.order()
    cloud = rig.cloud()
    raw = rig.ask("POST", "droplets", requests.droplet(order, order.name, REGION))["droplet"]
    with pytest.raises(InstanceLostError, match="pending") as caught:
        cloud.wait_running(instance_of(raw, order.tags), timeout_s=0.5)
    assert f"gpuprov down {order.name}" in caught.value.hint
    cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    rig.set(do_new_can_be_deleted=False)
    assert alive(cloud, order.name) == []


def test_the_accounts_limit_of_volumes_leads_to_the_next_place(rig: DigitalOceanRig) -> None:
    rig.set(do_volume_limit=0)
    with pytest.raises(QuotaExceededError, match="volume/snapshot capacity limit exceeded"):
        rig.cloud().launch(rig.order(volume_gb=100))


def test_an_account_without_gpus_is_told_so_and_the_next_place_is_tried(rig: DigitalOceanRig) -> None:
    rig.set(do_gpu_access=False)
    order = rig.order()
    with pytest.raises(QuotaExceededError, match="no region") as caught:
        rig.cloud().launch(order)
    assert "access" in caught.value.hint
    answers = {a.about: a for a in rig.cloud().examine(order)}
    assert answers["offered"].holds is False
    assert "access" in answers["offered"].said


def test_the_firewall_protects_a_droplet_and_its_tag_is_nobody_elses(rig: DigitalOceanRig) -> None:
    one, other = (rig.order(ssh_from=(network,)) for network in ("192.0.2.0/24", "198.51.100.0/24"))
    machines = [rig.cloud().launch(order)[0] for order in (one, other)]
    cloud = rig.cloud()
    running = [cloud.wait_running(machine, timeout_s=240) for machine in machines]
    assert [rig.seen(machine).open for machine in running] == [{"192.0.2.0/24"}, {"198.51.100.0/24"}]


def test_nobody_connects_before_the_firewall_holds_for_the_droplet(rig: DigitalOceanRig) -> None:
    rig.set(do_firewall_s=2.0)
    later = rig.order(ssh_from=("192.0.2.0/24",))
    cloud = rig.cloud()
    (machine,) = cloud.launch(later)
    machine = cloud.wait_running(machine, timeout_s=240)
    assert cloud.host_keys(machine, timeout_s=20)
    assert rig.seen(machine).open == {"192.0.2.0/24"}
    cloud.allow(later.name, ["198.51.100.0/24"])
    assert rig.seen(machine).open == {"198.51.100.0/24"}


def test_a_droplet_whose_firewall_fails_is_removed_before_anybody_connects(rig: DigitalOceanRig) -> None:
    order = rig.order()
    cloud = rig.cloud()
    (machine,) = cloud.launch(order)
    rig.set(do_firewall_fails=True)
    with pytest.raises(CloudInvalidError, match="failed"):
        cloud.allow(order.name, ["198.51.100.0/24"])
    machine = cloud.wait_running(machine, timeout_s=240)
    with pytest.raises(CloudInvalidError, match="is not in force"):
        cloud.host_keys(machine, timeout_s=20)
    assert [thing.kind for thing in cloud.things(order.name)] == ["firewall", "tag"]
    rig.set(do_firewall_fails=False)
    (again,) = cloud.launch(order)  # its rules are the same, and it is asked for them once more
    again = cloud.wait_running(again, timeout_s=240)
    cloud.publish_host_keys(again, cloud.host_keys(again, timeout_s=20))
    rig.set(do_firewall_fails=True)
    with pytest.raises(CloudInvalidError, match="failed"):
        cloud.allow(order.name, ["192.0.2.0/24"])
    with pytest.raises(CloudInvalidError, match="is not in force"):
        cloud.host_keys(again, timeout_s=20)
    assert [i.id for i in cloud.find(order.name)] == [again.id]  # somebody may have worked on it


def test_a_firewall_of_somebody_else_is_not_touched(rig: DigitalOceanRig) -> None:
    order = rig.order()
    everywhere = [{"protocol": "tcp", "ports": "0", "destinations": {"addresses": ["0.0.0.0/0"]}}]
    rig.ask("POST", "firewalls", {"name": f"gpuprov-{order.name}", "outbound_rules": everywhere})
    with pytest.raises(CloudInvalidError, match="not of gpuprov"):
        rig.cloud().launch(order)
    assert rig.cloud().things(order.name)[0].kind == "tag"
    (firewall,) = [f for f in rig.firewalls() if f["name"] == f"gpuprov-{order.name}"]
    assert (firewall["inbound_rules"], firewall["tags"]) == ([], [])


def test_the_tags_tell_the_key_that_a_droplet_was_given_and_then_the_one_that_replaced_it(rig: DigitalOceanRig) -> None:
    order = rig.order()
    cloud = rig.cloud()
    (machine,) = cloud.launch(order)
    given = hostkeys.public_of(HOST_KEY)
    assert cloud.host_keys(machine, timeout_s=20) == (given,)
    fresh = hostkeys.public_of(hostkeys.fresh_private_key())
    cloud.publish_host_keys(machine, [fresh])  # before the host shows it: both are its keys
    assert set(rig.cloud().host_keys(machine, timeout_s=20)) == {fresh, given}
    cloud.publish_host_keys(machine, [fresh])
    assert rig.cloud().host_keys(machine, timeout_s=20) == (fresh,)


def test_a_droplet_that_was_given_no_key_is_not_trusted(rig: DigitalOceanRig) -> None:
    order = rig.order(host_key="")
    (machine,) = rig.cloud().launch(order)
    with pytest.raises(HostKeyUnknownError):
        rig.cloud().host_keys(machine, timeout_s=0.2)


def test_a_volume_of_a_try_with_a_lost_answer_is_used(rig: DigitalOceanRig) -> None:
    order = rig.order(volume_gb=50)
    rig.faults({"kind": "lost", "action": "volumes_create", "count": 1})
    cloud = rig.cloud()
    with pytest.raises(CloudUnreachableError):
        cloud.launch(order)
    (machine,) = cloud.launch(order)
    volumes = [t for t in cloud.things(order.name) if t.kind == "volume"]
    assert rig.ask("GET", f"droplets/{machine.id}")["droplet"]["volume_ids"] == [t.id for t in volumes]
    cloud.wait_running(machine, timeout_s=240)
    cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    assert alive(cloud, order.name) == []


def test_removing_takes_the_tags_that_only_the_launch_has_and_leaves_the_words(rig: DigitalOceanRig) -> None:
    order = rig.order()
    cloud = rig.cloud()
    (machine,) = cloud.launch(order)
    cloud.extend([cloud.wait_running(machine, timeout_s=240)], order.deadline + dt.timedelta(hours=1))
    cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    left = [tag for tag in rig.tags() if order.launch_id in tag]
    assert left == []
    assert "gpuprov:profile:t4-train" in rig.tags()


def test_a_removal_that_takes_long_is_under_way_and_the_same_command_ends_it(rig: DigitalOceanRig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert removal._REMOVED_S >= 20 * 60
    order = rig.order()
    cloud = rig.cloud()
    cloud.wait_running(cloud.launch(order)[0], timeout_s=240)
    monkeypatch.setattr(removal, "_REMOVED_S", 0.3)
    rig.set(do_gone_s=3.0)
    with pytest.raises(CloudUnreachableError, match="under way") as caught:
        cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    assert f"gpuprov down {order.name}" in caught.value.hint
    monkeypatch.undo()
    rig.set(do_gone_s=0.0)
    cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    assert cloud.things(order.name) == []


def test_a_tag_that_somebody_else_wrote_makes_nothing_ours() -> None:
    for name in ("gpuprov:launch", "gpuprov:launch:", "gpuprov:launch::x:y", "gpuprov:deadline:x", "gpuprov-own:only"):
        assert base.LAUNCH_TAG not in requests.read_tags([name]), name


def test_a_vpc_of_another_region_is_said(rig: DigitalOceanRig) -> None:
    elsewhere = str(rig.ask("POST", "vpcs", {"name": "elsewhere", "region": "tor1"})["vpc"]["id"])
    with pytest.raises(CloudInvalidError, match=r"is in tor1, and not in nyc2"):
        rig.cloud().launch(rig.order(subnet=elsewhere))


def test_a_droplet_that_is_off_is_announced_as_billed(rig: DigitalOceanRig) -> None:
    cloud = rig.cloud()
    (machine,) = cloud.launch(order := rig.order())
    cloud.stop([cloud.wait_running(machine, timeout_s=240)], timeout_s=240)
    (off,) = cloud.find(order.name)
    assert cloud.notices([off]) == {off.id: ("it is off, and costs as much as one that runs",)}


def test_every_call_is_one_that_the_client_declares(rig: DigitalOceanRig) -> None:
    cloud = rig.cloud()
    cloud.examine(order := rig.order())
    cloud.launch(order)
    assert all("scopes" not in call for call in control.ask(rig.rehearsal, "calls"))


def test_a_droplet_whose_tags_do_not_come_has_no_firewall_and_is_lost(rig: DigitalOceanRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "_TAGS_S", 0.3)
    rig.set(do_tags_s=60.0)
    order = rig.order()
    cloud = rig.cloud()
    (machine,) = cloud.launch(order)
    with pytest.raises(InstanceLostError, match="no firewall is for it"):
        cloud.wait_running(machine, timeout_s=240)
    cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    assert made(rig, order) == []


@pytest.mark.parametrize(("limit", "says"), [("do_limit_minute", r"in \d+ s"), ("do_limit_hour", "hourly limit of the token")])
def test_each_of_the_two_limits_is_throttled_with_its_own_way_out(rig: DigitalOceanRig, limit: str, says: str) -> None:
    rig.set(**{limit: 0})
    with pytest.raises(ThrottledError) as caught:
        rig.cloud().launch(rig.order())
    assert re.search(says, caught.value.hint)
    rig.set(**{limit: 1_000_000})
    assert len(rig.cloud().launch(rig.order())) == 1


def test_a_token_that_was_revoked_makes_nothing_and_says_what_to_do(rig: DigitalOceanRig) -> None:
    rig.set(do_token_valid=False)
    with pytest.raises(CredentialsExpiredError) as caught:
        rig.cloud().launch(rig.order())
    assert "DIGITALOCEAN_TOKEN" in caught.value.hint
    assert rig.calls()
    assert MAKING not in rig.calls()


def test_a_droplet_that_powered_itself_off_at_its_deadline_is_swept_with_all_that_it_has(rig: DigitalOceanRig) -> None:
    order = rig.order(volume_gb=10)
    past = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=1)
    order.tags[base.DEADLINE_TAG] = past.isoformat(timespec="seconds")
    cloud = rig.cloud()
    (machine,) = cloud.launch(order)
    cloud.stop([cloud.wait_running(machine, timeout_s=240)], timeout_s=240)
    ours = Ours(lambda _cloud, _region: cloud, lambda _: None)
    left, problems = leftovers(ours, {("digitalocean", REGION)}, owners={OWNER}, busy=(), now=dt.datetime.now(dt.UTC))
    mine = [item for item in left if item.thing.group == order.name]
    assert ({item.thing.kind for item in mine}, problems) == ({"instance", "volume", "firewall", "tag"}, {})
    assert {item.why for item in mine} == {"its deadline is over"}
    clear_away(ours, mine)
    assert (alive(cloud, order.name), made(rig, order)) == ([], [])


def test_a_droplet_that_no_list_shows_yet_is_there_by_its_id(rig: DigitalOceanRig) -> None:
    order = rig.order()
    rig.set(do_unseen_s=60.0, do_tags_s=60.0)
    (machine,) = rig.cloud().launch(order)

    def known(launch_id: str) -> list[str]:
        launch = base.Known(order.name, launch_id, "", ((machine.id, ""),))
        return [thing.id for thing in rig.cloud().things(order.name, launch) if thing.kind == "instance"]

    assert "instance" not in {thing.kind for thing in rig.cloud().things(order.name)}
    assert known(order.launch_id) == [machine.id]
    assert known("f" * 32) == []
    rig.cloud().remove([base.Known(order.name, order.launch_id, "").thing("instance", machine.id, machine.region)], on_step=lambda _: None)
    assert known(order.launch_id) == []


def test_an_account_that_is_locked_is_known_before_a_launch(rig: DigitalOceanRig) -> None:
    rig.set(do_account_status="locked")
    answers = {a.about: a for a in rig.cloud().examine(rig.order())}
    assert (answers["quota"].holds, answers["quota"].said) == (False, "the account may make no droplets: it is locked")


def test_an_address_that_is_not_verified_and_a_warning_are_known_before_a_launch(rig: DigitalOceanRig) -> None:
    rig.set(do_email_verified=False, do_account_status="active")
    answers = {a.about: a for a in rig.cloud().examine(rig.order())}
    assert (answers["quota"].holds, "not verified" in answers["quota"].said) == (False, True)
    rig.set(do_email_verified=True, do_account_status="warning")
    answers = {a.about: a for a in rig.cloud().examine(rig.order())}
    assert (answers["quota"].holds, "warns" in answers["quota"].said) == (True, True)
    rig.set(do_account_status="active")


@pytest.mark.parametrize(("limit", "holds"), [(2, True), (1, False), (0, False), (None, None)])
def test_the_limit_of_volumes_is_known_before_a_launch(rig: DigitalOceanRig, limit: int | None, holds: bool | None) -> None:  # noqa: FBT001 - a table
    rig.set(do_volume_limit=1000)
    there = len(DigitalOceanApi(rig.access).pages("volumes_list", "volumes"))
    rig.set(do_volume_limit=limit and there + limit, do_scopes=list(permissions.permissions(rig.order(volume_gb=10, count=2))))
    answers = {a.about: a for a in rig.cloud().examine(rig.order(volume_gb=10, count=2))}
    assert answers["volumes"].holds is holds, answers["volumes"].said
    assert "volumes" not in {a.about for a in rig.cloud().examine(rig.order())}
    rig.set(do_volume_limit=1000, do_scopes=None)
