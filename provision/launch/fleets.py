"""The fleets that were made from here: one record each, written before the first call. Their members are read from the cloud."""

import json
from pathlib import Path
from typing import Any, TypedDict

from provision.launch.journal import check_name, checked, names_in
from provision.paths import private_dir, text_of, write_whole
from provision.structs import Struct, asdict, field


class EarlierProgram(TypedDict):
    """What members were asked before a roll."""

    program: str
    profile: dict[str, Any]
    lock: dict[str, Any]


class FleetRecord(Struct):
    """One fleet.

    Attributes:
        launch_id: hexadecimal; names and tags derive from it.
        rehearsal: whether it is in the embedded cloud.
        place: index into the profile's places.
        profile, lock: as data; those of the last `up` or `roll`.
        created_at, deadline: ISO 8601, UTC.
        bucket, prefix: the store.
        program: SHA-256 of what members run at their first boot.
        size: what was asked for last.
        without_gpu: whether the evidence is judged without the GPU part.
        signed_at: of the members' bundle, in seconds since 1970; 0 for a program of the user's.
        trust: whom members believe, as their user data has it.
        baked: the image of ours that members start from; empty for the base image.
        earlier: `program`, `profile` and `lock` of before each of the last rolls, newest first: members have them until they are replaced,
            and again after a roll that went back.
    """

    name: str
    launch_id: str
    rehearsal: bool
    cloud: str
    region: str
    place: int
    profile: dict[str, Any]
    profile_digest: str
    created_at: str
    deadline: str
    bucket: str
    prefix: str
    program: str
    size: int
    public_key: str
    without_gpu: bool = False
    lock: dict[str, Any] = field(default_factory=dict)
    signed_at: int = 0
    trust: dict[str, Any] = field(default_factory=dict)
    baked: str = ""
    earlier: list[EarlierProgram] = field(default_factory=list)

    def asked_of(self, program: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The profile and the lock, as data, of the members that run this program; None where it was not rolled to from here."""
        if program == self.program:
            return self.profile, self.lock
        before = next((each for each in self.earlier if each["program"] == program), None)
        return None if before is None else (before["profile"], before["lock"])


class Fleets:
    """The folder of records; made when missing, mode 0700."""

    def __init__(self, folder: Path) -> None:
        self._folder = private_dir(folder)

    def get(self, name: str) -> FleetRecord | None:
        """The record of a fleet, or None. A file that is not a record counts as none."""
        try:
            record = checked(FleetRecord, json.loads(text_of(self._folder / f"{check_name(name)}.json", errors="replace")))
        except (ValueError, RecursionError):
            return None
        return record if record.name == name else None

    def put(self, record: FleetRecord) -> None:
        """Write a record; a crash leaves the old one or the new one."""
        write_whole(self._folder / f"{check_name(record.name)}.json", json.dumps(asdict(record), indent=1, sort_keys=True), sync=True)

    def drop(self, name: str) -> None:
        """Forget a fleet."""
        (self._folder / f"{check_name(name)}.json").unlink(missing_ok=True)

    def all(self) -> list[FleetRecord]:
        """All records, by name."""
        records = map(self.get, names_in(self._folder))
        return [record for record in records if record is not None]
