"""`monitor`: the hosts to watch with what is known of them, and the ways in which their samples go on."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from provision.errors import EXIT_OK, EXIT_UNKNOWN, InstanceNotFoundError, UsageError
from provision.launch.cost import hourly_of
from provision.profile.locked import Lock, recorded
from provision.structs import Struct
from provision.watch import dcgm
from provision.watch.idle import IdleVerdict, IdleWatch, Occupation
from provision.watch.run import all_answered, watch
from provision.watch.sample import Sample
from provision.watch.state import Watched, WatchedHost
from provision.watch.stream import Lost

if TYPE_CHECKING:
    from provision.workflow.session import Session

Listener = Callable[[str, Sample | Lost, float], None]


class MonitorRequest(Struct):
    """What is watched, and until when.

    Attributes:
        once: until every host has sent two samples, since rates lie between two.
        for_s: for so long; None for ever.
        idle_s: until every host has been idle for so long; None where that does not end it.
        some: until one of them has been, not every one.
        prometheus: the address and port of the page; None without one.
    """

    hosts: tuple[WatchedHost, ...]
    interval_s: float
    once: bool = False
    for_s: float | None = None
    idle_s: float | None = None
    some: bool = False
    prometheus: tuple[str, int] | None = None


class MonitorResult(Struct):
    """What came of it: the verdicts of `idle_s`, where that was asked, and the exit code."""

    idle: dict[str, IdleVerdict]
    exit_code: int


def hosts_of(session: Session, names: Sequence[str], *, profile: str) -> tuple[WatchedHost, ...]:
    """The hosts to watch: those named, or all that were launched from here, of one profile where one is given.

    Raises:
        UsageError: there are none.
    """
    if names and profile:
        msg = "give either hosts or --profile"
        raise UsageError(msg, hint="`gpuprov monitor HOST…`, or --profile NAME for the machines of a profile")
    records = [record for record in session.journal.all() if not profile or record.profile.get("name") == profile]
    chosen = list(names) or [host for record in records for host in record.hosts]
    if not chosen:
        which = f" with profile {profile}" if profile else ""
        msg = f"no machine was launched from here{which}"
        raise UsageError(msg, hint="`gpuprov monitor HOST…` watches any host that ssh knows, `localhost` this machine")
    return tuple(_watched(session, name) for name in dict.fromkeys(chosen))


def _watched(session: Session, name: str) -> WatchedHost:
    target = session.target(name)
    try:
        record = session.record(name)
    except InstanceNotFoundError:
        return WatchedHost(target)
    price = hourly_of(record)
    lock = recorded(Lock, record.lock, name) if record.lock else None
    return WatchedHost(
        target,
        usd_per_hour=price / max(1, len(record.machines)) if price is not None else None,
        launched_at=_seconds(record.created_at),
        ends_at=_seconds(record.deadline),
        clocks_mhz=lock.clocks.graphics_mhz if lock is not None else None,
    )


def _seconds(text: str) -> float | None:
    try:
        return dt.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


async def monitor(request: MonitorRequest, watched: Watched, listeners: Sequence[Listener], stopped: Callable[[], bool]) -> MonitorResult:
    """Watch until the request's end, or until `stopped` says so. Every sample goes to all listeners, after `watched` has it."""
    began = time.time()
    idle = {host.target.name: IdleWatch(request.idle_s, request.interval_s) for host in request.hosts} if request.idle_s else {}

    def take(name: str, item: Sample | Lost, now: float) -> None:
        watched.take(name, item, now)
        if name in idle and isinstance(item, Sample):
            idle[name].take(item, now)
        for listener in listeners:
            listener(name, item, now)

    def verdicts(now: float) -> dict[str, IdleVerdict]:
        return {name: each.verdict(now) for name, each in idle.items()}

    def enough(now: float) -> bool:
        over = request.for_s is not None and now - began >= request.for_s
        which = any if request.some else all
        still = bool(idle) and which(verdict.occupation is Occupation.IDLE for verdict in verdicts(now).values())
        return stopped() or over or still or (request.once and all_answered(watched))

    with served(watched, request.prometheus) if request.prometheus else contextlib.nullcontext():
        await watch(request.hosts, request.interval_s, take, enough)
    last = verdicts(time.time())
    unheard = any(state.sample is None or state.lost is not None for state in watched.hosts.values())
    not_idle = any(verdict.occupation is not Occupation.IDLE for verdict in last.values())
    return MonitorResult(last, EXIT_UNKNOWN if (request.once and unheard) or not_idle else EXIT_OK)


@contextlib.contextmanager
def served(watched: Watched, address: tuple[str, int]) -> Iterator[int]:
    """Serve the Prometheus page while this lasts; yields the port.

    Raises:
        UsageError: the address cannot be listened on.
    """

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] not in {"/", "/metrics"}:
                self.send_error(404)
                return
            body = dcgm.page(watched, now=time.time()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the method that this replaces
            """Say nothing: the screen is not ours to write on."""

    try:
        server = ThreadingHTTPServer(address, Page)
    except OSError as error:
        msg = f"cannot listen on {address[0]}:{address[1]}: {error.strerror or error}"
        raise UsageError(msg, hint="choose an address of this machine and a free port, such as 127.0.0.1:9400") from error
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def run(request: MonitorRequest, watched: Watched, listeners: Sequence[Listener], stopped: Callable[[], bool]) -> MonitorResult:
    """`monitor`, for callers without an event loop."""
    return asyncio.run(monitor(request, watched, listeners, stopped))
