"""What was intended, written down before the first call, so that a killed client is followed by one that knows.

One file for each name. Tags at the cloud stay the truth about what exists; the journal says which launch id to ask for again, which
attempt was under way, which regions were touched, from which profile, and how the machines are reached.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from provision.errors import NameInvalidError, NameTakenError
from provision.paths import private_dir

__all__ = ["Journal", "Machine", "Pending", "Record", "check_name"]

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def check_name(name: str) -> str:
    """Return the name if a host could be called so.

    Raises:
        NameInvalidError: it could not.
    """
    if not _NAME.fullmatch(name):
        msg = f"{name!a} cannot be the name of an instance"
        raise NameInvalidError(msg, hint="use 1-40 lower-case letters, digits and hyphens, with no hyphen at the ends")
    return name


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that the cloud confirmed; `address` is empty until it was reached."""

    name: str
    id: str
    cloud: str
    region: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class Pending:
    """The attempt that was under way: with the launch id it makes the same token again.

    Attributes:
        place: index into the profile's places.
        zone, first, count, minimum: as in `Order`.
    """

    place: int
    region: str
    zone: str
    first: int
    count: int
    minimum: int


@dataclass(frozen=True, slots=True)
class Record:
    """One intent and what came of it.

    Attributes:
        name: what the user calls the launch.
        launch_id: hexadecimal; tokens, names and tags derive from it.
        rehearsal: whether it is in the embedded cloud.
        profile: the whole profile as data, so that the machine can be verified against what it was launched from.
        profile_digest: SHA-256 of it.
        created_at, deadline: ISO 8601, UTC.
        count, minimum: how many were asked for, and how many are enough.
        touched: (cloud, region) where an attempt may have left something, in the order in which they were tried.
        pending: the attempt whose outcome was not known when this was written.
        machines: those confirmed.
        had: the attempts that gave them: while a cloud does not show new machines yet, their tokens do.
        lock: the lock it was launched and set up from, as data; empty in records of releases that had none.
    """

    name: str
    launch_id: str
    rehearsal: bool
    profile: dict[str, Any]
    profile_digest: str
    created_at: str
    deadline: str
    count: int = 1
    minimum: int = 1
    touched: tuple[tuple[str, str], ...] = ()
    pending: Pending | None = None
    machines: tuple[Machine, ...] = ()
    had: tuple[Pending, ...] = ()
    lock: dict[str, Any] = field(default_factory=dict)

    @property
    def regions(self) -> set[tuple[str, str]]:
        """Where anything of this launch can be."""
        return {*self.touched, *((machine.cloud, machine.region) for machine in self.machines)}

    @property
    def complete(self) -> bool:
        """Whether enough machines were confirmed, so that somebody may be at work on them."""
        return self.pending is None and len(self.machines) >= max(1, self.minimum)

    @property
    def hosts(self) -> list[str]:
        """What its machines are called; the launch's name while none is confirmed."""
        return [machine.name for machine in self.machines] or [self.name]

    def machine(self, host: str) -> Machine | None:
        """The machine of that name."""
        return next((machine for machine in self.machines if machine.name == host), None)

    def trying(self, cloud: str, pending: Pending) -> Record:
        """The same record before an attempt."""
        place = (cloud, pending.region)
        touched = self.touched if place in self.touched else (*self.touched, place)
        return replace(self, touched=touched, pending=pending)

    def with_machines(self, machines: Sequence[Machine]) -> Record:
        """The same record once the cloud has confirmed these machines, beside those that it knew; nothing is under way."""
        addresses = {machine.id: machine.address for machine in self.machines}
        fresh = [replace(machine, address=machine.address or addresses.get(machine.id, "")) for machine in machines]
        return replace(self, machines=tuple(sorted(fresh, key=lambda m: (len(m.name), m.name))), pending=None)

    def with_address(self, machine_id: str, address: str) -> Record:
        """The same record once a machine was reached."""
        return replace(self, machines=tuple(replace(m, address=address) if m.id == machine_id else m for m in self.machines))

    def with_lock(self, lock: dict[str, Any]) -> Record:
        """The same record, set up from this lock."""
        return replace(self, lock=lock)

    @classmethod
    def read(cls, data: dict[str, Any]) -> Record:
        """The record of a file's data, also of a file of the release that knew one machine and one region.

        Raises:
            KeyError, TypeError: it is no record.
        """
        known = {key: data[key] for key in cls.__dataclass_fields__ if key in data}
        known["touched"] = tuple((cloud, region) for cloud, region in data.get("touched", ()))
        known["pending"] = Pending(**data["pending"]) if data.get("pending") else None
        known["had"] = tuple(Pending(**attempt) for attempt in data.get("had", ()))
        known["machines"] = tuple(Machine(**machine) for machine in data.get("machines", ()))
        if "region" in data:  # before several machines
            known["touched"] = ((data["cloud"], data["region"]),)
            if data.get("instance_id"):
                known["machines"] = (Machine(data["name"], data["instance_id"], data["cloud"], data["region"], data.get("address", "")),)
        return cls(**known)


