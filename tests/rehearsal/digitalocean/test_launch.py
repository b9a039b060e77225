"""How droplets come, and which ones are refused."""

from __future__ import annotations

import time
from typing import Any

import pytest

from provision.rehearsal.digitalocean.settings import DigitaloceanSettings
from provision.rehearsal.digitalocean.world import DropletWorld
from tests.rehearsal.digitalocean.conftest import CPU, GPU, IMAGE, KEY, REGION, Ocean, fresh
from tests.waiting import until


def test_it_is_accepted_then_new_then_active_and_has_addresses(ocean: Ocean) -> None:
    ocean.set(do_active_s=0.6)
    reply = ocean.create(tags=["a:b"], with_droplet_agent=False)
    assert reply.status == 202
    made = reply.body["droplet"]
    assert (made["status"], made["networks"]) == ("new", {"v4": [], "v6": []})
    action = reply.body["links"]["actions"][0]
    assert (action["rel"], ocean.get(action["href"])["action"]["status"]) == ("create", "in-progress")
    active = ocean.until(made["id"], "active")
    assert ocean.get(f"actions/{action['id']}")["action"]["status"] == "completed"
    private, public = active["networks"]["v4"]
    assert (private["type"], public["type"]) == ("private", "public")
    assert private["ip_address"].startswith("10.")
    assert (active["size_slug"], active["region"]["slug"], active["tags"]) == (GPU, REGION, ["a:b"])
    assert active["gpu_info"] == {"count": 1, "model": "nvidia_h100", "vram": {"amount": 80, "unit": "gib"}}
    assert "droplet_agent" not in active["features"]
    assert "droplet_agent" in ocean.droplet(ocean.made())["features"]  # unless it is said


def test_one_may_never_become_active(ocean: Ocean) -> None:
    ocean.set(do_active_s=None)
    number = ocean.create().body["droplet"]["id"]
    ocean.set(do_active_s=0.0)
    later = ocean.made()
    assert ocean.droplet(number)["status"] == "new"
    assert ocean.droplet(later)["status"] == "active"


def test_names_repeat(ocean: Ocean) -> None:
    name = fresh()
    assert ocean.made(name) != ocean.made(name)
    assert ocean.names(f"type=gpus&name={name}") == [name, name]


