"""What follows from a profile before a cloud is contacted: above all which places the limits of money allow."""

from __future__ import annotations

import datetime as dt
import functools
import json
from typing import Any

import pytest

from provision import clouds
from provision.clouds.terms import RefusalKind
from provision.errors import LockInvalidError, UsageError
from provision.launch.journal import Record
from provision.launch.place import check_has_places
from provision.launch.plan import LAUNCH_ID, PUBLIC_KEY, Plan, PlannedDisk, PlannedDoor, draft_order, order, plan
from provision.launch.regions import regions_of
from provision.profile import load
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.profile.model import Profile
from tests.launch.conftest import TODAY

T4 = load.load(load.find("t4-train"))
AWS = {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": ["us-east-1", "ap-east-1"]}  # 0.526 and 0.81 USD alone
GCP = {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "gpu_count": 1, "zones": ["asia-east2-a", "asia-east2-c"]}  # 0.881688

V100 = {"model": "v100", "count": 8, "counters": "all-users", "persistence": True}
L4 = {**V100, "model": "l4", "count": 1}


@functools.cache
def locked(text: str) -> tuple[Profile, Lock]:
    profile = Profile.model_validate({**T4.dump(), **json.loads(text)})
    return profile, build(profile, TODAY)


def planned(*places: dict[str, Any], limit: float = 1.0, unknown: str = "refuse", **changes: Any) -> Plan:
    limits = {"price_per_hour_usd": limit, "deadline_h": 12, "unknown_price": unknown}
    return plan(*locked(json.dumps({"places": list(places) or [AWS], "limits": limits, **changes})))


def kinds(made: Plan) -> list[RefusalKind | None]:
    return [place.refusal.kind if place.refusal else None for place in made.places]


def test_a_lock_that_lost_a_place_of_its_profile_is_no_lock() -> None:
    profile, lock = locked(json.dumps({"places": [AWS]}))
    with pytest.raises(LockInvalidError, match="has no place aws") as caught:
        plan(profile, lock.model_copy(update={"places": lock.places[1:]}))
    assert "gpuprov lock" in caught.value.hint


def test_two_places_that_differ_in_a_key_of_their_cloud_alone_are_two_places() -> None:
    here = {**AWS, "regions": ["us-east-1"]}
    made = planned({**here, "image": {"id": "ami-0123456789abcdef0"}}, here)
    assert [place.image_id for place in made.places] == ["ami-0123456789abcdef0", None]


# --- the price limit: a ceiling for one whole machine at every place (docs/using/first-machine.md) ----------------------


OVER = RefusalKind.OVER_LIMIT


def test_what_has_no_list_price_is_not_held_to_a_limit_by_the_list() -> None:
    block = {**AWS, "regions": ["us-east-1"], "capacity": {"block": "cr-0123456789abcdef0"}}
    flexible = {**GCP, "instance_type": "g2-standard-4", "gpu": "l4", "market": "flex-start", "zones": ["asia-east1-a"]}
    made = planned(block)
    assert [place.price for place in made.places] == [None]
    assert kinds(made) == kinds(planned(flexible, gpu=L4)) == [RefusalKind.PRICE_UNKNOWN]
    assert "paid for in advance" in str(made.places[0].refusal)
    assert kinds(planned(block, unknown="allow")) == kinds(planned(flexible, gpu=L4, unknown="allow")) == [None]


@pytest.mark.parametrize(
    ("limit", "refused"),
    [
        (0.526, [OVER, OVER, OVER, OVER]),  # the machine alone is within it, its disks and its address are not
        (0.552917, [OVER, OVER, OVER, OVER]),
        (0.552918, [None, OVER, OVER, OVER]),  # the limit itself is within it
        (0.843932, [None, None, OVER, OVER]),
        (0.962029, [None, None, OVER, OVER]),
        (0.96203, [None, None, None, None]),
    ],
)
def test_every_place_is_held_to_the_limit_and_the_limit_itself_is_within_it(limit: float, refused: list[RefusalKind | None]) -> None:
    assert kinds(planned(AWS, GCP, limit=limit)) == refused


def test_the_refusal_says_price_and_limit_and_what_to_do() -> None:
    refusal = planned(limit=0.5).places[0].refusal
    assert refusal is not None
    assert refusal.message == "0.553 USD/h is over limits.price_per_hour_usd 0.50"
    assert refusal.hint == "raise limits.price_per_hour_usd, or remove the place"


def test_all_parts_of_a_machine_count_and_those_of_one_machine_only() -> None:
    """Two GPUs of an N1 machine are two prices; two machines of a launch are not."""
    two = {**GCP, "gpu_count": 2}
    (place, *_) = planned(two, limit=2.0, gpu={**T4.dump()["gpu"], "count": 2}).places
    assert place.whole_price_usd == round(0.96203 + 0.35, 6)
    assert kinds(planned(two, limit=1.23, gpu={**T4.dump()["gpu"], "count": 2})) == [OVER, OVER]


def test_the_price_of_spot_is_not_known_and_refused_unless_the_profile_accepts_it() -> None:
    spot = {**AWS, "market": "spot"}
    first = planned(spot).places[0]
    assert first.price is None
    assert first.refusal is not None
    assert first.refusal.kind is RefusalKind.PRICE_UNKNOWN
    assert first.refusal.message == "the price of spot machines changes by the hour, so the limit cannot be kept"
    assert first.refusal.hint == "`unknown_price: allow` under limits accepts an unknown price"
    assert kinds(planned(spot, unknown="allow")) == [None, None]


@pytest.fixture
def without_n1(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog in which the GPUs of N1 alone have a price, 0.35 USD."""
    provider = clouds.provider("gcp")
    real = provider.price

    def price(instance_type: str, region: str, gpu: str, count: int) -> Any:
        whole = real(instance_type, region, gpu, count)
        return type(whole)(whole.parts[:1], missing=("vCPUs", "memory")) if whole else None

    monkeypatch.setattr(provider, "price", price)


@pytest.mark.usefixtures("without_n1")
def test_a_price_that_is_known_in_part_can_break_the_limit_and_cannot_keep_it() -> None:
    over = planned(GCP, limit=0.3).places[0].refusal
    assert over is not None
    assert (over.kind, over.message) == (OVER, "at least 0.430 USD/h is over limits.price_per_hour_usd 0.30")
    unknown = planned(GCP).places[0].refusal
    assert unknown is not None
    assert unknown.kind is RefusalKind.PRICE_UNKNOWN
    assert unknown.message == "the price of its vCPUs and memory is not in the catalog, so the limit cannot be kept"
    assert unknown.hint.endswith("; `unknown_price: allow` under limits accepts an unknown price")
    assert unknown.hint.startswith("`gpuprov catalog refresh --only gcp-prices`")
    assert kinds(planned(GCP, unknown="allow")) == [None, None]
    assert kinds(planned(GCP, limit=0.3, unknown="allow")) == [OVER, OVER]  # what is known is over already
    assert planned(GCP, unknown="allow").ceiling.to_deadline is None


def test_a_place_without_any_price_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clouds.provider("aws"), "price", lambda *_: None)
    refusal = planned().places[0].refusal
    assert refusal is not None
    assert (refusal.kind, refusal.message) == (
        RefusalKind.PRICE_UNKNOWN,
        "its price is not in the catalog, so the limit cannot be kept",
    )
    assert kinds(planned(unknown="allow")) == [None, None]
    assert planned(unknown="allow").ceiling.unknown_places == 2


def test_the_lock_s_refusal_comes_before_the_price() -> None:
    profile, lock = locked(json.dumps({"places": [AWS]}))
    first, *others = lock.places
    gone = lock.model_copy(update={"places": (first.model_copy(update={"not_available": "withdrawn"}), *others)})
    made = plan(profile, gone)
    assert kinds(made) == [RefusalKind.LOCKED, None]
    assert str(made.places[0].refusal) == "withdrawn"
    assert made.candidates == [made.places[1]]
    assert [call.action for call in made.calls][-1] == "ec2:GetConsoleOutput"  # of the first place that would be tried


def test_the_ceiling_is_the_limit_until_the_deadline() -> None:
    ceiling = planned(AWS, limit=0.7).ceiling
    assert (ceiling.limit_per_hour, ceiling.limit_to_deadline, ceiling.to_deadline) == (0.7, 8.4, 8.4)
    assert (ceiling.lowest_per_hour, ceiling.highest_per_hour, ceiling.unknown_places) == (0.552918, 0.552918, 0)
    both = planned(AWS, GCP).ceiling
    assert (both.lowest_per_hour, both.highest_per_hour) == (0.552918, 0.96203)
    nothing = planned(AWS, limit=0.1).ceiling
    assert (nothing.to_deadline, nothing.lowest_per_hour, nothing.highest_per_hour) == (None, None, None)
    mixed = planned({**AWS, "market": "spot"}, GCP, unknown="allow").ceiling
    assert (mixed.to_deadline, mixed.unknown_places) == (None, 2)
    assert planned(limit=0.333).ceiling.limit_to_deadline == 4.0


# --- places and orders --------------------------------------------------------------------------------------------------


def test_places_stand_in_the_profile_s_order_and_zones_only_where_a_cloud_has_them() -> None:
    made = planned(GCP, AWS)
    rows = [(p.index, p.location, p.region, p.zone, p.opt_in, str(p)) for p in made.places]
    assert rows == [
        (0, "asia-east2-a", "asia-east2", "asia-east2-a", False, "n1-standard-8 in asia-east2 (on-demand)"),
        (0, "asia-east2-c", "asia-east2", "asia-east2-c", False, "n1-standard-8 in asia-east2 (on-demand)"),
        (1, "us-east-1", "us-east-1", "", False, "g4dn.xlarge in us-east-1 (on-demand)"),
        (1, "ap-east-1", "ap-east-1", "", True, "g4dn.xlarge in ap-east-1 (on-demand)"),
    ]
    assert "us-east-1" not in made.places[2].elsewhere
    assert "ap-east-1" in made.places[2].elsewhere
    assert (made.places[2].image_id, made.places[2].image[:13]) == (None, "/aws/service/")


def test_an_order_has_what_the_profile_says() -> None:
    made = planned(AWS, disks={"root": {"size_gb": 150}, "data": {"source": "volume", "size_gb": 500, "mount": "/data"}})
    asked = order(
        made.profile, "f" * 64, made.places[0], name="x", launch_id="f00d", public_key="key", deadline="2027-01-01T00:00:00+00:00",
        zone="us-east-1b", first=2, count=3, minimum=1, whole_count=4,
    )  # fmt: skip
    assert (asked.name, asked.launch_id, asked.public_key, asked.zone) == ("x", "f00d", "key", "us-east-1b")
    assert (asked.instance_type, asked.gpu, asked.gpu_count, asked.market, asked.os) == (
        "g4dn.xlarge", "t4", 1, "on-demand", ("ubuntu", "24.04"),
    )  # fmt: skip
    assert (asked.root_gb, asked.volume_gb, asked.instance_store) == (150, 500, False)
    assert (asked.ssh_from, asked.subnet, asked.public_address, asked.image_id) == (("caller",), "", True, None)
    assert (asked.first, asked.count, asked.minimum) == (2, 3, 1)
    assert asked.deadline == dt.datetime(2027, 1, 1, tzinfo=dt.UTC)
    assert asked.tags == {
        "gpuprov:name": "x",
        "gpuprov:launch": "f00d",
        "gpuprov:profile": "t4-train",
        "gpuprov:profile-digest": "f" * 64,
        "gpuprov:owner": "gpu-platform@example.com",
        "gpuprov:deadline": "2027-01-01T00:00:00+00:00",
        "gpuprov:count": "4",
        "gpuprov:first": "2",
    }


def test_an_order_has_one_machine_unless_more_are_asked_for() -> None:
    made = planned(GCP)
    first = draft_order(made.profile, "f" * 64, "x", made.places[0])
    assert (first.first, first.count, first.minimum, first.tags["gpuprov:count"]) == (1, 1, 1, "1")
    assert (first.launch_id, first.public_key, first.zone) == (LAUNCH_ID, PUBLIC_KEY, "asia-east2-a")
    assert (first.volume_gb, first.instance_store) == (None, True)
    bare = planned(GCP, disks={"root": {"size_gb": 150}})
    without = draft_order(bare.profile, "f" * 64, "x", bare.places[0])
    assert (without.volume_gb, without.instance_store) == (None, False)


def test_the_subnet_is_the_user_s_and_the_embedded_cloud_has_none_of_it() -> None:
    network = {"address": "private", "subnet": "subnet-0123456789abcdef0", "jump": "bastion", "ssh_from": ["10.0.0.4/32"]}
    made = planned({**AWS, "regions": ["us-east-1"]}, network=network)
    where: dict[str, Any] = {"name": "x", "launch_id": "f", "public_key": "k", "deadline": "2027-01-01T00:00:00+00:00"}
    own = order(made.profile, "", made.places[0], **where)
    assert (own.subnet, own.public_address) == ("subnet-0123456789abcdef0", False)
    assert order(made.profile, "", made.places[0], **where, own_subnet=False).subnet == ""


# --- what the reviewers read --------------------------------------------------------------------------------------------


def test_the_plan_tells_disks_doors_and_what_is_given_up() -> None:
    made = planned(AWS, disks={"root": {"size_gb": 150}, "data": {"source": "volume", "size_gb": 500, "mount": "/data"}})
    assert made.disks == (PlannedDisk("root", 150, "/", ""), PlannedDisk("volume", 500, "/data", "ext4"))
    assert made.doors == (PlannedDoor("caller", "caller"),)
    assert made.sacrifices == ("counters-open",)
    closed = planned(AWS, gpu={**T4.dump()["gpu"], "counters": "admin-only"}, network={"ssh_from": ["192.0.2.0/24"]})
    assert closed.sacrifices == ()
    assert closed.doors == (PlannedDoor("network", "192.0.2.0/24"),)
    through = planned(GCP, network={"via": "iap"})
    assert [(door.kind, door.network, door.way and door.way.name) for door in through.doors] == [("way", "35.235.240.0/20", "iap")]
    assert "iap.tunnelInstances.accessViaIAP" in through.permissions[0].actions
    assert [cloud for cloud, _ in planned(GCP, AWS).safeguards] == ["gcp"] * 4 + ["aws"] * 3
    acting = {**AWS, "identity": {"instance_profile": "gpu-node"}}
    assert "no instance role" not in [guard.summary for _, guard in planned(acting, AWS, GCP).safeguards]
    assert "no service account" in [guard.summary for _, guard in planned(acting, AWS, GCP).safeguards]
    assert made.name == "t4-train"
    assert plan(made.profile, made.lock, "mine").name == "mine"


def test_the_permissions_are_those_of_every_place_of_a_cloud() -> None:
    made = planned(AWS, {**AWS, "market": "spot", "instance_type": "g4dn.2xlarge"}, GCP, unknown="allow")
    aws, gcp = made.permissions
    assert (aws.cloud, gcp.cloud) == ("aws", "gcp")
    assert "ec2:CancelSpotInstanceRequests" in aws.actions
    assert "ec2:CancelSpotInstanceRequests" not in planned(AWS).permissions[0].actions
    assert list(aws.actions) == sorted(set(aws.actions))
    text = json.dumps(aws.document)
    assert all(word in text for word in ("g4dn.xlarge", "g4dn.2xlarge", "us-east-1", "ap-east-1"))
    assert gcp.document is None


def test_the_deadline_stands_in_words_in_every_call_and_tag() -> None:
    """In hours: a plan that meant days would be signed."""
    made = planned(AWS, GCP)
    tags = dict(made.tags)
    assert tags["gpuprov:deadline"] == "<launch + 12 h>"
    text = {call.action: json.dumps(call.parameters) for call in made.calls}
    assert "OnCalendar=<launch + 12 h>\\\\n" in text["ec2:RunInstances"]
    assert '"termination_time": "<launch + 12 h>"' in text["compute.instances.insert"]
    assert "OnCalendar=<launch + 12 h and 10 min>" in text["compute.instances.insert"]
    assert not [action for action, sent in text.items() if "2000-01-01" in sent]
    assert [call.cloud for call in made.calls if call.action.endswith(("RunInstances", "insert"))] == ["aws", "gcp", "gcp", "gcp"]


def test_images_that_the_catalog_lacks_are_named_by_region() -> None:
    gaps = planned(AWS, GCP).image_gaps
    assert gaps == {"", *(f"aws {r}: the image id; `gpuprov catalog refresh --only aws` finds it" for r in AWS["regions"])}


def test_machine_types_that_were_withdrawn_are_told_by_cloud() -> None:
    made = planned({"cloud": "aws", "instance_type": "p3dn.24xlarge", "regions": ["us-east-1"]}, limit=100, gpu=V100)
    assert {(cloud, kind) for cloud, kind, _ in made.withdrawn} >= {("aws", "p3.2xlarge")}
    assert planned().withdrawn == ()


# --- where a launch can be ----------------------------------------------------------------------------------------------


def test_a_profile_without_places_is_for_hosts_that_exist() -> None:
    check_has_places(T4)
    with pytest.raises(UsageError) as caught:
        check_has_places(T4.model_copy(update={"places": []}))
    assert caught.value.message == "profile t4-train has no places, so nothing can be launched from it: it is for hosts that exist"
    both = ("`gpuprov apply HOST --profile t4-train` sets up a host", "`gpuprov verify HOST --profile t4-train` checks one")
    assert caught.value.hint == ", ".join(both)


def test_our_things_can_be_in_the_regions_of_the_profiles_and_of_the_journal_at_clouds_that_are_known() -> None:
    places = {("aws", "ap-east-1"), ("aws", "ap-southeast-1"), ("gcp", "asia-east2")}
    elsewhere = (("aws", "eu-west-1"), ("azure", "westeurope"))
    record = Record("train", "f00d", False, {}, "0" * 64, "", "", touched=elsewhere)  # noqa: FBT003 - as it is read
    assert regions_of([T4], []) == places
    assert regions_of([T4], [record]) == places | {("aws", "eu-west-1")}
    assert regions_of([], [record]) == {("aws", "eu-west-1")}
