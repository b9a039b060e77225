"""The address under which this machine is seen, as a server on loopback tells it."""

import http.server
import threading
from collections.abc import Iterator

import pytest

from provision.clouds.caller import caller_address, resolve
from provision.errors import CloudUnreachableError


class Echo(http.server.BaseHTTPRequestHandler):
    said = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.said)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def echo() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_caller_becomes_one_address_in_its_place(echo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Echo, "said", b"203.0.113.7\n")
    assert resolve(("192.0.2.0/24", "caller", "2001:db8::/48", "192.0.2.0/24"), echo) == [
        "192.0.2.0/24",
        "203.0.113.7/32",
        "2001:db8::/48",
    ]


def test_a_caller_with_an_ipv6_address_is_an_error_and_not_a_rule_that_admits_nobody(echo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines have IPv4 addresses: a rule for the IPv6 address would admit nobody."""
    monkeypatch.setattr(Echo, "said", b"2001:db8::7\n")
    with pytest.raises(CloudUnreachableError, match="2001:db8::7, but cloud machines are reached over IPv4") as caught:
        caller_address(echo)
    assert "network.ssh_from" in caught.value.hint


@pytest.mark.parametrize("said", [b"<html>", b"", b"203.0.113.0/24"])
def test_what_is_no_address_is_no_caller(echo: str, monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setattr(Echo, "said", said)
    with pytest.raises(CloudUnreachableError, match="could not find out"):
        caller_address(echo)
