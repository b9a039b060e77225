"""What a place on GCP may say about its capacity, what the request says then, and what a reader is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from provision.clouds.gcp import provider
from provision.clouds.gcp.place import GcpPlace
from provision.clouds.gcp.requests import bulk, instance
from provision.errors import ProfileInvalidError
from provision.profile import load
from tests.clouds.gcp.orders import order

SHIPPED = Path(__file__).parents[3] / "profiles"


def place(*, market: str = "on-demand", zones: tuple[str, ...] = ("asia-east2-a",), **capacity: Any) -> GcpPlace:
    plain = {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "zones": zones, "market": market, "capacity": capacity or None}
    return GcpPlace.model_validate(plain)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"placement_policy": None}, "says nothing"),
        ({"reservation": "ours", "zones": ("asia-east2-a", "asia-east2-c")}, "belongs to one zone"),
        ({"placement_policy": "close", "zones": ("asia-east2-a", "asia-east1-a")}, "belongs to one region"),
        ({"reservation": "ours", "market": "spot"}, "paid for on demand"),
        ({"reservation": "ours", "market": "flex-start"}, "paid for on demand"),
        ({"reservation": "Ours/../x"}, "should match pattern"),
    ],
)
def test_what_cannot_be_is_refused(said: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        place(**said)


def test_a_place_without_it_is_dumped_as_before_it_existed() -> None:
    assert "capacity" not in place().model_dump(mode="json")
    assert place(reservation="ours").model_dump(mode="json")["capacity"]["reservation"] == "ours"


def test_the_request_names_the_reservation_and_the_policy() -> None:
    made = instance(order(place=place(reservation="ours", placement_policy="close")), "m")
    assert made["reservation_affinity"]["values"] == ["ours"]
    assert made["reservation_affinity"]["consume_reservation_type"] == "SPECIFIC_RESERVATION"
    assert made["resource_policies"] == ["regions/asia-east2/resourcePolicies/close"]
    assert made["scheduling"]["provisioning_model"] == "STANDARD"
    plain = instance(order(place=place()), "m")
    assert {"reservation_affinity", "resource_policies"} & plain.keys() == set()


def test_a_flex_start_machine_uses_no_reservation_and_is_not_restarted() -> None:
    properties = bulk(order(market="flex-start", place=place(market="flex-start")), ["m"], "asia-east2", [])["instance_properties"]
    assert properties["reservation_affinity"] == {"consume_reservation_type": "NO_RESERVATION"}
    scheduling = properties["scheduling"]
    assert (scheduling["provisioning_model"], scheduling["automatic_restart"]) == ("FLEX_START", False)
    assert provider.quota("n1-standard-8", "t4", "flex-start") == "PREEMPTIBLE_NVIDIA_T4_GPUS"
    assert instance(order(market="flex-start"), "m")["params"] == {"request_valid_for_duration": {"seconds": 1800}}
    assert "params" not in instance(order(market="spot"), "m")


@pytest.mark.parametrize(
    ("instance_type", "gpu", "count", "sold"),
    [
        ("n1-standard-8", "t4", 1, False),
        ("g4-standard-48", "rtx-pro-6000", 1, False),
        ("g2-standard-4", "l4", 1, True),
        ("a3-highgpu-1g", "h100", 1, True),
    ],
)
def test_only_types_with_their_gpus_built_in_are_flex_start(instance_type: str, gpu: str, count: int, sold: bool) -> None:  # noqa: FBT001
    given = {"cloud": "gcp", "instance_type": instance_type, "gpu": gpu, "gpu_count": count, "market": "flex-start"}
    zone = next(zone for zones in provider.offered_in(instance_type, gpu).values() for zone in zones)
    refusal = provider.refusal(GcpPlace.model_validate({**given, "zones": [zone]}), zone, gpu, count)
    assert (refusal is None) is sold, refusal
    assert refusal is None or "flex-start: GCP sells so the types whose GPUs are built in" in str(refusal)


def test_a_flex_start_machine_runs_for_seven_days_at_most(tmp_path: Path) -> None:
    data = yaml.safe_load((SHIPPED / "t4-train.yml").read_text())
    data["places"] = [{**data["places"][1], "market": "flex-start"}]
    path = tmp_path / "flex.yml"
    for hours, holds in ((168, True), (169, False)):
        data["limits"]["deadline_h"] = hours
        path.write_text(yaml.safe_dump({**data, "name": "flex"}))
        if holds:
            assert load.load(path).places[0].market == "flex-start"
        else:
            with pytest.raises(ProfileInvalidError, match="runs for 168 hours at most"):
                load.load(path)


def test_a_reader_is_told_of_each_and_no_limit_holds_what_has_no_list_price() -> None:
    def told(**said: Any) -> list[tuple[str, str | None, bool]]:
        options = provider.cloud_options(place(**said))
        assert all(option.summary and (option.severity is None or (option.title and option.reason)) for option in options)
        return [(option.key, option.severity, bool(option.unpriced)) for option in options]

    assert told() == []
    assert told(market="flex-start") == [("market", "note", True)]
    assert told(reservation="ours", placement_policy="close") == [("capacity", "note", False), ("capacity", None, False)]
