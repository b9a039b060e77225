"""A recording of what was watched: a line of JSON for each sample or loss, so that a run that is killed loses at most its last line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from provision.errors import FactsInvalidError, HostUnreachableError
from provision.host.ssh import Target
from provision.paths import read_bounded
from provision.structs import Struct
from provision.watch.sample import Sample
from provision.watch.state import WatchedHost
from provision.watch.stream import Lost

SCHEMA: Final = "gpuprov-recording/1"
_MAX_BYTES: Final = 256 * 1024 * 1024
_HINT: Final = "a recording is what `gpuprov monitor --record FILE` writes"


class _Host(msgspec.Struct, frozen=True):
    name: str
    usd_per_hour: float | None = None
    launched_at: float | None = None
    ends_at: float | None = None
    clocks_mhz: int | None = None


class _Head(msgspec.Struct, frozen=True):
    schema: str
    interval_s: float
    hosts: list[_Host]


class _Entry(msgspec.Struct, frozen=True):
    at: float
    host: str
    sample: Sample | None = None
    lost: str = ""
    retry_s: float = 0


class Moment(Struct):
    """What came from a host at a time, by the clock of the machine that recorded it."""

    at: float
    host: str
    item: Sample | Lost


class Recording(Struct):
    """A recording that was read, in the order in which it was written. `cut` says whether its last line is half a line."""

    interval_s: float
    hosts: tuple[WatchedHost, ...]
    moments: tuple[Moment, ...]
    cut: bool


class Recorder:
    """Writes a recording."""

    def __init__(self, out: IO[str], hosts: tuple[WatchedHost, ...], interval_s: float) -> None:
        self._out = out
        known: list[dict[str, Any]] = [
            {
                "name": host.target.name,
                "usd_per_hour": host.usd_per_hour,
                "launched_at": host.launched_at,
                "ends_at": host.ends_at,
                "clocks_mhz": host.clocks_mhz,
            }
            for host in hosts
        ]
        self._write({"schema": SCHEMA, "interval_s": interval_s, "hosts": known})

    def take(self, name: str, item: Sample | Lost, now: float) -> None:
        """Write what came."""
        if isinstance(item, Lost):
            self._write({"at": now, "host": name, "lost": item.error.message, "retry_s": item.retry_s})
        else:
            self._write({"at": now, "host": name, "sample": msgspec.to_builtins(item)})

    def _write(self, entry: dict[str, Any]) -> None:
        self._out.write(json.dumps(entry) + "\n")
        self._out.flush()


def read(path: Path) -> Recording:
    """Read a recording.

    Raises:
        FactsInvalidError: it cannot be read, or is none.
    """
    try:
        raw = read_bounded(path, _MAX_BYTES)
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise FactsInvalidError(msg, hint=_HINT) from error
    first, *rest = raw.splitlines() or [b""]
    try:
        head = msgspec.json.decode(first, type=_Head)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{path} is not a recording: {str(error)[:200]}"
        raise FactsInvalidError(msg, hint=_HINT) from error
    if head.schema != SCHEMA:
        msg = f"{path} is a recording of another release: {head.schema[:40]!a}, and this one reads {SCHEMA}"
        raise FactsInvalidError(msg, hint="replay it with the release that wrote it")
    if odd := next((host.name for host in head.hosts if not host.name.isprintable()), None):
        msg = f"{path} names a host {odd[:40]!a}, which is no name"
        raise FactsInvalidError(msg, hint=_HINT)
    whole = rest if raw.endswith(b"\n") else rest[:-1]
    hosts = tuple(
        WatchedHost(Target(host.name, ""), host.usd_per_hour, host.launched_at, host.ends_at, host.clocks_mhz) for host in head.hosts
    )
    moments = tuple(_moments(path, whole, {host.target.name for host in hosts}))
    return Recording(head.interval_s, hosts, moments, cut=len(whole) < len(rest))


def _moments(path: Path, lines: list[bytes], names: set[str]) -> Iterator[Moment]:
    decoder = msgspec.json.Decoder(_Entry)
    for number, line in enumerate(lines, 2):
        try:
            entry = decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            msg = f"{path}:{number}: not a line of a recording: {str(error)[:200]}"
            raise FactsInvalidError(msg, hint=_HINT) from error
        if entry.host not in names:
            msg = f"{path}:{number}: names a host that the recording does not have"
            raise FactsInvalidError(msg, hint=_HINT)
        lost = Lost(HostUnreachableError(entry.lost, hint="see the host"), entry.retry_s)
        yield Moment(entry.at, entry.host, entry.sample if entry.sample is not None else lost)
