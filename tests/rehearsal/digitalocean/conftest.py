"""The embedded DigitalOcean, spoken to by plain HTTP; one process for all of its tests."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.embedded import PLAIN, Embedded

REGION = "tor1"
GPU = "gpu-h100x1-80gb"
CPU = "s-1vcpu-1gb"
IMAGE = "ubuntu-24-04-x64"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP6Z8Eyq6a8dy/8jo/NfTxIr+kYmRfiGzsEyoPLj1JoS test"
ANYWHERE = ["0.0.0.0/0", "::/0"]


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def said(self) -> str:
        """The message of a refusal."""
        return str(self.body["message"])


class Ocean:
    """One embedded DigitalOcean, and what most tests need of it."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.rehearsal = rehearsal
        self.endpoint = rehearsal.endpoints["digitalocean"]
        self.token = rehearsal.access["digitalocean"]["token"]

    def call(self, method: str, path: str, body: Any = None, *, token: str = "") -> Reply:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"}
        url = path if path.startswith("http") else f"{self.endpoint}/v2/{path}"
        request = urllib.request.Request(url, data=data, method=method, headers=headers)  # noqa: S310 - our own loopback URL
        try:
            with urllib.request.urlopen(request) as reply:  # noqa: S310 - as above
                return Reply(reply.status, dict(reply.headers), json.loads(reply.read() or b"null"))
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, dict(error.headers), json.loads(error.read() or b"null"))

    def get(self, path: str) -> Any:
        """The body of what must be there."""
        reply = self.call("GET", path)
        assert reply.status == 200, reply
        return reply.body

    def ask(self, what: str, body: Any) -> None:
        control.ask(self.rehearsal, what, method="PUT", body=body)

    def set(self, **settings: Any) -> None:
        self.ask("settings", settings)

    def fail(self, **rule: Any) -> None:
        self.ask("faults", [rule])

    def wanted(self, name: str = "", **changes: Any) -> dict[str, Any]:
        return {"name": name or fresh(), "region": REGION, "size": GPU, "image": IMAGE, **changes}

    def create(self, name: str = "", **changes: Any) -> Reply:
        return self.call("POST", "droplets", self.wanted(name, **changes))

    def made(self, name: str = "", **changes: Any) -> int:
        """The number of a droplet that is active."""
        reply = self.create(name, **changes)
        assert reply.status == 202, reply
        return int(self.until(reply.body["droplet"]["id"], "active")["id"])

    def droplet(self, number: int) -> Any:
        return self.get(f"droplets/{number}")["droplet"]

    def until(self, number: int, status: str) -> Any:
        deadline = time.monotonic() + 240
        while (found := self.droplet(number))["status"] != status or self.row(number)["busy"]:
            assert time.monotonic() < deadline, found["status"]
            time.sleep(0.01)
        return found

    def row(self, number: int) -> Any:
        """What the rehearsal itself says of a droplet."""
        return next(row for row in control.ask(self.rehearsal, "status")["instances"] if row["id"] == str(number))

    def act(self, number: int, kind: str) -> Reply:
        return self.call("POST", f"droplets/{number}/actions", {"type": kind})

    def names(self, where: str = "type=gpus") -> list[str]:
        return [droplet["name"] for droplet in self.get(f"droplets?per_page=200&{where}")["droplets"]]

    def firewall(self, name: str = "", *, sources: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
        rules = [{"protocol": "tcp", "ports": "22", "sources": sources or {"addresses": ["192.0.2.0/24"]}}]
        outbound = [{"protocol": "tcp", "ports": "0", "destinations": {"addresses": ANYWHERE}}]
        return {"name": name or fresh(), "inbound_rules": rules, "outbound_rules": outbound, **changes}


def fresh() -> str:
    return f"d-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def ocean_api(tmp_path_factory: pytest.TempPathFactory, embedded: Embedded) -> Iterator[Ocean]:
    folder = tmp_path_factory.mktemp("ocean")
    yield Ocean(embedded.start(folder))
    assert control.stop(folder)


@pytest.fixture
def ocean(ocean_api: Ocean) -> Ocean:
    """With no faults, no calls and quick settings, and nothing late; what other tests made may be there."""
    ocean_api.ask("faults", [])
    ocean_api.ask("settings", {**PLAIN, "do_tags_s": 0.0, "do_unseen_s": 0.0})
    control.ask(ocean_api.rehearsal, "calls", method="DELETE")
    return ocean_api
