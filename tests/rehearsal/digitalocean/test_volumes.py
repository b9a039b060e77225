"""Volumes: made, attached, found, deleted."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.rehearsal.digitalocean.conftest import CPU, REGION, Ocean, fresh


def make(ocean: Ocean, **changes: Any) -> Any:
    return ocean.call("POST", "volumes", {"name": fresh(), "region": REGION, "size_gigabytes": 10, **changes})


def test_a_volume_is_made_and_found_by_name_and_region(ocean: Ocean) -> None:
    name = fresh()
    made = make(ocean, name=name, tags=["a"], filesystem_type="ext4")
    assert made.status == 201
    volume = made.body["volume"]
    assert (volume["size_gigabytes"], volume["region"]["slug"], volume["droplet_ids"], volume["tags"]) == (10, REGION, [], ["a"])
    for where, there in ((f"name={name}", True), (f"name={name}&region={REGION}", True), (f"name={name}&region=nyc2", False)):
        assert [v["id"] for v in ocean.get(f"volumes?{where}")["volumes"]] == ([volume["id"]] if there else [])
    assert make(ocean, name=name).status == 409
    assert make(ocean, name=name, region="nyc2").status == 201
    assert ocean.call("DELETE", f"volumes/{volume['id']}").status == 204
    assert ocean.call("GET", f"volumes/{volume['id']}").status == 404


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"name": "Data"}, 422),
        ({"name": "1data"}, 422),
        ({"size_gigabytes": 0}, 422),
        ({"size_gigabytes": 16_385}, 422),
        ({"size_gigabytes": 16_384}, 201),
        ({"region": "mars1"}, 422),
        ({"snapshot_id": "a"}, 501),
    ],
)
def test_what_cannot_be_is_refused(ocean: Ocean, changes: dict[str, Any], status: int) -> None:
    assert make(ocean, **changes).status == status


def test_no_more_than_the_account_may_have(ocean: Ocean) -> None:
    make(ocean)
    ocean.set(do_volume_limit=1)
    refused = make(ocean)
    assert (refused.status, refused.body["id"]) == (403, "forbidden")
    assert refused.said == "failed to create volume: volume/snapshot capacity limit exceeded"


def test_one_is_attached_when_its_droplet_is_made_and_outlives_it(ocean: Ocean) -> None:
    volume = make(ocean).body["volume"]["id"]
    number = ocean.made(size=CPU, volumes=[volume])
    assert ocean.droplet(number)["volume_ids"] == [volume]
    assert ocean.get(f"volumes/{volume}")["volume"]["droplet_ids"] == [number]
    assert ocean.create(size=CPU, volumes=[volume]).status == 422
    assert ocean.call("DELETE", f"volumes/{volume}").status == 409
    ocean.call("DELETE", f"droplets/{number}")
    assert ocean.get(f"volumes/{volume}")["volume"]["droplet_ids"] == []
    assert ocean.call("DELETE", f"volumes/{volume}").status == 204


def test_one_volume_is_for_one_droplet_of_its_region(ocean: Ocean) -> None:
    volume = make(ocean).body["volume"]["id"]
    request = ocean.wanted(size=CPU, volumes=[volume])
    del request["name"]
    assert ocean.call("POST", "droplets", {**request, "names": [fresh(), fresh()]}).status == 422
    assert ocean.create(size=CPU, region="fra1", volumes=[volume]).status == 422


def test_attach_and_detach(ocean: Ocean) -> None:
    volume, number = make(ocean).body["volume"]["id"], ocean.made(size=CPU)

    def act(kind: str, droplet: int = number) -> Any:
        reply = ocean.call("POST", f"volumes/{volume}/actions", {"type": kind, "droplet_id": droplet, "region": REGION})
        deadline = time.monotonic() + 60
        while ocean.row(number)["busy"]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return reply

    assert act("detach").status == 422
    reply = act("attach")
    assert (reply.status, reply.body["action"]["type"]) == (202, "attach_volume")
    assert ocean.droplet(number)["volume_ids"] == [volume]
    assert act("attach").status == 422
    assert act("detach").status == 202
    assert ocean.droplet(number)["volume_ids"] == []
    assert act("attach", droplet=1).status == 404
    assert act("attach", droplet=ocean.made(size=CPU, region="fra1")).status == 422
    resized = ocean.call("POST", f"volumes/{volume}/actions", {"type": "resize", "size_gigabytes": 20})
    assert resized.status == 501
