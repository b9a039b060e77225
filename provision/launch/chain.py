"""An append-only file of JSON lines, each with the SHA-256 of the line before it.

A line that was changed, put in or taken out later no longer fits. What was cut off at the end cannot be seen in the file: whoever needs to
see it keeps the digest of the last line elsewhere. A writer that was killed leaves part of a line. The next one closes it with a line that
says so, and goes on.
"""

import errno
import hashlib
import json
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from provision.errors import FileRefusedError, UsageError
from provision.paths import lock_of, private_dir
from provision.structs import MutableStruct, field

GENESIS: Final = "0" * 64
"""What the first line has in place of the digest of the one before."""

TORN: Final = "torn"
"""The event of a line that closes what a killed writer left."""

_MOST_LINE: Final = 64 << 10
_WINDOW: Final = 4 * _MOST_LINE
_MOST_TORN: Final = 16  # lines that one repair can close
_WAIT_S: Final = 30.0

Entry = dict[str, Any]


class AuditUnwritableError(FileRefusedError, code="audit-unwritable"):
    """The log of what was changed cannot be written, so nothing is changed."""


class ChainReading(MutableStruct):
    """A chain as it was read.

    Attributes:
        entries: those that fit, up to the first that does not.
        head: the digest of the last of them.
        line: the number of the first line that does not fit, from 1; 0 where all fit.
        why: what is wrong with it.
    """

    entries: list[Entry] = field(default_factory=list)
    head: str = GENESIS
    line: int = 0
    why: str = ""


class Chain:
    """One such file.

    Args:
        path: made when missing, mode 0600, in a folder of mode 0700.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._guard = threading.Lock()

    def add(self, entry: Entry) -> None:
        """Add a line, and wait until the disk has it. No other process adds one meanwhile.

        Raises:
            AuditUnwritableError: it is not in the file, or nobody knows whether it is.
        """
        try:
            private_dir(self.path.parent)
        except UsageError as error:
            raise self._unwritable(error.message) from error
        try:
            with self._guard, lock_of(self.path.with_suffix(".lock"), _WAIT_S):
                self._add(entry)
        except OSError as error:
            # The system has no text for the lock's timeout.
            raise self._unwritable(error.strerror or f"another gpuprov has held it for {_WAIT_S:g} s") from error

    def _add(self, entry: Entry) -> None:
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        try:
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            os.fchmod(descriptor, 0o600)
            text = self._continued(_end_of(descriptor, state.st_size), state.st_size, entry)
            if os.write(descriptor, text) < len(text):
                raise OSError(errno.EINVAL, "the disk took only a part of a line")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if not state.st_size:  # new, or all that a writer made before it was killed
            _sync_folder(self.path.parent)

    def _continued(self, end: bytes, size: int, entry: Entry) -> bytes:
        """What to write behind the end of the file: the entry, bound to the last line that is whole."""
        *lines, rest = end.split(b"\n")
        lines += [rest] if rest else []
        torn: list[bytes] = []
        while lines and _entry(lines[-1]) is None:
            torn.insert(0, lines.pop())
        if (not lines and len(end) < size) or len(torn) > _MOST_TORN:
            raise OSError(errno.EINVAL, "its end is damaged")
        last = _entry(lines[-1]) if lines else None
        number, head = (int(last["seq"]), _digest(lines[-1])) if last else (0, GENESIS)
        text = b"\n" if rest else b""
        if torn:
            number, closing = number + 1, _digest(b"\n".join(torn))
            repair = _line(
                {"seq": number, "prev": closing, "after": head, "at": entry.get("at"), "event": TORN, "bytes": len(b"\n".join(torn))}
            )
            text, head = text + repair + b"\n", _digest(repair)
        line = _line({"seq": number + 1, "prev": head, **entry})
        if len(line) > _MOST_LINE:
            raise OSError(errno.EINVAL, "a line would be too long")
        return text + line + b"\n"

    def _unwritable(self, why: str) -> AuditUnwritableError:
        msg = f"cannot write {self.path}: {why}"
        return AuditUnwritableError(
            msg, hint="nothing is changed without its line there: make room or correct the file's owner, or move it away"
        )

    def read(self) -> ChainReading:
        """Read the file and check that each line fits; one that does not exist is empty.

        Raises:
            FileRefusedError: it cannot be read.
        """
        reading, unfit = ChainReading(), list[bytes]()
        for number, raw in enumerate(self._lines(), 1):
            entry = _entry(raw)
            if unfit:
                if entry is None or not _closes(entry, unfit, reading):
                    unfit.append(raw)
                    if len(unfit) > _MOST_TORN:
                        break
                    continue
                unfit, reading.line, reading.why = [], 0, ""
            elif entry is None or entry["seq"] != len(reading.entries) + 1 or entry["prev"] != reading.head:
                unfit, reading.line, reading.why = [raw], number, _why(raw, entry, len(reading.entries) + 1)
                continue
            reading.entries.append(entry)
            reading.head = _digest(raw)
        return reading

    def _lines(self) -> Iterator[bytes]:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unreadable(str(error.strerror)) from error
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                why = "it is not a regular file"
                raise self._unreadable(why)
            while raw := file.readline(_MOST_LINE + 2):
                yield raw.removesuffix(b"\n")

    def _unreadable(self, why: str) -> FileRefusedError:
        return FileRefusedError(f"cannot read {self.path}: {why}", hint="only the user whose log it is can read it")


def _end_of(descriptor: int, size: int) -> bytes:
    return os.pread(descriptor, min(size, _WINDOW), max(0, size - _WINDOW))


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _line(entry: Entry) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode()


def _entry(raw: bytes) -> Entry | None:
    """The entry of a line; None where it is none."""
    try:
        entry = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    is_one = isinstance(entry, dict) and type(entry.get("seq")) is int and isinstance(entry.get("prev"), str)
    return entry if is_one else None


def _closes(entry: Entry, torn: list[bytes], reading: ChainReading) -> bool:
    """Whether an entry is the one that a writer put behind these lines, because it found them torn."""
    expected = {"event": TORN, "prev": _digest(b"\n".join(torn)), "after": reading.head, "seq": len(reading.entries) + 1}
    return all(entry.get(key) == value for key, value in expected.items())


def _why(raw: bytes, entry: Entry | None, number: int) -> str:
    if entry is None:
        return f"it is not a whole line: the writer was killed, or it was changed ({len(raw)} bytes)"
    if entry["seq"] != number:
        return f"it is number {entry['seq']}, and {number} is next"
    return "it does not follow from the line before it: one of the two was changed"


def _sync_folder(folder: Path) -> None:
    """Wait until the disk has the name of a new file."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
