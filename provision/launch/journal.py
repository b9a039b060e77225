"""The journal: each launch is written down before its first call, so that a later client can continue after a killed one.

There is one file for each name. Tags at the cloud stay the truth about what exists. The journal has what they lack: the launch id, the
attempt under way, the regions with attempts, the profile, and the addresses of the machines.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from provision.catalog.records.base import typed
from provision.clouds.base import NAME, Known, host_name, parsed_deadline
from provision.errors import NameInvalidError, NameTakenError
from provision.nearest import meant
from provision.paths import lock_of, private_dir, text_of, write_whole
from provision.structs import Struct, asdict, replace

K = TypeVar("K")
# Clouds give no bound for how late their lists show a new machine. They remember the token of a launch for longer than this.
VISIBLE_WITHIN = dt.timedelta(minutes=10)
_FEW = 8  # names that a message can list
_ID = re.compile(r"[A-Za-z0-9-]{1,64}")


def check_name(name: str) -> str:
    """Return the name of a launch or host unchanged.

    Raises:
        NameInvalidError: it is not a valid name.
    """
    if not NAME.fullmatch(name):
        msg = f"{name!a} cannot be the name of an instance"
        raise NameInvalidError(msg, hint="use 1-40 lower-case letters, digits and hyphens, with no hyphen at the ends")
    return name


def checked(kind: type[K], data: Any) -> K:
    """A record from a file's data, in which every value is of its type: a file may be damaged, or another release's.

    Raises:
        ValueError: one is not.
    """
    try:
        whole = typed(data, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    record: Any = whole
    parts = [record.profile.get(key) or {} for key in ("owner", "tags")]
    moments = [parsed_deadline(record.created_at), parsed_deadline(record.deadline)]
    if not _ID.fullmatch(record.launch_id) or None in moments or not all(isinstance(part, dict) for part in parts):
        msg = "an id, a time or a part of the profile is none"
        raise ValueError(msg)
    return whole


def names_in(folder: Path) -> list[str]:
    """The names whose records a folder has, in order. A file with another name, such as a copy of a record, is none."""
    return sorted(path.stem for path in folder.glob("*.json") if NAME.fullmatch(path.stem))


class Machine(Struct):
    """A machine that the cloud has confirmed; `address` is empty until a connection to it succeeds."""

    name: str
    id: str
    cloud: str
    region: str
    address: str = ""
    zone: str = ""


@dataclass(frozen=True, slots=True)
class Pending:
    """One attempt. Together with the launch id it gives the same token each time.

    Attributes:
        place: index into the profile's places.
        zone, first, count, minimum, baked: as in `Order`.
        token: what a cloud knows the attempt by; empty in records of earlier releases.
        at: when it was made, ISO 8601, UTC.
    """

    place: int
    region: str
    zone: str
    first: int
    count: int
    minimum: int
    baked: str = ""
    token: str = field(default="", compare=False)
    at: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Record:
    """One launch: the intent and the machines.

    Attributes:
        name: of the launch.
        launch_id: hexadecimal; tokens, names and tags derive from it.
        rehearsal: whether it is in the embedded cloud.
        profile: the whole profile as data, so that the machine can be verified against the profile of its launch.
        profile_digest: SHA-256 of the profile.
        created_at, deadline: ISO 8601, UTC.
        count, minimum: the number of machines in the request, and the number that is enough.
        touched: (cloud, region) of every attempt, in their order; something of the launch may be there.
        pending: the attempt whose outcome was still open when this was written.
        machines: the confirmed ones.
        had: the attempts that made them. Their tokens find new machines that a cloud does not list yet.
        lock: the lock of the launch, as data; empty in records of releases without locks.
        host_key: the private key that machines show first, where a cloud of the profile has them given one; each rotates it away.
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
    host_key: str = field(default="", repr=False)

    @property
    def regions(self) -> set[tuple[str, str]]:
        """The (cloud, region) pairs where something of this launch can be."""
        return {*self.touched, *((machine.cloud, machine.region) for machine in self.machines)}

    @property
    def complete(self) -> bool:
        """Whether enough machines are confirmed. Somebody may be at work on them then."""
        return self.pending is None and len(self.machines) >= max(1, self.minimum)

    def known(self, cloud: str, region: str, *, whole: bool) -> Known:
        """What a cloud is asked about by id, of one region or of the `whole` cloud; nothing of another cloud, whose zones it refuses."""
        asked = {pair for pair in self.regions if pair[0] == cloud and (whole or pair[1] == region)}
        machines = tuple((machine.id, machine.zone) for machine in self.machines if (machine.cloud, machine.region) in asked)
        attempts = (attempt for attempt in (*self.had, self.pending) if attempt and (cloud, attempt.region) in asked)
        made = tuple(
            (each.token, each.zone, tuple(host_name(self.name, self.count, each.first + i) for i in range(each.count))) for each in attempts
        )
        return Known(self.name, self.launch_id, str((self.profile.get("owner") or {}).get("email", "")), machines, made, self.young)

    @property
    def young(self) -> bool:
        """Whether its machines may exist and not be visible yet."""
        return dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(self.created_at) < VISIBLE_WITHIN

    @property
    def hosts(self) -> list[str]:
        """The names of its machines; the launch's name while none is confirmed."""
        return [machine.name for machine in self.machines] or [self.name]

    def machine(self, host: str) -> Machine | None:
        """The machine of that name."""
        return next((machine for machine in self.machines if machine.name == host), None)

    def trying(self, cloud: str, pending: Pending) -> Record:
        """The record with this attempt under way."""
        place = (cloud, pending.region)
        touched = self.touched if place in self.touched else (*self.touched, place)
        return replace(self, touched=touched, pending=pending)

    def with_machines(self, machines: Sequence[Machine]) -> Record:
        """The record with these confirmed machines, at the addresses it already has for them, and with no attempt under way."""
        addresses = {machine.id: machine.address for machine in self.machines}
        fresh = [replace(machine, address=machine.address or addresses.get(machine.id, "")) for machine in machines]
        return replace(self, machines=tuple(sorted(fresh, key=lambda m: (len(m.name), m.name))), pending=None)

    def with_address(self, machine_id: str, address: str) -> Record:
        """The record with the address of a machine."""
        return replace(self, machines=tuple(replace(m, address=address) if m.id == machine_id else m for m in self.machines))

    def with_lock(self, lock: dict[str, Any]) -> Record:
        """The record with this lock."""
        return replace(self, lock=lock)

    @classmethod
    def read(cls, data: dict[str, Any]) -> Record:
        """Read a record from a file's data, also from the first releases, which had one machine and one region in it.

        Raises:
            KeyError, TypeError, ValueError: it is not a record.
        """
        if "region" in data:  # before several machines
            one = {**data, "id": data.get("instance_id")}
            data = {**data, "touched": [(data["cloud"], data["region"])], "machines": [one] if one["id"] else []}
        record = checked(cls, data)
        for machine in record.machines:
            check_name(machine.name)
        if record.pending and record.pending.at and parsed_deadline(record.pending.at) is None:
            msg = "the time of its attempt is none"
            raise ValueError(msg)
        return record


