"""What an embedded cloud is to the rest of the rehearsal, and what all of them share: hosts, a secret, a log of calls, faults."""

import hmac
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from werkzeug import Response
from werkzeug.serving import BaseWSGIServer, make_server

from provision.rehearsal.faults import Faults
from provision.rehearsal.hosts import HostPark

Environ = dict[str, Any]
Start = Callable[..., Any]
Wsgi = Callable[[Environ, Start], Iterable[bytes]]
_MOST_CALLS: Final = 10_000
_POLL_S: Final = 0.05  # how long a server's end waits at most


class Traffic:
    """The calls to all embedded clouds, in their order, and the faults that some of them meet.

    Attributes:
        secret: what the owner of the account shows at each of them: the secret key, or the token. Another one at each start.
    """

    def __init__(self) -> None:
        self.secret = secrets.token_hex(32)
        self.faults = Faults()
        self.calls: list[dict[str, Any]] = []

    @contextmanager
    def record(self, **entry: Any) -> Iterator[dict[str, Any]]:
        """Log a call for as long as it is answered; its entry may be completed meanwhile."""
        call = {"time": time.time(), **entry}
        self.calls.append(call)
        del self.calls[:-_MOST_CALLS]
        try:
            yield call
        finally:
            call["seconds"] = time.time() - call["time"]


def is_bearer(environ: Environ, token: str) -> bool:
    """Whether a request has this token."""
    return hmac.compare_digest(environ.get("HTTP_AUTHORIZATION", "").encode(), f"Bearer {token}".encode())


def for_programs(application: Wsgi) -> Wsgi:
    """The same application for programs that know its address: what a web page sends has an `Origin`, or the name of its host."""

    def answer(environ: Environ, start: Start) -> Iterable[bytes]:
        # Of any port: a program on this machine may stand between, and what it forwards is signed with its own.
        name, _, port = environ.get("HTTP_HOST", "").rpartition(":")
        if "HTTP_ORIGIN" in environ or name not in {environ["SERVER_NAME"], "localhost"} or not port.isdigit():
            return Response("a request of a web page, or for another host\n", 403)(environ, start)
        return application(environ, start)

    return answer


def serving(host: str, application: Wsgi) -> BaseWSGIServer:
    """Serve an application to programs on a free port of an address, until the server is shut down or the process ends."""
    server = make_server(host, 0, for_programs(application), threaded=True)
    threading.Thread(target=server.serve_forever, args=(_POLL_S,), daemon=True).start()
    return server


def whole_path(application: Wsgi) -> Wsgi:
    """The same application under its own path, which a dispatcher takes off."""

    def answer(environ: Environ, start: Start) -> Iterable[bytes]:
        return application({**environ, "PATH_INFO": f"{environ['SCRIPT_NAME']}{environ['PATH_INFO']}", "SCRIPT_NAME": ""}, start)

    return answer


class Emulation(Protocol):
    """One embedded cloud: `emulation.py` of its folder.

    The constructor starts it: it brings the images, networks and quotas that an empty account has.

    Args:
        park: the hosts behind its instances; None for instances with loopback addresses that nobody answers on.
        traffic: where it logs its calls and finds the faults that they meet.

    Attributes:
        settings: a dataclass; every field can be changed while it runs, under a name that no other cloud's settings have.
        api: the WSGI application behind its address.
    """

    settings: Any
    api: Wsgi

    def __init__(self, park: HostPark | None, traffic: Traffic) -> None: ...

    def access(self, endpoint: str) -> dict[str, str]:
        """What gpuprov's own client of this cloud needs to reach it: the fields of its `Access` by name."""

    def environment(self, endpoint: str) -> dict[str, str]:
        """The environment variables with which any client of this cloud speaks to it, and to no other."""

    def instances(self) -> list[dict[str, Any]]:
        """Its instances that have not been removed, each with `id`, `state`, `type` and `address`."""

    def ended_by_itself(self, host_id: str) -> None:
        """A host powered itself off, or crashed; it may be another cloud's."""

    def offer_image(self, region: str, image: dict[str, str], login: str, system: str) -> None:
        """Have an image of one's own, as a place names it, of a system of the catalogue; its first user is `login`."""

    def close(self) -> None:
        """Let nothing happen any more."""
