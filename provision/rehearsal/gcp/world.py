"""What the embedded GCP holds: resources under their paths, timers that make things happen later, and the calls that change them."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from provision.rehearsal.gcp.discovery import Method
from provision.rehearsal.gcp.refusals import exists, not_found
from provision.rehearsal.gcp.settings import GcpSettings
from provision.rehearsal.hosts import HostPark
from provision.rehearsal.timers import Timers
from provision.structs import Struct

_MOST_LATE_S: Final = 0.2
BASE: Final = "https://www.googleapis.com/compute/v1/"  # what links in answers begin with, whatever the endpoint


def now() -> str:
    """The time as Google writes it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")


def last(link: str) -> str:
    """The name at the end of a full or partial URL."""
    return link.rstrip("/").rsplit("/", 1)[-1]


def fingerprint(value: Any) -> str:
    """Base64 that differs for another value; whoever changes the value must send it back."""
    return base64.urlsafe_b64encode(hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()[:8]).decode()


class ResourcePath(Struct):
    """Where a resource is: its scope is `global`, `zones/ZONE` or `regions/REGION`, its kind the collection, such as `instances`."""

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
    """Everything, under one lock."""

    settings: GcpSettings
    park: HostPark | None
    timers: Timers = field(default_factory=Timers)
    lock: threading.RLock = field(default_factory=threading.RLock)
    progress: threading.Condition = field(init=False)  # notified whenever an operation ends
    resources: dict[ResourcePath, dict[str, Any]] = field(default_factory=dict)  # all of them, as their GET shows them
    guests: dict[str, Any] = field(default_factory=dict)  # id of an instance → its Guest (guests.py)
    groups: dict[ResourcePath, Any] = field(default_factory=dict)  # place of a group's resource → its ManagedGroup (group_loop.py)
    objects: dict[tuple[str, str], Any] = field(default_factory=dict)  # bucket and name → its StoredObject (storage.py)
    login_keys: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)  # OS Login: account → fingerprint → key
    draws: Counter[str] = field(default_factory=Counter)  # how often each thing was left to chance (unkind.py)
    shown: dict[ResourcePath, float] = field(default_factory=dict)  # when lists begin to show a resource, on the monotonic clock
    changing: int = 0  # how many operations change a network now
    # (project, request id) → the request, and the operation that answered it
    answers: dict[tuple[str, str], tuple[str, ResourcePath]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.progress = threading.Condition(self.lock)

    def get(self, place: ResourcePath) -> dict[str, Any]:
        """A resource by its name or its numeric id; one that does not exist is refused."""
        if place in self.resources:
            return self.resources[place]
        for _, resource in self.within(place.project, place.kind, place.scope) if place.name.isdigit() else ():
            if resource["id"] == place.name:
                return resource
        raise not_found(str(place))

    def view(self, resource: dict[str, Any]) -> dict[str, Any]:
        """A resource as it is shown: an instance with the fingerprint of all of it, and the maintenance that is announced for it."""
        if resource["kind"] != "compute#instance":
            return dict(resource)
        shown = {**resource, "fingerprint": fingerprint(resource)}
        announcement = self.settings.gce_maintenance.get(resource["name"])
        if announcement is None:
            return shown
        return {**shown, "resourceStatus": {**resource.get("resourceStatus", {}), "upcomingMaintenance": announcement}}

    def within(
        self, project: str, kind: str, scope: str | None = None, *, listed: bool = False
    ) -> list[tuple[ResourcePath, dict[str, Any]]]:
        """The resources of a kind, in all scopes or one, by name; those that a list shows, or all."""
        pairs = [(p, r) for p, r in self.resources.items() if (p.project, p.kind) == (project, kind) and scope in {None, p.scope}]
        if listed:
            pairs = [(p, r) for p, r in pairs if self._is_shown(p, r)]
        return sorted(pairs, key=lambda pair: (pair[0].scope, pair[0].name))

    def _is_shown(self, place: ResourcePath, resource: dict[str, Any]) -> bool:
        if self.settings.gce_seed is not None and time.monotonic() < self.shown.get(place, 0.0):
            return False
        since = dt.datetime.fromisoformat(now()) - dt.timedelta(seconds=self.settings.gce_unseen_s)
        return dt.datetime.fromisoformat(resource["creationTimestamp"]) <= since

    def late_s(self, what: str) -> float:
        """How many seconds something is late this time, by the seed."""
        chance = self.chance(what)
        return 0.0 if chance is None else chance * _MOST_LATE_S

    def chance(self, what: str) -> float | None:
        """A number from 0 to 1, by the seed and by how often it was asked for; None where nothing is left to chance."""
        if self.settings.gce_seed is None:
            return None
        self.draws[what] += 1
        return random.Random(f"{self.settings.gce_seed}/{what}/{self.draws[what]}").random()  # noqa: S311

    def add(self, place: ResourcePath, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        """Put a new resource there, with an id and links; a path in use is refused."""
        if place in self.resources:
            raise exists(str(place))
        resource = {
            **body,
            "kind": f"compute#{kind}",
            "id": str(random.getrandbits(62) | 1 << 61),
            "name": place.name,
            "selfLink": place.link,
            "creationTimestamp": now(),
        }
        if place.scope != "global":
            resource[place.scope.partition("/")[0].removesuffix("s")] = f"{BASE}projects/{place.project}/{place.scope}"
        self.resources[place] = resource
        if kind != "operation":
            self.shown[place] = time.monotonic() + self.late_s("list")
        return resource

    def drop(self, place: ResourcePath) -> None:
        """Remove a resource, if it is there."""
        self.resources.pop(place, None)
        self.shown.pop(place, None)


class GcpCall(Struct):
    """One request that was checked, with the parameters of its path and query; `error` is how a fault lets its operation fail."""

    world: World
    method: Method
    path: dict[str, str]
    query: dict[str, str]
    body: dict[str, Any]
    error: dict[str, Any] | None = None
    raw: bytes = b""  # of a request whose body is no JSON
    token: str = ""  # the bearer token that it came with

    @property
    def scope(self) -> str:
        """The scope of its path."""
        return next((f"{kind}s/{self.path[kind]}" for kind in ("zone", "region") if kind in self.path), "global")

    @property
    def collection(self) -> str:
        """The collection of its method, such as `instances`."""
        return self.method.id.split(".")[1]

    @property
    def name(self) -> str:
        """The resource that its path names; empty for a whole collection."""
        return next((value for key, value in reversed(self.path.items()) if key not in {"project", "zone", "region"}), "")

    def resource(self, name: str) -> ResourcePath:
        """The resource of its collection that has a name."""
        return ResourcePath(self.path["project"], self.scope, self.collection, name)


Handler = Callable[[GcpCall], Any]
