"""Tokens and their scopes."""

from __future__ import annotations

from typing import Any

import pytest

from provision.rehearsal import control
from tests.rehearsal.digitalocean.conftest import Ocean, fresh


def test_another_token_and_a_lost_one_are_refused(ocean: Ocean) -> None:
    for refused in (ocean.call("GET", "account", token="dop_v1_other"), ocean.call("POST", "droplets", ocean.wanted(), token="a")):
        assert (refused.status, refused.body["id"], refused.said) == (401, "unauthorized", "Unable to authenticate you")
    ocean.set(do_token_valid=False)
    assert ocean.call("GET", "account").status == 401
    ocean.set(do_token_valid=True)
    assert ocean.call("GET", "account").status == 200


CREATE = ["droplet:create", "image:read"]


@pytest.mark.parametrize(
    ("scopes", "more", "lacks"),
    [
        (CREATE, {}, []),
        ([], {}, CREATE),
        (["droplet:read"], {}, CREATE),
        (CREATE, {"tags": ["a"]}, ["tag:create"]),
        ([*CREATE, "tag:create"], {"tags": ["a"]}, []),
        (CREATE, {"ssh_keys": [1], "vpc_uuid": "a", "volumes": ["b"]}, ["block_storage:read", "ssh_key:read", "vpc:read"]),
    ],
)
def test_a_create_needs_scopes_for_what_it_names(ocean: Ocean, scopes: list[str], more: dict[str, Any], lacks: list[str]) -> None:
    ocean.set(do_scopes=scopes)
    reply = ocean.create(**more)
    assert reply.status == (403 if lacks else 202)
    if lacks:
        # DigitalOcean does not say which; the rehearsal's own log does.
        assert (reply.body["id"], reply.said) == ("forbidden", "You are not authorized to perform this operation")
        assert control.ask(ocean.rehearsal, "calls")[-1]["scopes"] == lacks


@pytest.mark.parametrize(
    ("method", "path", "body", "scopes"),
    [
        ("GET", "droplets", None, ["droplet:read"]),
        ("GET", "droplets?tag_name=a", None, ["droplet:read", "tag:read"]),
        ("DELETE", "droplets?tag_name=a", None, ["droplet:delete", "tag:read"]),
        ("POST", "droplets/1/actions", {"type": "power_off"}, ["droplet:update"]),
        ("GET", "sizes", None, ["regions:read", "sizes:read"]),
        ("GET", "volumes", None, ["block_storage:read"]),
        ("POST", "tags/a/resources", {"resources": [{"resource_id": "1", "resource_type": "droplet"}]}, ["droplet:update", "tag:create"]),
        (
            "DELETE",
            "tags/a/resources",
            {"resources": [{"resource_id": "1", "resource_type": "volume"}]},
            ["block_storage:update", "tag:delete"],
        ),
    ],
)
def test_a_call_needs_the_scopes_of_the_document(ocean: Ocean, method: str, path: str, body: Any, scopes: list[str]) -> None:
    ocean.set(do_scopes=[])
    assert ocean.call(method, path, body).status == 403
    assert control.ask(ocean.rehearsal, "calls")[-1]["scopes"] == scopes
    for missing in scopes:
        ocean.set(do_scopes=[scope for scope in scopes if scope != missing])
        assert ocean.call(method, path, body).status == 403
    ocean.set(do_scopes=scopes)
    assert ocean.call(method, path, body).status != 403


def test_a_firewall_of_a_tag_needs_to_read_and_make_tags(ocean: Ocean) -> None:
    tag = fresh()
    ocean.call("POST", "tags", {"name": tag})
    ocean.set(do_scopes=["firewall:create"])
    assert ocean.call("POST", "firewalls", ocean.firewall()).status == 202
    assert ocean.call("POST", "firewalls", ocean.firewall(tags=[tag])).status == 403
    assert control.ask(ocean.rehearsal, "calls")[-1]["scopes"] == ["tag:create", "tag:read"]
