"""A machine of the embedded GCP that has no host: it asks its metadata server from its own loopback address."""

from __future__ import annotations

import http.client
import json
import urllib.parse
from typing import Any

from provision.rehearsal.control import Rehearsal

FLAVOR = {"Metadata-Flavor": "Google"}


class Machine:
    """One instance, by what Google's client shows of it."""

    def __init__(self, rehearsal: Rehearsal, shown: Any) -> None:
        self.id, self.name = str(shown.id), shown.name
        card = shown.network_interfaces[0]
        self.address = next((access.nat_i_p for access in card.access_configs), "") or card.network_i_p
        self._server = urllib.parse.urlsplit(rehearsal.settings("gcp")["machine_endpoint_url"])

    def ask(self, path: str, headers: dict[str, str] | None = None, source: str = "") -> tuple[int, str]:
        """Status and text of a value."""
        server = self._server
        connection = http.client.HTTPConnection(server.hostname or "", server.port, source_address=(source or self.address, 0))
        try:
            connection.request("GET", f"/computeMetadata/v1/{path}", headers=FLAVOR if headers is None else headers)
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def token(self) -> str:
        return str(json.loads(self.ask("instance/service-accounts/default/token")[1])["access_token"])

    def identity(self, audience: str) -> str:
        query = urllib.parse.urlencode({"audience": audience, "format": "full"})
        return self.ask(f"instance/service-accounts/default/identity?{query}")[1]
