"""A launch against clouds in memory: what is asked for, with which deadline, and what is left when it fails."""

from __future__ import annotations

import datetime as dt
import json
import time
from typing import Any

import pytest

from provision.clouds import base, changes
from provision.clouds.base import TokenSpentError
from provision.errors import CapacityError, CloudInvalidError, CloudUnreachableError, GpuprovError, QuotaExceededError, ThrottledError
from provision.launch.attempts import LaunchRequest
from provision.launch.journal import Pending, Record
from provision.launch.launcher import Launcher
from provision.launch.patience import Patience
from provision.launch.place import Attempt
from provision.structs import replace
from tests.launch.memory import Memory, machine, thing
from tests.launch.test_plan import AWS, GCP, planned

HERE, THERE, LAST = ("aws", "us-east-1"), ("aws", "ap-east-1"), ("aws", "eu-west-1")
NONE_LEFT = CapacityError("none left", hint="x")


def ensure(launcher: Launcher, **more: Any) -> list[base.Instance]:
    return launcher.ensure(LaunchRequest(planned(AWS), "key", **more))


def orders(memory: Memory, pair: tuple[str, str]) -> list[base.Order]:
    return [order for method, order in memory[pair].asked if method == "launch"]


def record(launcher: Launcher) -> Record | None:
    return launcher.journal.get("t4-train")


def test_a_launch_ends_as_many_hours_after_its_beginning_as_the_profile_says(memory: Memory, launcher: Launcher) -> None:
    """The order, the tag and the journal say the same moment."""
    memory[HERE].launches = [[machine("t4-train")]]
    before = dt.datetime.now(dt.UTC).replace(microsecond=0)
    ensure(launcher)
    (order,) = orders(memory, HERE)
    assert dt.timedelta(hours=12) <= order.deadline - before <= dt.timedelta(hours=12, minutes=1)
    written = record(launcher)
    assert written is not None
    assert written.deadline == order.tags[base.DEADLINE_TAG] == order.deadline.isoformat()
    assert order.deadline - dt.datetime.fromisoformat(written.created_at) == dt.timedelta(hours=12)
    assert (order.count, order.minimum, order.first, order.launch_id) == (1, 1, 1, written.launch_id)
    assert [m.id for m in written.machines] == ["i-t4-train"]
    assert (written.pending, written.complete) == (None, True)


