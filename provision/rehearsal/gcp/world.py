"""What the embedded GCP holds: settings, resources, the clock that makes things happen later, and the calls that change them."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from provision.rehearsal.gcp.discovery import Method
from provision.rehearsal.gcp.refusals import exists, not_found
from provision.rehearsal.gcp.settings import GcpSettings
from provision.rehearsal.hosts import HostPark

BASE: Final = "https://www.googleapis.com/compute/v1/"  # what links in answers begin with, whatever the endpoint


def now() -> str:
    """The time as Google writes it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")


def last(link: str) -> str:
    """The name at the end of a full or partial URL."""
    return link.rstrip("/").rsplit("/", 1)[-1]


def fingerprint(value: Any) -> str:
    """What must be sent back by who changes the value: base64, other for another value."""
    return base64.urlsafe_b64encode(hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()[:8]).decode()


class Timers:
    """Things that happen later, each in a thread of its own; none after `close`."""

    def __init__(self) -> None:
        self._timers: set[threading.Timer] = set()
        self._closed = False

    def after(self, seconds: float, act: Callable[[], None]) -> threading.Timer:
        """Do something later; the timer may be cancelled."""

        def fire() -> None:
            self._timers.discard(timer)
            if not self._closed:
                act()

        timer = threading.Timer(max(seconds, 0.0), fire)
        timer.daemon = True
        self._timers.add(timer)
        timer.start()
        return timer

    def close(self) -> None:
        """Let nothing happen any more."""
        self._closed = True
        for timer in list(self._timers):
            timer.cancel()


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """Where a resource is.

    Attributes:
        scope: `global`, `zones/ZONE` or `regions/REGION`.
        kind: the collection, such as `instances`.
    """

    project: str
    scope: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"projects/{self.project}/{self.scope}/{self.kind}/{self.name}"

    @property
    def link(self) -> str:
        """Its full URL."""
        return f"{BASE}{self}"

    def beside(self, kind: str, name: str) -> ResourcePath:
        """Another resource of the same scope."""
        return ResourcePath(self.project, self.scope, kind, name)


@dataclass(slots=True)
class World:
    """Everything, under one lock.

    Attributes:
        settings: see there.
        park: the hosts; None for loopback addresses that nobody answers on.
        changed: notified whenever an operation ends.
        resources: all of them, as their GET shows them.
        guests: id of an instance → what is known of it besides (guests.py).
        again: (project, request id) → what was asked under it, and its operation.
    """

    settings: GcpSettings
    park: HostPark | None
    timers: Timers = field(default_factory=Timers)
    lock: threading.RLock = field(default_factory=threading.RLock)
    changed: threading.Condition = field(init=False)
    resources: dict[ResourcePath, dict[str, Any]] = field(default_factory=dict)
    guests: dict[str, Any] = field(default_factory=dict)
    again: dict[tuple[str, str], tuple[str, ResourcePath]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.changed = threading.Condition(self.lock)

    def get(self, place: ResourcePath) -> dict[str, Any]:
        """A resource by its name or its numeric id.

        Raises:
            ComputeError: there is none.
        """
        found = self.resources.get(place)
        if found is None and place.name.isdigit():
            found = next((r for p, r in self._of(place.project, place.kind) if r["id"] == place.name and p.scope == place.scope), None)
        if found is None:
            raise not_found(str(place))
        return found

    def _of(self, project: str, kind: str) -> list[tuple[ResourcePath, dict[str, Any]]]:
        return [(place, r) for place, r in self.resources.items() if place.project == project and place.kind == kind]

    def within(self, project: str, kind: str, scope: str | None = None) -> list[tuple[ResourcePath, dict[str, Any]]]:
        """The resources of a kind, in all scopes or one, by name."""
        found = [(place, r) for place, r in self._of(project, kind) if scope in {None, place.scope}]
        return sorted(found, key=lambda pair: (pair[0].scope, pair[0].name))

    def add(self, place: ResourcePath, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        """Put a new resource there, with an id and links.

        Raises:
            ComputeError: something is there.
        """
        if place in self.resources:
            raise exists(str(place))
        made = {
            **body,
            "kind": f"compute#{kind}",
            "id": str(random.getrandbits(62) | 1 << 61),
            "name": place.name,
            "selfLink": place.link,
            "creationTimestamp": now(),
        }
        if place.scope != "global":
            made[place.scope.partition("/")[0].removesuffix("s")] = f"{BASE}projects/{place.project}/{place.scope}"
        self.resources[place] = made
        return made


@dataclass(frozen=True, slots=True)
class GcpCall:
    """One request that was checked.

    Attributes:
        path: the parameters of its path.
        query: the parameters of its query.
        body: its JSON, or an empty object.
        failing: the errors that its operation is to end with, of a fault; None for none.
    """

    world: World
    method: Method
    path: dict[str, str]
    query: dict[str, str]
    body: dict[str, Any]
    failing: dict[str, Any] | None = None

    @property
    def scope(self) -> str:
        """The scope of its path."""
        for kind in ("zone", "region"):
            if kind in self.path:
                return f"{kind}s/{self.path[kind]}"
        return "global"

    @property
    def kind(self) -> str:
        """The collection that it speaks to."""
        return self.method.id.split(".")[1]

    def resource(self, name: str) -> ResourcePath:
        """The resource of its collection that has a name."""
        return ResourcePath(self.path["project"], self.scope, self.kind, name)


Handler = Callable[[GcpCall], dict[str, Any]]