class Journal:
    """The folder of records.

    Args:
        folder: made when missing, mode 0700.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = private_dir(folder)
        self._changing = threading.Lock()

    def get(self, name: str) -> Record | None:
        """The record of a launch, or None. A file that is not a record (damaged, or of another version) counts as none."""
        path = self._folder / f"{check_name(name)}.json"
        try:
            record = Record.read(json.loads(text_of(path, errors="replace")))
        except (KeyError, TypeError, ValueError, NameInvalidError, RecursionError):
            return None
        return record if record.name == name else None

    def of(self, host: str) -> Record | None:
        """The record of a launch, by its name or by the name of one of its machines."""
        if not NAME.fullmatch(host):
            return None
        return self.get(host) or next((record for record in self.all() if record.machine(host)), None)

    def put(self, record: Record) -> None:
        """Write a record; a crash leaves the old one or the new one."""
        text = json.dumps(asdict(record), indent=1, sort_keys=True)
        write_whole(self._folder / f"{check_name(record.name)}.json", text, sync=True)

    def update(self, name: str, change: Callable[[Record], Record]) -> Record | None:
        """Change a record as it is on disk now, since another thread may have changed it; None when there is no record."""
        with self._changing:
            record = self.get(name)
            if record is not None:
                record = change(record)
                self.put(record)
            return record

    def drop(self, name: str) -> None:
        """Forget a launch. Its log of attempts stays."""
        (self._folder / f"{check_name(name)}.json").unlink(missing_ok=True)

    def all(self) -> list[Record]:
        """All records, by name."""
        records = map(self.get, names_in(self._folder))
        return [record for record in records if record is not None]

    def known(self, name: str) -> str:
        """The instances that were launched from here, as words behind a name that is none of them: the nearest, or else all."""
        names = list(dict.fromkeys(host for record in self.all() for host in (record.name, *record.hosts)))
        near = meant(name, names)
        if near:
            return f"; did you mean {' or '.join(map(repr, near[:_FEW]))}?"
        more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
        return f" (what was: {', '.join(names[:_FEW])}{more})" if names else " (nothing was)"

    def log_of(self, name: str) -> Path:
        """The file with every attempt for a name, a line of JSON each."""
        return self._folder / f"{check_name(name)}.attempts.jsonl"

    def log(self, name: str, entry: dict[str, Any]) -> None:
        """Add an attempt to the log of a name."""
        _append(self.log_of(name), entry)

    def log_run(self, name: str, entry: dict[str, Any]) -> None:
        """Add a run that reached its end to the log of a name, which stays when the launch is forgotten."""
        _append(self._folder / f"{check_name(name)}.runs.jsonl", entry)

    def runs(self) -> Iterator[dict[str, Any]]:
        """The runs of all names that reached their end; a line that is none does not count."""
        for path in sorted(self._folder.glob("*.runs.jsonl")):
            for line in text_of(path, errors="replace").splitlines():
                with contextlib.suppress(ValueError, RecursionError):
                    entry = json.loads(line)
                    if isinstance(entry, dict):
                        yield entry

    def launches(self, name: str) -> set[str]:
        """The ids of all launches of a name that were made from here; the log has them when the record is lost."""
        ids: set[str] = set()
        for line in text_of(self.log_of(name), errors="replace").splitlines():
            with contextlib.suppress(ValueError, RecursionError, TypeError, KeyError):  # a client that died may have left half a line
                ids.add(str(json.loads(line)["launch_id"]))
        return ids

    def held(self, name: str) -> bool:
        """Whether another process of this user is at work on a name."""
        try:
            with self.hold(name):
                return False
        except NameTakenError:
            return True

    @contextlib.contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Hold the lock of a name, so that no other process of this user works on it. The lock ends with the process.

        Raises:
            NameTakenError: another process holds it; the message has its process id.
        """
        path = self._folder / f"{check_name(name)}.lock"
        lock = lock_of(path)
        holder = path.with_suffix(".pid")
        try:
            lock.acquire(timeout=0)
        except TimeoutError:
            pid = text_of(holder, errors="replace") or "unknown"
            msg = f"another gpuprov (process {pid}) is at work on {name!r}"
            raise NameTakenError(msg, hint="wait for it to end, or choose another --name") from None
        try:
            holder.write_text(str(os.getpid()))
            yield
        finally:
            lock.release()


def _append(path: Path, entry: dict[str, Any]) -> None:
    """Add a line of JSON with its time."""
    with path.open("a") as file:
        file.write(json.dumps({"at": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"), **entry}) + "\n")
