"""What an order, a plan and a record hold as a whole, and the limits that are looked at before any cloud is asked."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from provision import clouds
from provision.clouds.base import Order
from provision.errors import CloudUnsupportedError, GpuprovError, PriceOverLimitError, PriceUnknownError, ProfileMismatchError, UsageError
from provision.launch.attempts import LaunchRequest
from provision.launch.launcher import Launcher
from provision.launch.place import check_any, check_machines, options
from provision.launch.plan import HOST_KEY, LAUNCH_ID, PUBLIC_KEY, Plan, draft_order, order, plan
from provision.profile import load
from provision.profile.lock import build
from provision.profile.model import Profile
from provision.structs import replace
from tests.launch.conftest import TODAY
from tests.launch.memory import Memory, machine
from tests.launch.test_plan import AWS, GCP, T4, V100, planned
from tests.profile import test_signed as signed

HERE: dict[str, Any] = {**AWS, "regions": ["us-east-1"]}
AMI = "ami-0123456789abcdef0"
DROPLET = {"cloud": "digitalocean", "instance_type": "gpu-h100x1-80gb", "regions": ["nyc2"], "market": "on-demand"}
WHERE: dict[str, Any] = {"name": "x", "launch_id": "f00d", "public_key": "key", "deadline": "2027-01-01T00:00:00+00:00"}
IN_US = ("aws", "us-east-1")


def droplet() -> Plan:
    plain = load.load(load.find("h100-train")).dump()
    changes: dict[str, Any] = {"places": [DROPLET], "gpu": {"model": "h100"}, "disks": {"root": {"size_gb": 200}}}
    limits = {**plain["limits"], "unknown_price": "allow"}
    profile = Profile.model_validate({**plain, **changes, "limits": limits})
    return plan(profile, build(profile, TODAY))


def with_signed_modules(place: dict[str, Any]) -> Plan:
    profile = signed.asked(place, driver_build="signed")
    return plan(profile, build(profile, TODAY))


# --- orders -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "changes"),
    [
        ({}, {}),
        ({"begins_early": False}, {"downloads": None}),
        ({"baked": "ami-f00d"}, {"baked": "ami-f00d", "downloads": None}),
        ({"host_key": "a key"}, {}),  # AWS has a channel to read the machine's own over
    ],
)
def test_an_order_has_all_of_its_place_and_of_its_attempt(given: dict[str, Any], changes: dict[str, Any]) -> None:
    made = planned({**HERE, "image": {"id": AMI}})
    (place,) = made.places
    tags = {
        "gpuprov:name": "x",
        "gpuprov:launch": "f00d",
        "gpuprov:profile": "t4-train",
        "gpuprov:profile-digest": "d" * 64,
        "gpuprov:owner": "gpu-platform@example.com",
        "gpuprov:deadline": WHERE["deadline"],
        "gpuprov:count": "1",
        "gpuprov:first": "1",
    }
    whole = Order(
        "x", "f00d", "g4dn.xlarge", "t4", 1, "on-demand", ("ubuntu", "24.04"), 200, None, True, ("caller",), "key",  # noqa: FBT003 - as they stand
        dt.datetime(2027, 1, 1, tzinfo=dt.UTC), tags, image_id=AMI, place=place.place, downloads=place.downloads,
    )  # fmt: skip
    assert place.downloads is not None
    assert order(made.profile, "d" * 64, place, **WHERE, **given) == replace(whole, **changes)


def test_a_spot_order_has_what_is_left_of_the_limit_of_its_own_region() -> None:
    made = planned({**AWS, "market": "spot"}, unknown="allow")
    limits = [order(made.profile, "", place, **WHERE).spot_limit_usd for place in made.places]
    assert limits == [round(1.0 - 200 * usd / 730 - 0.005, 4) for usd in (0.08, 0.1056)]


def test_only_a_cloud_that_gives_machines_their_first_key_is_told_one() -> None:
    made = droplet()
    assert order(made.profile, "", made.places[0], **WHERE, host_key="a key").host_key == "a key"
    assert draft_order(made.profile, "", "x", made.places[0]).host_key == HOST_KEY


@pytest.mark.parametrize(("place", "starts_with_it"), [(signed.GCP, True), (signed.AWS, False)])
def test_secure_boot_is_on_where_modules_are_signed_and_the_cloud_has_it(place: dict[str, Any], *, starts_with_it: bool) -> None:
    made = with_signed_modules(place)
    assert [each.secure_boot for each in made.places] == [starts_with_it]
    assert draft_order(made.profile, "", "x", made.places[0]).secure_boot is starts_with_it


def test_secure_boot_is_off_where_modules_are_built_on_the_host() -> None:
    assert [place.secure_boot for place in planned(GCP).places] == [False, False]


def test_a_draft_has_the_digest_of_its_profile_and_placeholders_for_the_rest() -> None:
    made = planned(HERE)
    draft = draft_order(made.profile, "d" * 64, "x", made.places[0])
    assert draft.tags["gpuprov:profile-digest"] == "d" * 64
    assert (draft.launch_id, draft.public_key, draft.host_key) == (LAUNCH_ID, PUBLIC_KEY, "")


# --- plans --------------------------------------------------------------------------------------------------------------


def test_a_plan_has_the_tags_of_a_launch_of_one_machine_under_its_name() -> None:
    made = plan(planned(HERE).profile, planned(HERE).lock, "mine")
    assert dict(made.tags) == {
        "gpuprov:name": "mine",
        "gpuprov:launch": LAUNCH_ID,
        "gpuprov:profile": "t4-train",
        "gpuprov:profile-digest": made.profile_sha256,
        "gpuprov:owner": "gpu-platform@example.com",
        "gpuprov:deadline": "<launch + 12 h>",
        "gpuprov:count": "1",
        "gpuprov:first": "1",
    }
    assert made.profile_sha256 == load.digest(made.profile)
    (run,) = (call.parameters for call in made.calls if call.action == "ec2:RunInstances")
    tagged = {tag["Key"]: tag["Value"] for tag in run["TagSpecifications"][0]["Tags"]}
    assert (tagged["gpuprov:name"], tagged["gpuprov:profile-digest"]) == ("mine", made.profile_sha256)
    assert tagged["gpuprov:deadline"] == "<launch + 12 h>"


def test_the_order_of_places_is_by_price_only_where_that_is_asked_for() -> None:
    made = planned(GCP, AWS)
    cheap = plan(made.profile, made.lock, cheapest=True)
    assert (made.cheapest, cheap.cheapest) == (False, True)
    assert [place.region for place in cheap.places] == ["us-east-1", "ap-east-1", "asia-east2", "asia-east2"]
    assert cheap.calls[0].cloud == "gcp"  # a cloud's calls are those of its own first place


def test_the_lines_of_the_profile_stand_in_the_plan_and_in_its_refusals() -> None:
    made = planned(HERE, limit=0.5)
    lines = {"limits.price_per_hour_usd": 42}
    told = plan(made.profile, made.lock, lines=lines)
    assert (made.lines, told.lines) == ({}, lines)
    refusal = told.places[0].refusal
    assert refusal is not None
    assert refusal.message == "0.553 USD/h is over limits.price_per_hour_usd 0.50 (line 42)"


def test_a_plan_for_hosts_that_exist_has_no_disks_and_no_calls() -> None:
    profile = Profile.model_validate({**T4.dump(), "places": []})
    made = plan(profile, build(profile, TODAY))
    assert (made.places, made.disks, made.calls, made.permissions) == ((), (), (), ())


def test_each_place_says_what_its_machines_download_and_what_is_known_of_its_image() -> None:
    made = planned(HERE)
    known = {"image_name": "ubuntu-24.04", "image_owner": "099720109477"}
    named = made.lock.model_copy(update={"places": tuple(place.model_copy(update=known) for place in made.lock.places)})
    (place,) = plan(made.profile, named).places
    assert place.image_about == "ubuntu-24.04, owner 099720109477"
    assert place.downloads == made.places[0].downloads is not None


def test_where_a_type_is_offered_elsewhere_depends_on_its_gpus() -> None:
    place = planned({**GCP, "zones": ["asia-east2-a"]}).places[0]
    with_t4 = set(clouds.provider("gcp").offered_in("n1-standard-8", "t4"))
    assert set(place.elsewhere) == with_t4 - {"asia-east2"} != set()
    with_v100 = planned({**GCP, "gpu": "v100", "gpu_count": 8, "zones": ["us-west1-a"]}, limit=100, gpu=V100).places[0]
    assert set(with_v100.elsewhere) != set(place.elsewhere)


def test_a_price_that_is_not_told_in_advance_is_accepted_by_a_key_of_the_profile() -> None:
    """The hint of each refusal for an unknown price names the key."""
    block = planned({**HERE, "capacity": {"block": "cr-0123456789abcdef0"}}).places[0].refusal
    assert block is not None
    assert "`unknown_price: allow`" in block.hint


# --- limits -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("most", "count", "allowed"), [(None, 1000, True), (4, 3, True), (4, 4, True), (4, 5, False), (1, 2, False)])
def test_no_launch_has_more_machines_than_the_profile_allows(most: int | None, count: int, *, allowed: bool) -> None:
    limits = {**T4.dump()["limits"], **({} if most is None else {"machines": most})}
    profile = Profile.model_validate({**T4.dump(), "limits": limits})
    if allowed:
        check_machines(profile, count)
        return
    with pytest.raises(UsageError) as caught:
        check_machines(profile, count)
    assert f"is {most}, and " in caught.value.message
    assert f"and {count} are asked for" in caught.value.message
    assert "reviewed and signed again" in caught.value.hint


def nowhere(made: Plan, only: str | None = None) -> GpuprovError:
    with pytest.raises(GpuprovError) as caught:
        check_any(made, options(made, only))
    return caught.value


def test_where_every_place_is_refused_the_price_is_the_reason_before_the_catalogue() -> None:
    over = nowhere(planned(HERE, GCP, limit=0.5))
    assert type(over) is PriceOverLimitError
    assert over.hint.startswith("nearest edit: limits.price_per_hour_usd: 0.56: ")
    unknown = nowhere(planned({**HERE, "market": "spot"}))
    assert type(unknown) is PriceUnknownError
    assert "`unknown_price: allow`" in unknown.hint
    both = nowhere(planned({**HERE, "market": "spot"}, GCP, limit=0.5))
    assert type(both) is PriceOverLimitError
    made = planned(HERE)
    gone = made.lock.model_copy(update={"places": tuple(p.model_copy(update={"not_available": "withdrawn"}) for p in made.lock.places)})
    lost = nowhere(plan(made.profile, gone))
    assert type(lost) is CloudUnsupportedError
    assert "us-east-1 g4dn.xlarge: withdrawn" in lost.message
    assert "edit" not in lost.hint


def test_the_nearest_edit_is_one_for_the_cloud_that_counts() -> None:
    made = planned(HERE, GCP, limit=0.5)
    assert "places.1" not in nowhere(made, "aws").hint
    assert nowhere(made, "gcp").hint.startswith("nearest edit: limits.price_per_hour_usd: 0.97: ")
    assert "places.0" not in nowhere(made, "gcp").hint


def test_one_place_that_can_be_used_is_enough() -> None:
    made = planned(HERE, GCP, limit=0.6)
    check_any(made, options(made))


# --- records ------------------------------------------------------------------------------------------------------------


def ensured(launcher: Launcher, made: Plan, **more: Any) -> LaunchRequest:
    request = LaunchRequest(made, "key", **more)
    launcher.ensure(request)
    return request


def test_the_record_of_a_launch_has_all_that_a_later_command_needs(memory: Memory, launcher: Launcher) -> None:
    made = planned(HERE)
    memory[IN_US].launches = [[machine("t4-train-1", group="t4-train"), machine("t4-train-2", group="t4-train")]]
    ensured(launcher, made, count=3, minimum=2)
    record = launcher.journal.get("t4-train")
    assert record is not None
    assert (record.profile, record.lock, record.profile_digest) == (made.profile.dump(), made.lock.as_dict(), made.profile_sha256)
    assert (record.name, record.rehearsal, record.count, record.minimum, record.host_key) == ("t4-train", False, 3, 2, "")
    assert (len(record.launch_id), int(record.launch_id, 16) >= 0) == (32, True)
    assert dt.datetime.fromisoformat(record.created_at).microsecond == 0


def test_only_a_launch_whose_cloud_gives_machines_their_first_key_has_one(memory: Memory, launcher: Launcher) -> None:
    made = droplet()
    memory["digitalocean", "nyc2"].launches = [[machine("h100-train", cloud="digitalocean", region="nyc2")]]
    ensured(launcher, made)
    record = launcher.journal.get("h100-train")
    assert record is not None
    assert record.host_key.startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    (asked,) = (what for method, what in memory["digitalocean", "nyc2"].asked if method == "launch")
    assert asked.host_key == record.host_key


def test_only_the_cloud_that_was_asked_for_is_asked(memory: Memory, launcher: Launcher) -> None:
    memory["gcp", "asia-east2"].launches = [[machine("t4-train", cloud="gcp", region="asia-east2")]]
    ensured(launcher, planned(HERE, GCP), only="gcp")
    assert list(memory) == [("gcp", "asia-east2")]


def test_where_the_record_is_lost_the_machine_tells_when_the_launch_began_and_ends(memory: Memory, launcher: Launcher) -> None:
    made = planned(HERE)
    memory[IN_US].launches = [[machine("t4-train", profile_digest=made.profile_sha256)]]
    ensured(launcher, made)
    before = launcher.journal.get("t4-train")
    assert before is not None
    launcher.journal.drop("t4-train")
    ours = machine("t4-train", launch_id=before.launch_id, profile_digest=made.profile_sha256)
    memory[IN_US].machines = [ours]
    ensured(launcher, made)
    record = launcher.journal.get("t4-train")
    assert record is not None
    assert (record.launch_id, record.created_at, record.deadline) == (before.launch_id, ours.launched_at, ours.deadline)


@pytest.mark.parametrize(
    ("changes", "count", "said"), [({"profile_digest": "e" * 64}, 1, "another"), ({"count": 2}, 1, "--count 2, not 1")]
)
def test_a_launch_of_another_profile_or_number_is_refused_under_its_name(
    memory: Memory, launcher: Launcher, changes: dict[str, Any], count: int, said: str
) -> None:
    made = planned(HERE)
    memory[IN_US].launches = [[machine("t4-train", profile_digest=made.profile_sha256)]]
    ensured(launcher, made)
    record = launcher.journal.get("t4-train")
    assert record is not None
    plain = {"launch_id": record.launch_id, "profile_digest": made.profile_sha256}
    memory[IN_US].machines = [machine("t4-train", **{**plain, **changes})]
    with pytest.raises(ProfileMismatchError) as caught:
        ensured(launcher, made, count=count)
    assert "'t4-train' exists" in caught.value.message
    assert said in caught.value.message
    assert "`gpuprov down t4-train`" in caught.value.hint
