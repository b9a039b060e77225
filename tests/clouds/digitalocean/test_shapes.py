"""A value of another type than DigitalOcean's document says is no answer of DigitalOcean's, however deep it stands."""

from __future__ import annotations

from typing import Any

import pytest

from provision.clouds.digitalocean import api
from provision.clouds.digitalocean.access import DigitalOceanAccess
from provision.clouds.digitalocean.api import DigitalOceanApi
from provision.clouds.digitalocean.client import ApiAnswer
from provision.errors import CloudUnreachableError


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("droplets_list", {"droplets": [{"id": [1]}]}),
        ("droplets_list", {"droplets": [{"tags": "gpuprov"}]}),
        ("droplets_list", {"droplets": [{"tags": [{"name": "gpuprov"}]}]}),
        ("droplets_list", {"droplets": [{"region": "tor1"}]}),
        ("droplets_list", {"droplets": [{"networks": {"v4": [{"type": {}, "ip_address": "192.0.2.1"}]}}]}),
        ("droplets_list", {"droplets": [], "links": {"pages": "none"}}),
        ("volumes_list", {"volumes": [{"name": 7}]}),
        ("sizes_list", {"sizes": [{"slug": "gpu", "regions": "tor1"}]}),
        ("sizes_list", {"sizes": [{"slug": "gpu", "available": "perhaps"}]}),
        ("images_get", {"image": {"id": 1, "created_at": 20261127}}),
        ("account_get", {"account": {"droplet_limit": "many"}}),
        ("vpcs_get", {"vpc": {"region": {"slug": "tor1"}}}),
    ],
)
def test_a_value_of_another_type_is_no_answer(monkeypatch: pytest.MonkeyPatch, action: str, body: dict[str, Any]) -> None:
    monkeypatch.setattr(api, "send", lambda *_: ApiAnswer(200, body, {}, ""))
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    with pytest.raises(CloudUnreachableError, match="another type") as error:
        DigitalOceanApi(DigitalOceanAccess(token="x")).call(action, image="1", vpc="1")
    assert error.value.detail.startswith("Expected ")


def test_what_may_be_empty_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    droplet = {"id": 1, "tags": None, "networks": None, "created_at": None, "else": object()}
    body = {"droplets": [droplet], "links": None, "meta": {"total": 1}}
    monkeypatch.setattr(api, "send", lambda *_: ApiAnswer(200, body, {}, ""))
    assert DigitalOceanApi(DigitalOceanAccess(token="x")).call("droplets_list") == body