def test_up_to_ten_are_made_by_one_call(ocean: Ocean) -> None:
    request = ocean.wanted()
    del request["name"]
    prefix = fresh()
    reply = ocean.call("POST", "droplets", {**request, "names": [f"{prefix}-{n}" for n in range(10)]})
    assert reply.status == 202
    assert len({d["id"] for d in reply.body["droplets"]}) == len(reply.body["links"]["actions"]) == 10
    refused = ocean.call("POST", "droplets", {**request, "names": [f"{prefix}-x{n}" for n in range(11)]})
    assert refused.status == 422
    assert [name for name in ocean.names() if name.startswith(f"{prefix}-x")] == []


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"size": "gpu-a100x1-80gb"}, "invalid size"),
        ({"region": "mars1"}, "invalid region"),
        ({"region": "fra1"}, "Size is not available in this region."),
        ({"image": "ubuntu-10-04"}, "invalid image"),
        ({"image": 1}, "invalid image"),
        ({"size": "nope", "image": "nope", "ssh_keys": [1]}, "invalid size"),
        ({"image": "nope", "ssh_keys": [1]}, "invalid image"),
        ({"image": "gpu-h100x1-base"}, "SSH key"),
        ({"ssh_keys": [1]}, "1 are invalid key identifiers for Droplet creation."),
        ({"vpc_uuid": "0f8fad5b-d9cb-469f-a165-70867728950e"}, "VPC"),
        ({"volumes": ["0f8fad5b-d9cb-469f-a165-70867728950e"]}, "Volume"),
        ({"user_data": "a" * (64 * 1024 + 1)}, "64 KiB"),
        ({"tags": ["a@b"]}, "a@b"),
        ({"tags": ["a" * 256]}, "255"),
        ({"public_networking": False, "ipv6": True}, "ipv6"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_made(ocean: Ocean, more: dict[str, Any], says: str) -> None:
    name = fresh()
    reply = ocean.create(name, **more)
    assert (reply.status, reply.body["id"]) == (422, "unprocessable_entity")
    assert says in reply.said
    assert ocean.names(f"type=gpus&name={name}") == []


def test_a_name_is_a_host_name(ocean: Ocean) -> None:
    reply = ocean.create("my_droplet")
    assert (reply.status, reply.said) == (422, "Only valid hostname characters are allowed. (a-z, A-Z, 0-9, . and -)")


def test_an_image_of_another_region_is_refused_as_such(ocean: Ocean) -> None:
    ocean.set(do_images=[{"id": 99, "name": "mine", "distribution": "Ubuntu", "regions": ["nyc2"]}])
    reply = ocean.create(image=99)
    assert reply.status == 422
    assert reply.said.startswith("The image you specified is not available in the selected region")


def test_a_droplet_has_no_kernel_of_digitaloceans_and_an_ipv6_address_where_it_is_asked_for(ocean: Ocean) -> None:
    number = ocean.made(ipv6=True)
    shown = ocean.droplet(number)
    assert shown["kernel"] is None
    (v6,) = shown["networks"]["v6"]
    assert (v6["netmask"], v6["type"]) == (64, "public")
    assert ocean.droplet(ocean.made())["networks"]["v6"] == []


@pytest.mark.parametrize("ends", ["errored", "gone", "new"])
def test_a_create_may_fail_after_it_was_accepted(ocean: Ocean, ends: str) -> None:
    ocean.set(do_create_ends={REGION: ends})
    reply = ocean.create()
    assert reply.status == 202
    number, action = reply.body["droplet"]["id"], reply.body["links"]["actions"][0]["id"]
    if ends != "new":
        until(lambda: ocean.get(f"actions/{action}")["action"]["status"] == "errored")
    assert ocean.call("GET", f"droplets/{number}").status == (404 if ends == "gone" else 200)
    if ends != "gone":
        assert ocean.droplet(number)["status"] == "new"


def test_tags_and_lists_are_late_by_default_and_by_a_seed(ocean: Ocean) -> None:
    ocean.set(do_tags_s=None, do_unseen_s=None)
    tag, names = fresh(), [fresh() for _ in range(6)]
    numbers = [ocean.create(name, tags=[tag]).body["droplet"]["id"] for name in names]
    until(lambda: all(ocean.droplet(number)["tags"] == [tag] for number in numbers))
    until(lambda: set(names) <= set(ocean.names()))
    settings = DigitaloceanSettings()
    late = [DropletWorld(settings, None).late_s(number, what, None) for number in numbers for what in ("tags", "lists")]
    assert len(set(late)) == 2 * len(numbers)
    assert 0 <= min(late) < max(late) < 0.4
    settings.do_seed += 1
    assert DropletWorld(settings, None).late_s(numbers[0], "tags", None) != late[0]


def test_what_the_emulator_does_not_do_is_said(ocean: Ocean) -> None:
    reply = ocean.create(backup_policy={"plan": "weekly", "weekday": "TUE", "hour": 8})
    assert (reply.status, reply.body["id"]) == (501, "not_implemented")
    assert "backup_policy" in reply.said


def test_an_image_with_a_driver_comes_with_a_key_of_the_team_by_number_or_fingerprint(ocean: Ocean) -> None:
    known = ocean.get("account/keys?per_page=200")["ssh_keys"]
    key = known[0] if known else ocean.call("POST", "account/keys", {"name": "k", "public_key": KEY}).body["ssh_key"]
    for name in (key["id"], str(key["id"]), key["fingerprint"]):
        assert ocean.create(image="gpu-h100x1-base", ssh_keys=[name]).status == 202


def test_user_data_has_up_to_64_kib_in_bytes(ocean: Ocean) -> None:
    assert ocean.create(user_data="a" * 64 * 1024).status == 202
    assert ocean.create(user_data="ä" * 33 * 1024).status == 422


def test_a_region_may_be_the_beginning_of_one_or_none(ocean: Ocean) -> None:
    assert ocean.create(region="nyc").body["droplet"]["region"]["slug"] == "nyc2"  # the one of three that has the size
    request = ocean.wanted()
    del request["region"]
    assert GPU in ocean.call("POST", "droplets", request).body["droplet"]["region"]["sizes"]


def test_tags_come_when_the_droplet_is_there(ocean: Ocean) -> None:
    ocean.set(do_tags_s=0.4)
    tag, name = fresh(), fresh()
    number = ocean.create(name, tags=[tag]).body["droplet"]["id"]
    assert ocean.droplet(number)["tags"] == []
    assert ocean.names(f"type=gpus&name={name}") == [name]  # the name tells already
    ocean.set(do_tag_lists_gpus=True)
    deadline = time.monotonic() + 60
    while ocean.names(f"tag_name={tag}") != [name]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert ocean.droplet(number)["tags"] == [tag]


def test_one_may_be_unseen_by_lists_for_a_while(ocean: Ocean) -> None:
    ocean.set(do_unseen_s=60.0)
    name = fresh()
    number = ocean.made(name)
    assert ocean.names(f"type=gpus&name={name}") == []
    assert ocean.droplet(number)["name"] == name
    ocean.set(do_unseen_s=0.0)
    assert ocean.names(f"type=gpus&name={name}") == [name]


def test_without_public_networking_there_is_no_public_address(ocean: Ocean) -> None:
    (card,) = ocean.droplet(ocean.made(public_networking=False))["networks"]["v4"]
    assert card["type"] == "private"


def test_it_is_in_the_default_vpc_of_its_region_or_in_the_one_that_is_named(ocean: Ocean) -> None:
    default = next(v for v in ocean.get("vpcs?per_page=200")["vpcs"] if v["region"] == REGION and v["default"])
    assert ocean.droplet(ocean.made())["vpc_uuid"] == default["id"]
    own = ocean.call("POST", "vpcs", {"name": fresh(), "region": REGION}).body["vpc"]
    assert ocean.droplet(ocean.made(vpc_uuid=own["id"]))["vpc_uuid"] == own["id"]
    assert ocean.create(vpc_uuid=own["id"], region="nyc2").status == 422


def test_an_own_image_is_used_by_its_number_where_it_is(ocean: Ocean) -> None:
    ocean.ask("images", [{"cloud": "digitalocean", "region": REGION, "image": {"id": "4711"}, "login": "root", "system": "rocky 9"}])
    assert ocean.create(image=4711).body["droplet"]["image"]["public"] is False
    assert ocean.create(image=4711, region="nyc2").status == 422
    assert ocean.get("images?private=true")["images"][0]["id"] == 4711
    ocean.ask(
        "images", [{"cloud": "digitalocean", "region": REGION, "image": {"slug": IMAGE}, "login": "root", "system": "ubuntu 24.04"}]
    )  # a public one: it is there
    assert len(ocean.get("images?private=true")["images"]) == 1


def test_a_size_without_gpus_is_no_gpu_droplet(ocean: Ocean) -> None:
    found = ocean.droplet(ocean.made(size=CPU, region="fra1"))
    assert "gpu_info" not in found
    assert "gpu_info" not in found["size"]
