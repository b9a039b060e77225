"""What is read of droplets, and what is done to them."""

from __future__ import annotations

import pytest

from tests.rehearsal.digitalocean.conftest import CPU, REGION, Ocean, fresh
from tests.waiting import until


def test_a_list_leaves_gpus_out_unless_it_asks_for_them(ocean: Ocean) -> None:
    gpu, cpu = fresh(), fresh()
    ocean.made(gpu)
    ocean.made(cpu, size=CPU)
    assert gpu not in ocean.names("")
    assert cpu in ocean.names("")
    assert cpu in ocean.names("type=droplets")
    assert gpu in ocean.names("type=gpus")
    assert cpu not in ocean.names("type=gpus")


def test_a_name_is_compared_whole_and_without_case(ocean: Ocean) -> None:
    name = fresh()
    ocean.made(name)
    assert ocean.names(f"type=gpus&name={name.upper()}") == [name]
    assert ocean.names(f"type=gpus&name={name[:-1]}") == []
    assert ocean.names(f"name={name}") == []  # which lists no GPUs


def test_a_tag_is_combined_with_nothing_and_by_the_letter_shows_no_gpus(ocean: Ocean) -> None:
    tag, gpu, cpu = fresh(), fresh(), fresh()
    ocean.made(gpu, tags=[tag])
    ocean.made(cpu, size=CPU, tags=[tag])
    assert ocean.names(f"tag_name={tag}") == [cpu]
    ocean.set(do_tag_lists_gpus=True)
    assert ocean.names(f"tag_name={tag}") == [gpu, cpu]
    for more in ("name=a", "type=gpus"):
        refused = ocean.call("GET", f"droplets?tag_name={tag}&{more}")
        assert (refused.status, refused.body["id"]) == (422, "unprocessable_entity")
    assert ocean.names(f"tag_name={fresh()}") == []


def test_off_and_on_with_the_same_addresses(ocean: Ocean) -> None:
    number = ocean.made()
    before = ocean.droplet(number)["networks"]
    for kind in ("shutdown", "power_off"):
        reply = ocean.act(number, kind)
        assert (reply.status, reply.body["action"]["type"], reply.body["action"]["status"]) == (201, kind, "in-progress")
        ocean.until(number, "off")
        assert ocean.get(f"droplets/{number}/actions/{reply.body['action']['id']}")["action"]["status"] == "completed"
        refused = ocean.act(number, kind)
        assert (refused.status, refused.said) == (422, "Droplet is currently off.")
        assert ocean.act(number, "power_on").status == 201
        ocean.until(number, "active")
    assert ocean.droplet(number)["networks"] == before
    assert ocean.act(number, "power_on").status == 422
    assert ocean.act(number, "reboot").status == 201


def test_one_thing_at_a_time(ocean: Ocean) -> None:
    ocean.set(do_action_s=60.0)
    number = ocean.made()
    assert ocean.act(number, "power_off").status == 201
    for refused in (ocean.act(number, "power_on"), ocean.call("DELETE", f"droplets/{number}")):
        assert (refused.status, refused.said) == (422, "Droplet already has a pending event.")
    assert ocean.droplet(number)["locked"] is False  # it is not a lock


def test_a_new_droplet_is_not_deleted_unless_the_settings_say_so(ocean: Ocean) -> None:
    ocean.set(do_active_s=None)
    number = ocean.create().body["droplet"]["id"]
    assert ocean.call("DELETE", f"droplets/{number}").status == 422
    ocean.set(do_new_can_be_deleted=True)
    assert ocean.call("DELETE", f"droplets/{number}").status == 204
    assert ocean.call("GET", f"droplets/{number}").status == 404


def test_an_action_that_the_emulator_does_not_do_is_said(ocean: Ocean) -> None:
    number = ocean.made()
    assert ocean.act(number, "password_reset").body["id"] == "not_implemented"
    assert ocean.call("POST", "droplets/1/actions", {"type": "power_off"}).status == 404
    assert ocean.call("GET", f"droplets/{number}/actions/1").status == 404
    assert ocean.call("GET", "actions/1").status == 404


def test_an_action_is_its_own_droplets(ocean: Ocean) -> None:
    mine, other = ocean.made(), ocean.made()
    action = ocean.act(mine, "power_off").body["action"]["id"]
    assert ocean.call("GET", f"droplets/{other}/actions/{action}").status == 404


def test_a_deleted_droplet_is_gone(ocean: Ocean) -> None:
    name = fresh()
    number = ocean.made(name)
    reply = ocean.call("DELETE", f"droplets/{number}")
    assert (reply.status, reply.body) == (204, None)
    assert ocean.call("DELETE", f"droplets/{number}").status == 404
    assert ocean.names(f"type=gpus&name={name}") == []


def test_a_deleted_droplet_is_shown_until_it_is_gone_and_keeps_what_it_has(ocean: Ocean) -> None:
    ocean.set(do_gone_s=0.4)
    volume = ocean.call("POST", "volumes", {"name": fresh(), "region": REGION, "size_gigabytes": 1}).body["volume"]["id"]
    number = ocean.made(size=CPU, volumes=[volume])
    assert ocean.call("DELETE", f"droplets/{number}").status == 204
    assert ocean.droplet(number)["status"] == "active"
    assert ocean.call("DELETE", f"droplets/{number}").said == "Droplet already has a pending event."
    assert ocean.call("DELETE", f"volumes/{volume}").status == 409
    until(lambda: ocean.call("GET", f"droplets/{number}").status == 404)
    assert ocean.call("DELETE", f"volumes/{volume}").status == 204


@pytest.mark.parametrize("off", [False, True])
def test_a_tag_deletes_all_that_have_it_and_nothing_else(ocean: Ocean, *, off: bool) -> None:
    tag, mine, other = fresh(), fresh(), fresh()
    numbers = [ocean.made(mine, tags=[tag]), ocean.made(mine, size=CPU, tags=[tag])]
    ocean.made(other)
    if off:
        ocean.act(numbers[0], "power_off")
        ocean.until(numbers[0], "off")
    assert ocean.call("DELETE", f"droplets?tag_name={tag}").status == 204
    assert [ocean.call("GET", f"droplets/{number}").status for number in numbers] == [404, 404]
    assert ocean.names(f"type=gpus&name={other}") == [other]
    assert ocean.call("DELETE", f"droplets?tag_name={fresh()}").status == 404
    assert ocean.call("DELETE", "droplets").status == 422  # never all of them


def test_a_tag_leaves_what_has_a_pending_event(ocean: Ocean) -> None:
    tag = fresh()
    ocean.set(do_active_s=None)
    number = ocean.create(tags=[tag]).body["droplet"]["id"]
    assert ocean.call("DELETE", f"droplets?tag_name={tag}").status == 204
    assert ocean.droplet(number)["status"] == "new"


def test_there_is_no_console_and_no_host_key(ocean: Ocean) -> None:
    number = ocean.made()
    for path in ("console", "serial", "console_output", "host_keys"):
        assert ocean.call("GET", f"droplets/{number}/{path}").status == 404
