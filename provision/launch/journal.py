"""What was intended, written down before the first call, so that a killed client is followed by one that knows.

One file for each name. Tags at the cloud stay the truth about what exists; the journal says which launch id to ask for again, in which
region, from which profile, and how the machine is reached.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from provision.errors import NameInvalidError, NameTakenError
from provision.paths import private_dir

__all__ = ["Journal", "Record", "check_name"]

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
class Record:
    """One intent and what came of it.

    Attributes:
        name: what the user calls the machine.
        launch_id: hexadecimal; token, names and tags derive from it.
        cloud, region: where it was last tried, or is.
        rehearsal: whether that is the embedded cloud.
        profile: the whole profile as data, so that the machine can be verified against what it was launched from.
        profile_digest: SHA-256 of it.
        created_at, deadline: ISO 8601, UTC.
        instance_id: empty until the cloud confirmed the instance.
        address: empty until it was reached.
        lock: the lock it was launched and set up from, as data; empty in records of releases that had none.
    """

    name: str
    launch_id: str
    cloud: str
    region: str
    rehearsal: bool
    profile: dict[str, Any]
    profile_digest: str
    created_at: str
    deadline: str
    instance_id: str = ""
    address: str = ""
    lock: dict[str, Any] = field(default_factory=dict)

    def with_instance(self, instance_id: str, address: str = "") -> Record:
        """The same record once the cloud has confirmed the instance."""
        return replace(self, instance_id=instance_id, address=address or self.address)

    def with_lock(self, lock: dict[str, Any]) -> Record:
        """The same record, set up from this lock."""
        return replace(self, lock=lock)


class Journal:
    """The folder of records.

    Args:
        folder: made when missing, mode 0700.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = private_dir(folder)

    def get(self, name: str) -> Record | None:
        """The record of a name, or None; a file that is no record (half a disk, another version) counts as none."""
        try:
            data = json.loads((self._folder / f"{check_name(name)}.json").read_text())
            return Record(**{f.name: data[f.name] for f in fields(Record) if f.name in data})
        except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError):
            return None

    def put(self, record: Record) -> None:
        """Write a record so that a crash leaves the old one or the new one, and never half."""
        path = self._folder / f"{check_name(record.name)}.json"
        fresh = path.with_suffix(".new")
        with fresh.open("w") as file:
            json.dump(asdict(record), file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)

    def drop(self, name: str) -> None:
        """Forget a name."""
        (self._folder / f"{check_name(name)}.json").unlink(missing_ok=True)

    def all(self) -> list[Record]:
        """All records, by name."""
        found = (self.get(path.stem) for path in sorted(self._folder.glob("*.json")))
        return [record for record in found if record is not None]

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
