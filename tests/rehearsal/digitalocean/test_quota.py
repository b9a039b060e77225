"""How often, how many, and where there is room."""

from __future__ import annotations

import time

from tests.rehearsal.digitalocean.conftest import CPU, GPU, REGION, Ocean, fresh


def test_every_answer_says_what_is_left_of_the_hour(ocean: Ocean) -> None:
    ocean.set(do_limit_hour=100_000)
    first, second = ocean.call("GET", "account"), ocean.call("GET", "droplets/1")
    assert first.headers["ratelimit-limit"] == "100000"
    assert int(first.headers["ratelimit-remaining"]) - int(second.headers["ratelimit-remaining"]) == 1
    assert int(first.headers["ratelimit-reset"]) > time.time()
    assert "retry-after" not in first.headers


def test_a_burst_is_refused_with_a_time_to_come_again(ocean: Ocean) -> None:
    ocean.get("account")
    ocean.set(do_limit_minute=1)
    refused = ocean.call("POST", "droplets", ocean.wanted())
    assert (refused.status, refused.body["id"], refused.said) == (429, "too_many_requests", "API Rate limit exceeded.")
    assert 1 <= int(refused.headers["retry-after"]) <= 61
    assert refused.headers["ratelimit-remaining"] == "0"
    ocean.set(do_limit_minute=1_000_000)
    assert ocean.call("GET", "account").status == 200  # what was refused does not count


def test_the_hours_limit_has_no_such_time(ocean: Ocean) -> None:
    ocean.get("account")
    ocean.set(do_limit_hour=1)
    refused = ocean.call("GET", "account")
    assert refused.status == 429
    assert "retry-after" not in refused.headers


def test_keys_are_listed_ten_times_a_minute_and_all_else_goes_on(ocean: Ocean) -> None:
    used = 0
    ocean.set(do_limit_key_lists=10)
    while ocean.call("GET", "account/keys").status == 200:
        used += 1
    assert used <= 10
    refused = ocean.call("GET", "account/keys")
    assert (refused.status, "retry-after" in refused.headers) == (429, True)
    assert ocean.call("GET", "account").status == 200
    assert ocean.call("GET", "account/keys/1").status == 404
    ocean.set(do_limit_key_lists=used + 1)
    assert ocean.call("GET", "account/keys").status == (200 if used == 10 else 429)


def test_the_real_limits_are_the_default() -> None:
    from provision.rehearsal.digitalocean.settings import DigitaloceanSettings

    plain = DigitaloceanSettings()
    assert (plain.do_limit_hour, plain.do_limit_minute, plain.do_limit_key_lists, plain.do_droplet_limit) == (5000, 250, 10, 25)


def test_the_account_has_so_many_droplets_and_no_more(ocean: Ocean) -> None:
    number = ocean.made(size=CPU)
    ocean.act(number, "power_off")
    ocean.until(number, "off")
    count = len(ocean.names("")) + len(ocean.names())
    ocean.set(do_droplet_limit=count + 1)
    assert ocean.get("account")["account"]["droplet_limit"] == count + 1
    request = ocean.wanted(size=CPU)
    del request["name"]
    refused = ocean.call("POST", "droplets", {**request, "names": [fresh(), fresh()]})
    assert (refused.status, refused.said) == (422, "creating this/these droplet(s) will exceed your droplet limit")
    assert ocean.create(size=CPU).status == 202
    assert ocean.create(size=CPU).status == 422


def test_a_locked_account_makes_nothing(ocean: Ocean) -> None:
    ocean.set(do_account_status="locked")
    assert ocean.get("account")["account"]["status"] == "locked"
    assert ocean.create().status == 403


def test_a_region_is_full_and_one_that_is_off_keeps_its_place(ocean: Ocean) -> None:
    here = sum(d["region"]["slug"] == REGION for d in ocean.get("droplets?type=gpus&per_page=200")["droplets"])
    ocean.set(do_capacity={REGION: here + 1})
    number = ocean.made()
    ocean.act(number, "power_off")
    ocean.until(number, "off")
    refused = ocean.create()
    assert (refused.status, refused.said) == (422, "Size is not available in this region.")
    assert GPU in ocean.get("sizes?per_page=200")["sizes"][6]["slug"]  # it is listed all the same
    assert ocean.create(size=CPU).status == 202
    assert ocean.create(region="nyc2").status == 202
    ocean.call("DELETE", f"droplets/{number}")
    assert ocean.create().status == 202