def test_the_journal_knows_when_something_was_asked_for_last(memory: Memory, launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch is several calls, each of which a cloud may show late; a client may die after any of them."""
    memory[HERE].launches = [[machine("t4-train")]]
    launch, moments = memory[HERE].launch, list[dt.datetime]()

    def in_three_calls(order: base.Order) -> list[base.Instance]:
        for _ in range(3):
            time.sleep(0.002)
            moments.append(dt.datetime.now(dt.UTC))
            changes.begin()
            written = record(launcher)
            assert written is not None
            assert written.pending is not None
            assert dt.datetime.fromisoformat(written.pending.at) >= moments[-1].replace(microsecond=moments[-1].microsecond // 1000 * 1000)
        return list(launch(order))

    monkeypatch.setattr(memory[HERE], "launch", in_three_calls)
    ensure(launcher)
    assert len(moments) == 3
    written = record(launcher)
    changes.begin()
    assert written is not None
    assert (written.pending, record(launcher)) == (None, written)


def test_no_capacity_goes_on_to_the_zones_and_then_to_the_next_region(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].launches, memory[HERE].zone_names = [NONE_LEFT], ["us-east-1a"]
    memory[THERE].launches = [[machine("t4-train", region="ap-east-1")]]
    ensure(launcher)
    assert [(a.zone or a.region, a.outcome) for a in launcher.attempts] == [
        ("us-east-1", "no-capacity"),
        ("us-east-1a", "no-capacity"),
        ("us-east-1a", "launched"),
    ]
    assert "us-east-1: no machine, trying the next place" in memory.said
    assert "asking for g4dn.xlarge in ap-east-1 (on-demand, an opt-in region)" in memory.said
    chosen, named = orders(memory, HERE)
    assert chosen.token("us-east-1") != named.token("us-east-1")


def test_no_place_with_a_machine_is_told_with_every_attempt_and_forgotten(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].launches = [QuotaExceededError("too small", hint="q")]
    memory[THERE].launches = [NONE_LEFT]
    with pytest.raises(CapacityError) as caught:
        ensure(launcher)
    outcomes = "us-east-1 g4dn.xlarge: quota-exceeded; ap-east-1 g4dn.xlarge: no-capacity"
    assert caught.value.message == f"no place of the profile has a machine ({outcomes})"
    assert caught.value.hint == "x"  # of the shortage that waiting can help
    assert record(launcher) is None


def test_an_error_that_no_other_place_can_mend_ends_it_and_leaves_nothing(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].launches = [CloudInvalidError("wrong", hint="x")]
    with pytest.raises(CloudInvalidError):
        ensure(launcher)
    assert orders(memory, THERE) == []
    assert memory[HERE].methods() == ["find", "launch", "things"]
    assert record(launcher) is None


def test_an_attempt_without_an_answer_stays_in_the_journal(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].launches = [CloudUnreachableError("no answer", hint="x")]
    with pytest.raises(CloudUnreachableError):
        ensure(launcher)
    written = record(launcher)
    assert written is not None
    assert written.pending is not None
    assert "things" not in memory[HERE].methods()
    memory[HERE].launches = [[machine("t4-train", launch_id=written.launch_id)]]
    ensure(launcher)
    first, second = orders(memory, HERE)
    assert first == second  # the same request, so that the same token finds the same machine
    assert (first.look_until, second.look_until is not None) == (None, True)  # where there is no token, one is looked for first


def test_the_machines_of_an_earlier_client_are_known_to_the_next_attempt(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].launches = [[machine("t4-train", id="i-1")]]
    ensure(launcher)
    ensure(launcher)  # the cloud's lists do not show it yet
    assert [order.had for order in orders(memory, HERE)] == [(), ("i-1",)]


def test_what_cannot_be_cleared_keeps_the_journal_and_says_how_to_remove_it(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].launches = [CloudInvalidError("wrong", hint="x", detail="d")]
    memory[HERE].fails["things"] = CloudUnreachableError("no answer", hint="x")
    with pytest.raises(CloudInvalidError) as caught:
        ensure(launcher)
    assert caught.value.hint == "x (something may remain there: `gpuprov down t4-train` removes it)"
    assert caught.value.detail == "d; while cleaning up: no answer"
    assert record(launcher) is not None


def test_the_rest_of_several_is_asked_for_elsewhere_with_the_next_numbers(memory: Memory, launcher: Launcher) -> None:
    one, two, three = (machine(f"t4-train-{n}", group="t4-train", id=f"i-{n}", count=3) for n in (1, 2, 3))
    memory[HERE].launches = [[one, two], NONE_LEFT]
    memory[THERE].launches = [[three]]
    made = ensure(launcher, count=3, minimum=2)
    assert [i.id for i in made] == ["i-1", "i-2", "i-3"]
    first = orders(memory, HERE)[0]
    last = orders(memory, THERE)[0]
    assert (first.count, first.minimum, first.first) == (3, 1, 1)
    assert (last.count, last.minimum, last.first, last.tags[base.COUNT_TAG]) == (1, 1, 3, "3")
    assert "asking for 3 x g4dn.xlarge in us-east-1 (on-demand)" in memory.said


def test_below_the_minimum_is_nothing(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].launches = [[machine("t4-train-1", group="t4-train", count=3)], NONE_LEFT]
    memory[THERE].launches = [NONE_LEFT]
    with pytest.raises(CapacityError, match="only 1 of at least 2 machines are available"):
        ensure(launcher, count=3, minimum=2)
    assert record(launcher) is None
    assert memory[HERE].methods()[-1] == "things"


def test_all_or_nothing_asks_for_all_at_once(memory: Memory, launcher: Launcher) -> None:
    pair = [machine(f"t4-train-{n}", group="t4-train", id=f"i-{n}", count=2) for n in (1, 2)]
    memory[HERE].launches = [pair]
    ensure(launcher, count=2, minimum=2)
    (order,) = orders(memory, HERE)
    assert (order.count, order.minimum) == (2, 2)


def test_a_machine_in_use_outlives_a_failed_refill(memory: Memory, launcher: Launcher) -> None:
    pair = [machine(f"t4-train-{n}", group="t4-train", id=f"i-{n}", count=2) for n in (1, 2)]
    memory[HERE].launches = [pair]
    ensure(launcher, count=2, minimum=2)
    written = record(launcher)
    assert written is not None
    digest = written.profile_digest
    left = machine("t4-train-1", group="t4-train", id="i-1", count=2, launch_id=written.launch_id, profile_digest=digest)
    memory[HERE].machines, memory[HERE].launches, memory[THERE].launches = [left], [NONE_LEFT], [NONE_LEFT]
    memory[HERE].left = [thing("instance", "t4-train", launch_id=written.launch_id)]
    memory[HERE].asked.clear()
    with pytest.raises(CapacityError):
        ensure(launcher, count=2, minimum=2)
    assert "remove" not in memory[HERE].methods()
    assert record(launcher) is not None


def test_every_attempt_is_logged_and_those_that_made_machines_are_remembered(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].launches = [QuotaExceededError("too small", hint="q")]
    memory[THERE].launches = [[machine("t4-train", region="ap-east-1")]]
    ensure(launcher)
    written = record(launcher)
    assert written is not None
    assert [(p.region, p.count) for p in written.had] == [("ap-east-1", 1)]
    assert len(launcher.journal.log_of("t4-train").read_text().splitlines()) == len(launcher.attempts) == 2


def test_a_client_that_dies_later_has_written_down_what_it_got(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].launches = [[machine("t4-train-1", group="t4-train", id="i-1", count=2)], NONE_LEFT]
    memory[THERE].launches = [CloudUnreachableError("no answer", hint="x")]
    with pytest.raises(CloudUnreachableError):
        ensure(launcher, count=2, minimum=1)
    written = record(launcher)
    assert written is not None
    assert [m.id for m in written.machines] == ["i-1"]
    assert written.pending is not None
    assert written.pending.region == "ap-east-1"


def test_a_region_without_a_machine_is_cleared_while_the_next_is_asked_but_the_first_keeps_the_name(
    memory: Memory, launcher: Launcher
) -> None:
    memory[HERE].launches, memory[THERE].launches = [NONE_LEFT], [NONE_LEFT]
    memory[LAST].launches = [[machine("t4-train", region="eu-west-1")]]
    three = {**AWS, "regions": ["us-east-1", "ap-east-1", "eu-west-1"]}
    launcher.ensure(LaunchRequest(planned(three), "key"))
    assert "things" in memory[THERE].methods()
    assert "things" not in memory[HERE].methods()
    assert "us-east-1: no machine, trying the next place" in memory.said
    written = record(launcher)
    assert written is not None
    assert written.touched == (HERE, LAST)  # where `down` looks


def test_a_region_that_a_later_place_needs_is_not_cleared_in_between(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].launches = [NONE_LEFT, CloudUnreachableError("no answer", hint="x")]
    one = {**AWS, "regions": ["us-east-1"]}
    with pytest.raises(CloudUnreachableError):
        launcher.ensure(LaunchRequest(planned(one, {**one, "instance_type": "g4dn.2xlarge"}), "key"))
    assert "things" not in memory[HERE].methods()


def test_exactly_the_minimum_is_enough(memory: Memory, launcher: Launcher) -> None:
    pair = [machine(f"t4-train-{n}", group="t4-train", id=f"i-{n}", count=3) for n in (1, 2)]
    memory[HERE].launches, memory[THERE].launches = [pair, NONE_LEFT], [NONE_LEFT]
    assert len(ensure(launcher, count=3, minimum=2)) == 2


def test_a_further_round_is_another_launch_that_begins_at_nothing(memory: Memory, launcher: Launcher) -> None:
    """A cloud repeats its answer to a token that it remembers."""
    made = [machine(f"t4-train-{n}", group="t4-train", id=f"i-{n}", count=3) for n in (1, 2, 3)]
    memory[HERE].launches = [made[:1], NONE_LEFT, made]
    memory[THERE].launches = [NONE_LEFT]
    assert len(ensure(launcher, count=3, minimum=2, wait_s=60)) == 3
    first, *_, last = orders(memory, HERE)
    assert first.launch_id != last.launch_id
    assert (last.first, last.count) == (1, 3)


def test_machines_that_only_their_tags_tell_of_are_in_use(memory: Memory, launcher: Launcher) -> None:
    """The record is lost, and the log has the launch: no failure of ours removes its machines."""
    launcher.journal.log("t4-train", {"launch_id": "launch-odd"})
    digest = planned(AWS).profile_sha256
    memory[HERE].machines = [machine("odd", group="t4-train", count=2, profile_digest=digest)]
    memory[HERE].left = [thing("instance", "t4-train", launch_id="launch-odd")]
    memory[HERE].launches = memory[THERE].launches = [NONE_LEFT]
    with pytest.raises(CapacityError):
        ensure(launcher, count=2, minimum=2)
    assert "remove" not in memory[HERE].methods()
    assert launcher.attempts[0].outcome == "adopted"
    assert launcher.attempts[0].detail == "i-odd"
    assert orders(memory, HERE)[0].first == 2


def test_a_place_over_the_limit_is_never_asked_for_a_machine(memory: Memory, launcher: Launcher) -> None:
    dear = {**AWS, "regions": ["ap-east-1", "us-east-1"]}
    memory[HERE].launches = [[machine("t4-train")]]
    launcher.ensure(LaunchRequest(planned(dear, limit=0.6), "key"))
    assert memory[THERE].asked == []
    assert [(a.region, a.outcome) for a in launcher.attempts] == [("ap-east-1", "skipped"), ("us-east-1", "launched")]
    why = "0.844 USD/h is over limits.price_per_hour_usd 0.60"
    assert launcher.attempts[0].detail == why
    assert f"ap-east-1: skipped: {why}" in memory.said
    log = [json.loads(line) for line in launcher.journal.log_of("t4-train").read_text().splitlines()]
    written = record(launcher)
    assert written is not None
    assert [(entry["launch_id"], entry["outcome"]) for entry in log] == [(written.launch_id, "skipped"), (written.launch_id, "launched")]
    assert all(0 <= a.seconds < 60 for a in launcher.attempts)


def test_a_project_with_a_machine_is_not_searched_for_what_another_region_left(memory: Memory, launcher: Launcher) -> None:
    """Its one firewall rule serves all regions, and would be removed."""
    zones = {**GCP, "zones": ["asia-east2-a", "asia-east1-a"]}
    memory["gcp", "asia-east2"].launches = [NONE_LEFT]
    memory["gcp", "asia-east1"].launches = [[machine("t4-train", cloud="gcp", region="asia-east1", zone="asia-east1-a")]]
    launcher.ensure(LaunchRequest(planned(zones), "key"))
    assert "things" not in memory["gcp", "asia-east2"].methods() + memory["gcp", "asia-east1"].methods()
    memory["gcp", "asia-east1"].launches = [NONE_LEFT]
    memory[HERE].launches = [[machine("other")]]
    launcher.ensure(LaunchRequest(planned(zones, {**AWS, "regions": ["us-east-1"]}, name="other"), "key"))
    calls = memory["gcp", "asia-east1"].methods() + memory["gcp", "asia-east2"].methods()
    assert calls.count("things") == 0  # the machine is at another cloud, and the rule of the first attempt keeps the name


@pytest.mark.parametrize("state", ["shutting-down", "terminated"])
def test_a_machine_that_ends_is_never_counted(memory: Memory, launcher: Launcher, state: str) -> None:
    memory[HERE].launches = [[machine("t4-train", state=state)]]
    memory[THERE].launches = [[machine("t4-train", id="i-2", region="ap-east-1")]]
    assert [i.id for i in ensure(launcher)] == ["i-2"]


@pytest.mark.parametrize(("rehearsal", "subnet"), [(True, ""), (False, "subnet-0123456789abcdef0")])
def test_the_embedded_cloud_has_none_of_the_user_s_subnets(memory: Memory, launcher: Launcher, rehearsal: bool, subnet: str) -> None:  # noqa: FBT001 - a table
    launcher.rehearsal = rehearsal
    network = {"address": "private", "subnet": "subnet-0123456789abcdef0", "jump": "bastion", "ssh_from": ["10.0.0.4/32"]}
    memory[HERE].launches = [[machine("t4-train")]]
    launcher.ensure(LaunchRequest(planned({**AWS, "regions": ["us-east-1"]}, network=network), "key"))
    assert [order.subnet for order in orders(memory, HERE)] == [subnet]


def test_every_row_says_what_was_asked_for_where_and_what_came_of_it(memory: Memory, launcher: Launcher) -> None:
    two = [machine(f"t4-train-{n}", group="t4-train", id=f"i-{n}", region="eu-west-1", zone="eu-west-1b", count=2) for n in (1, 2)]
    memory[HERE].launches, memory[LAST].launches = [QuotaExceededError("too small", hint="q")], [two]
    places = {**AWS, "regions": ["ap-east-1", "us-east-1", "eu-west-1"]}
    launcher.ensure(LaunchRequest(planned(places, limit=0.7), "key", count=2, minimum=2))
    assert all(0 <= a.seconds < 60 for a in launcher.attempts)
    why = "0.844 USD/h is over limits.price_per_hour_usd 0.70"
    assert [replace(a, seconds=0.0) for a in launcher.attempts] == [
        Attempt("aws", "ap-east-1", "", "g4dn.xlarge", "on-demand", "skipped", why, 0.0, 1),
        Attempt("aws", "us-east-1", "", "g4dn.xlarge", "on-demand", "quota-exceeded", "too small", 0.0, 2),
        Attempt("aws", "eu-west-1", "eu-west-1b", "g4dn.xlarge", "on-demand", "launched", "i-1, i-2", 0.0, 2),
    ]
    written = record(launcher)
    assert written is not None
    assert written.had == (Pending(0, "eu-west-1", "", 1, 2, 2),)
    assert "asking for 2 x g4dn.xlarge in eu-west-1 (on-demand)" in memory.said


def test_the_row_of_a_zone_over_the_limit_and_of_an_adopted_machine_name_their_zone(memory: Memory, launcher: Launcher) -> None:
    pair = ("gcp", "asia-east2")
    zones = planned({**GCP, "zones": ["asia-east2-a"]}, limit=0.5)
    with pytest.raises(GpuprovError):
        launcher.ensure(LaunchRequest(zones, "key"))
    memory[pair].launches = [[machine("t4-train", cloud="gcp", region="asia-east2", zone="asia-east2-a")]]
    both = planned({**GCP, "gpu_count": 4, "zones": ["asia-east2-a"]}, {**GCP, "zones": ["asia-east2-a"]})
    launcher.ensure(LaunchRequest(both, "key"))
    assert [(a.zone, a.outcome) for a in launcher.attempts] == [("asia-east2-a", "skipped"), ("asia-east2-a", "launched")]
    written = record(launcher)
    assert written is not None
    mine = machine("t4-train", cloud="gcp", region="asia-east2", zone="asia-east2-c", type="n1-standard-8", launch_id=written.launch_id)
    memory[pair].machines = [replace(mine, market="spot", profile_digest=both.profile_sha256)]
    launcher.ensure(LaunchRequest(both, "key"))
    assert launcher.attempts[-1:] == [Attempt("gcp", "asia-east2", "asia-east2-c", "n1-standard-8", "spot", "adopted", "i-t4-train", 0.0)]


def test_an_order_has_the_name_the_key_and_the_digest_of_its_launch_and_the_zones_are_asked_for_one_machine(
    memory: Memory, launcher: Launcher
) -> None:
    memory[HERE].launches, memory[HERE].zone_names = [NONE_LEFT, [machine("t4-train")]], ["us-east-1c"]
    ensure(launcher)
    written = record(launcher)
    assert written is not None
    (draft,) = [order for method, order in memory[HERE].asked if method == "zones"]
    for order in (draft, *orders(memory, HERE)):
        assert (order.name, order.public_key, order.launch_id) == ("t4-train", "key", written.launch_id)
        assert order.tags[base.PROFILE_DIGEST_TAG] == written.profile_digest
    assert (draft.zone, draft.first, draft.count, draft.minimum) == ("", 1, 1, 1)
    assert [order.zone for order in orders(memory, HERE)] == ["", "us-east-1c"]
    assert written.had == (Pending(0, "us-east-1", "us-east-1c", 1, 1, 1),)


def test_zones_that_are_throttled_are_asked_for_again_and_those_without_an_answer_are_not(memory: Memory, launcher: Launcher) -> None:
    launcher.patience = Patience(throttled_s=0.1, unanswered=3, pause_s=0.001, round_s=0.0)
    for error, least, most in ((ThrottledError("slow down", hint="x"), 2, 1000), (CloudUnreachableError("no answer", hint="x"), 1, 1)):
        memory[HERE].launches, memory[HERE].fails["zones"] = [NONE_LEFT], error
        memory[HERE].asked.clear()
        with pytest.raises(type(error)):
            ensure(launcher)
        assert least <= memory[HERE].methods().count("zones") <= most
    assert "the zones of us-east-1: throttled, next try in 0.0 s" in memory.said


def test_no_capacity_where_clearing_fails_says_what_may_remain(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].launches = memory[THERE].launches = [NONE_LEFT]
    memory[HERE].fails["things"] = CloudUnreachableError("no answer", hint="x")
    with pytest.raises(CapacityError) as caught:
        ensure(launcher)
    assert caught.value.hint == "x (something may remain there: `gpuprov down t4-train` removes it)"
    assert record(launcher) is not None


def test_an_attempt_whose_token_is_spent_is_made_under_another(memory: Memory, launcher: Launcher) -> None:
    spent = TokenSpentError("its machine has ended", hint="x")
    memory[HERE].launches = [CloudUnreachableError("no answer", hint="x"), spent, spent, [machine("t4-train")]]
    with pytest.raises(CloudUnreachableError):
        ensure(launcher)
    assert [i.id for i in ensure(launcher)] == ["i-t4-train"]
    first, again, new, newest = [order.token("us-east-1") for order in orders(memory, HERE)]
    assert first == again == new
    assert newest != new
    assert "its machine has ended: trying the places in their order" in memory.said


def test_tokens_that_are_all_spent_end_it(memory: Memory, launcher: Launcher) -> None:
    memory[HERE].launches = [TokenSpentError("its machine has ended", hint="x")]
    with pytest.raises(TokenSpentError):
        ensure(launcher)
    assert len({order.token("us-east-1") for order in orders(memory, HERE)}) == 64
    assert record(launcher) is None
