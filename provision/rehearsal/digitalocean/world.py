"""What the embedded DigitalOcean holds, and the calls that change it."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import threading
import uuid
from collections.abc import Callable
from typing import Any, Final

from provision.rehearsal.digitalocean.document import Operation
from provision.rehearsal.digitalocean.refusals import not_found
from provision.rehearsal.digitalocean.settings import DigitaloceanSettings
from provision.rehearsal.hosts import HostPark
from provision.rehearsal.timers import Timers
from provision.structs import MutableStruct, Struct, field

_PAGE: Final = 20
_MOST_LATE_S: Final = 0.3


def now() -> str:
    """The time as DigitalOcean writes it."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class DropletState(MutableStruct):
    """A droplet: what the API shows of it, and what it is besides."""

    shown: dict[str, Any]  # as its GET shows it, but for the region and the size, which are looked up
    region: str
    gpu: bool
    user_data: str
    keys: tuple[str, ...]  # OpenSSH public keys for root
    public: bool  # whether it has a public address
    created: float  # on the monotonic clock
    event: int = 0  # the action under way, 0 for none: one at a time
    on: bool = False  # whether it has a host that runs, or is being started
    has_host: bool = False  # whether it ever had one
    # held while the host is changed, which takes too long to hold the world for it
    hosting: threading.Lock = field(default_factory=threading.Lock)

    @property
    def id(self) -> int:
        """Its number."""
        return int(self.shown["id"])

    @property
    def host_id(self) -> str:
        """What its host is called."""
        return f"droplet-{self.id}"


class DropletWorld(MutableStruct):
    """Everything of the one account, under one lock."""

    settings: DigitaloceanSettings
    park: HostPark | None
    timers: Timers = field(default_factory=Timers)
    lock: threading.RLock = field(default_factory=threading.RLock)
    droplets: dict[int, DropletState] = field(default_factory=dict)
    actions: dict[int, dict[str, Any]] = field(default_factory=dict)
    keys: dict[int, dict[str, Any]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)  # in lower case → as it was written first
    firewalls: dict[str, dict[str, Any]] = field(default_factory=dict)
    vpcs: dict[str, dict[str, Any]] = field(default_factory=dict)
    volumes: dict[str, dict[str, Any]] = field(default_factory=dict)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(500_000_001))

    def droplet(self, number: int) -> DropletState:
        """A droplet by its number; one that does not exist is refused."""
        if number not in self.droplets:
            raise not_found()
        return self.droplets[number]

    def late_s(self, number: int, what: str, seconds: float | None) -> float:
        """How late something of a droplet is shown: as the settings say, or by their seed."""
        if seconds is not None:
            return seconds
        return _MOST_LATE_S * random.Random(f"{self.settings.do_seed}/{what}/{number}").random()  # noqa: S311 - no secret

    def tag(self, name: str) -> str:
        """A tag, made if need be, in the letters with which it was made first."""
        return self.tags.setdefault(name.lower(), name)

    def tagged(self, name: str) -> list[DropletState]:
        """The droplets with a tag."""
        own = self.tags.get(name.lower())
        return [droplet for droplet in self.droplets.values() if own in droplet.shown["tags"]]

    def begin(
        self, droplet: DropletState, kind: str, seconds: float | None, finish: Callable[[], None], *, ending: str = "completed"
    ) -> dict[str, Any]:
        """Start an action: `finish` is done after that time, without the lock, and then the action has ended so; None is never."""
        action: dict[str, Any] = {
            "id": next(self.numbers),
            "status": "in-progress",
            "type": kind,
            "started_at": now(),
            "completed_at": None,
            "resource_id": droplet.id,
            "resource_type": "droplet",
            "region_slug": droplet.region,
        }
        self.actions[action["id"]] = action
        droplet.event = action["id"]

        def end() -> None:
            finish()
            with self.lock:
                action.update(status=ending, completed_at=now())
                if droplet.event == action["id"]:
                    droplet.event = 0

        if seconds is not None:
            self.timers.after(seconds, end)
        return action


class DropletCall(Struct):
    """One request that was checked, with the parameters of its path and query."""

    world: DropletWorld
    operation: Operation
    path: dict[str, Any]
    query: dict[str, Any]
    body: dict[str, Any]
    base: str  # what links to other pages begin with

    def listed(self, name: str, items: list[dict[str, Any]]) -> Answer:
        """The page of a list that the query names."""
        size, page = self.query.get("per_page", _PAGE), self.query.get("page", 1)
        last = max((len(items) + size - 1) // size, 1)
        rest = "&".join(f"{key}={value}" for key, value in self.query.items() if key not in {"page", "per_page"})

        def link(number: int) -> str:
            return f"{self.base}?page={number}&per_page={size}" + (f"&{rest}" if rest else "")

        pages = {"first": link(1), "prev": link(page - 1)} if page > 1 else {}
        pages |= {"next": link(page + 1), "last": link(last)} if page < last else {}
        links = {"pages": pages} if pages else {}
        return 200, {name: items[(page - 1) * size : page * size], "links": links, "meta": {"total": len(items)}}


Answer = tuple[int, dict[str, Any] | None]
"""The status and the body."""
Handler = Callable[[DropletCall], Answer]


def new_uuid() -> str:
    """The id of what has no number."""
    return str(uuid.uuid4())