class Journal:
    """The folder of records.

    Args:
        folder: made when missing, mode 0700.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = private_dir(folder)
        self._changing = threading.Lock()

    def get(self, name: str) -> Record | None:
        """The record of a launch's name, or None; a file that is no record (half a disk, another version) counts as none."""
        try:
            return Record.read(json.loads((self._folder / f"{check_name(name)}.json").read_text()))
        except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
            return None

    def of(self, host: str) -> Record | None:
        """The record of a launch's name or of one of its machines' names."""
        if not _NAME.fullmatch(host):
            return None
        return self.get(host) or next((record for record in self.all() if record.machine(host)), None)

    def put(self, record: Record) -> None:
        """Write a record so that a crash leaves the old one or the new one, and never half."""
        path = self._folder / f"{check_name(record.name)}.json"
        fresh = path.with_suffix(".new")
        with fresh.open("w") as file:
            json.dump(asdict(record), file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)

    def update(self, name: str, change: Callable[[Record], Record]) -> Record | None:
        """Change a record as it is on disk now, which another thread may have changed; None when there is none."""
        with self._changing:
            record = self.get(name)
            if record is not None:
                record = change(record)
                self.put(record)
            return record

    def drop(self, name: str) -> None:
        """Forget a name; what was tried for it stays in its log."""
        (self._folder / f"{check_name(name)}.json").unlink(missing_ok=True)

    def all(self) -> list[Record]:
        """All records, by name."""
        found = (self.get(path.stem) for path in sorted(self._folder.glob("*.json")))
        return [record for record in found if record is not None]

    def log_of(self, name: str) -> Path:
        """The file with every attempt that was ever made for a name, a line of JSON each."""
        return self._folder / f"{check_name(name)}.attempts.jsonl"

    def log(self, name: str, entry: dict[str, Any]) -> None:
        """Add an attempt to the log of a name."""
        with self.log_of(name).open("a") as file:
            file.write(json.dumps({"at": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"), **entry}) + "\n")

    def held(self, name: str) -> bool:
        """Whether a gpuprov of this user is at work on a name."""
        try:
            with self.hold(name):
                return False
        except NameTakenError:
            return True

    @contextlib.contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Be the only gpuprov of this user at work on a name; the lock dies with the process.

        Raises:
            NameTakenError: another one is, and its process id.
        """
        path = self._folder / f"{check_name(name)}.lock"
        lock = FileLock(path)
        holder = path.with_suffix(".pid")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            pid = holder.read_text() if holder.exists() else "unknown"
            msg = f"another gpuprov (process {pid}) is at work on {name!r}"
            raise NameTakenError(msg, hint="wait for it to end, or choose another --name") from None
        try:
            holder.write_text(str(os.getpid()))
            yield
        finally:
            lock.release()
