"""What the embedded DigitalOcean refuses, logs and lets fail before it does anything."""

from __future__ import annotations

import http.client
import urllib.error

import pytest

from provision.rehearsal import control
from tests.rehearsal.digitalocean.conftest import CPU, GPU, REGION, Ocean, fresh


def test_what_does_not_parse_or_does_not_exist(ocean: Ocean) -> None:
    assert ocean.call("GET", "nothing/at/all").body["id"] == "not_found"
    assert ocean.call("GET", "droplets/1").status == 404
    assert ocean.call("POST", "droplets", b"{").body["id"] == "bad_request"
    refused = ocean.call("POST", "droplets", {"name": "a"})
    assert (refused.status, refused.body["id"]) == (422, "unprocessable_entity")
    assert refused.body["request_id"]


def test_the_log_names_operation_region_and_name(ocean: Ocean) -> None:
    name = fresh()
    number = ocean.made(name)
    ocean.call("POST", "droplets", {"name": "a"})
    first, *_, last = control.ask(ocean.rehearsal, "calls")
    assert (first["action"], first["region"], first["name"]) == ("droplets_create", REGION, name)
    assert (last["action"], last["refused"]) == ("droplets_create", "unprocessable_entity")
    assert first["seconds"] > 0
    ocean.call("DELETE", f"droplets/{number}")
    gone = control.ask(ocean.rehearsal, "calls")[-1]
    assert (gone["action"], gone["region"], gone["name"]) == ("droplets_destroy", REGION, name)


def test_an_error_comes_in_digitaloceans_shape_and_counts_down(ocean: Ocean) -> None:
    ocean.fail(kind="error", action="droplets_create", region="tor.*", params={"size": GPU}, count=1, http=503, code="service_unavailable")
    assert ocean.create(size=CPU).status == 202
    failed = ocean.create()
    assert (failed.status, failed.body["id"], failed.said) == (503, "service_unavailable", "service_unavailable")
    assert "ratelimit-remaining" in failed.headers
    assert ocean.create().status == 202


def test_a_dropped_connection_makes_nothing_and_a_page_instead_of_an_answer_neither(ocean: Ocean) -> None:
    name = fresh()
    ocean.fail(kind="drop", action="droplets_create", count=1)
    with pytest.raises((http.client.RemoteDisconnected, urllib.error.URLError, ConnectionError)):
        ocean.create(name)
    ocean.fail(kind="html", action="droplets_create", count=1)
    with pytest.raises(ValueError, match="Expecting value"):
        ocean.create(name)
    assert ocean.names(f"type=gpus&name={name}") == []


def test_a_lost_reply_was_carried_out_and_the_same_request_makes_another(ocean: Ocean) -> None:
    """There is no idempotency key: only the name tells that there is one already."""
    name = fresh()
    ocean.fail(kind="lost", action="droplets_create", count=1)
    with pytest.raises((http.client.RemoteDisconnected, urllib.error.URLError, ConnectionError)):
        ocean.create(name)
    assert ocean.names(f"type=gpus&name={name}") == [name]
    assert ocean.create(name).status == 202
    assert ocean.names(f"type=gpus&name={name}") == [name, name]


def test_a_delay_delays(ocean: Ocean) -> None:
    ocean.fail(kind="delay", action="sizes_list", delay_s=0.3)
    ocean.get("sizes")
    assert control.ask(ocean.rehearsal, "calls")[-1]["seconds"] >= 0.3


def test_pages_have_twenty_or_as_many_as_asked_for_and_lead_to_the_next(ocean: Ocean) -> None:
    prefix = fresh()
    for number in range(5):
        assert ocean.call("POST", "tags", {"name": f"{prefix}-{number}"}).status == 201
    page = ocean.get("tags?per_page=2")
    total, found, prefixed = page["meta"]["total"], len(page["tags"]), page["links"]["pages"]
    assert set(prefixed) == {"next", "last"}
    while "next" in page["links"].get("pages", {}):
        page = ocean.get(page["links"]["pages"]["next"])
        found += len(page["tags"])
    assert found == total >= 5
    assert set(page["links"]["pages"]) == {"first", "prev"}
    assert ocean.get("tags?per_page=200")["links"] == {}
    assert ocean.get("tags?per_page=200&page=2")["tags"] == []
    assert ocean.call("GET", "tags?per_page=201").status == 422


def test_a_next_page_has_the_filter_of_the_first(ocean: Ocean) -> None:
    name = fresh()
    assert ocean.call("POST", "droplets", {**ocean.wanted(), "name": name}).status == 202
    assert ocean.create(name).status == 202
    assert ocean.create().status == 202
    page = ocean.get(f"droplets?type=gpus&per_page=1&name={name}")
    second = ocean.get(page["links"]["pages"]["next"])
    assert [d["name"] for d in page["droplets"] + second["droplets"]] == [name, name]
    assert "next" not in second["links"]["pages"]
