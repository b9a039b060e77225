"""What the API object makes of answers that only a broken cloud, or somebody in its place, gives."""

from __future__ import annotations

from typing import Any

import pytest

from provision.clouds.digitalocean.access import DigitalOceanAccess
from provision.clouds.digitalocean.api import DigitalOceanApi
from provision.clouds.received import Received
from provision.errors import CloudUnreachableError


def test_a_list_that_names_a_next_page_for_ever_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def call(_: DigitalOceanApi, action: str, *, query: dict[str, Any]) -> Received:
        asked.append((action, query["page"]))
        return Received(droplets=[{"id": 1}], links={"pages": {"next": "https://api.digitalocean.com/v2/droplets?page=2"}})

    monkeypatch.setattr(DigitalOceanApi, "call", call)
    with pytest.raises(CloudUnreachableError, match="the list of droplets has no end") as error:
        DigitalOceanApi(DigitalOceanAccess(token="x")).pages("droplets_list", "droplets")
    assert error.value.hint
    assert asked == [("droplets_list", number) for number in range(1, 101)]
