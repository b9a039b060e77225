"""Reads the SQLite export of Nsight Systems, of any size, in bounded memory.

The file is a stranger's: it is opened read-only, nothing but plain tables is read, no function of it runs, and every value is looked at
before it is used. Tables are made lazily by nsys, so each may be absent; rows have no order unless one is asked for.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

from provision.errors import FactsInvalidError
from provision.watch.trace import model
from provision.watch.trace.model import LONGEST_NAME, MOST_CALLS, MOST_OPS, Call, Cut, Kind, Op, Range, Trace, TracePart, Wait, plain_name

_NO_TABLES: Final = "nsys wrote no table of CUDA: it ran without `-t cuda`, or the program failed before its first call of CUDA"
_HINT: Final = "write it with `nsys export --type sqlite FILE.nsys-rep`, or trace again with `gpuprov trace HOST -- COMMAND`"
_KERNEL, _GRAPH = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_COPY, _FILL = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"
_CALLS, _WAITS, _RANGES = "CUPTI_ACTIVITY_KIND_RUNTIME", "OSRT_API", "NVTX_EVENTS"
_OVERHEAD, _CUPTI_OVERHEAD = "PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD"
_GPU_TABLES: Final = (_KERNEL, _GRAPH, _COPY, _FILL)
# ENUM_CUDA_MEMCPY_OPER of the exports, unified memory's with their direction.
_COPY_KINDS: Final = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP", 11: "HtoD", 12: "DtoH", 13: "DtoD"}
_UNIFIED: Final = (11, 12, 13)
_SHAPE: Final = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
_PAGEABLE, _PINNED = 0, 1
_PUSH_POP, _START_END = 59, 60
_PROFILERS_OWN: Final = (3, 4)  # of ENUM_CUPTI_OVERHEAD_TYPE: buffer flush, instrumentation
_MOST_RANGES: Final = 200_000
_MOST_GPUS: Final = 64
# A call that was made before the window may start work in it.
_LEAD_NS: Final = 1_000_000_000
_ALLOWED: Final = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}
_FUNCTIONS: Final = {"count", "min", "max", "sum", "typeof", "substr", "coalesce"}
_FILL_UP: Final = 0.9
_LONGEST_S: Final = 600.0
_STEPS: Final = 100_000  # of SQLite's machine between two looks: some milliseconds

Rows = Iterator[tuple[Any, ...]]


def read(path: Path, cut: Cut) -> Trace:
    """The trace within its window.

    Raises:
        FactsInvalidError: it is not an export of nsys, or is damaged.
    """
    try:
        with _Export(path) as export, export.bounded():
            return export.trace(cut)
    except sqlite3.Error as error:
        msg = f"{path} is not a readable SQLite export: {str(error)[:200]}"
        raise FactsInvalidError(msg, hint=_HINT) from error


def _allow(action: int, first: str | None, second: str | None, _database: str | None, _inner: str | None) -> int:
    """What a query may do: read. A view or a trigger in the file could ask for more."""
    known = action in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS)
    asks_columns = action == sqlite3.SQLITE_PRAGMA and first == "table_info"
    return sqlite3.SQLITE_OK if known or asks_columns else sqlite3.SQLITE_DENY


class _Export:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = sqlite3.connect(f"file:{urllib.parse.quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)
        self._db.text_factory = lambda raw: raw.decode(errors="replace")
        self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1 << 20)
        self._db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self._db.execute("PRAGMA trusted_schema = OFF")
        self._db.execute("PRAGMA cell_size_check = ON")
        self._db.execute("PRAGMA cache_size = -32768")
        self._db.set_authorizer(_allow)
        self._columns: dict[str, set[str]] = {}
        self._notes: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    @contextlib.contextmanager
    def bounded(self) -> Iterator[None]:
        """End a query at Ctrl-C, and where all of them together take too long: pages that lead to each other have rows without end."""
        ends = time.monotonic() + _LONGEST_S
        self._db.set_progress_handler(lambda: time.monotonic() > ends, _STEPS)
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            if time.monotonic() <= ends:  # the look was cut short, and SQLite drops the exception that a signal raised there
                raise KeyboardInterrupt from error
            msg = f"{self._path} takes longer than {_LONGEST_S:.0f} s to read"
            raise FactsInvalidError(
                msg, hint="trace a shorter time; a small file that takes so long is damaged: export it again"
            ) from error

    def trace(self, cut: Cut) -> Trace:
        if not self._has("META_DATA_EXPORT", "name") and not self._has("StringIds", "id", "value"):
            msg = f"{self._path} is a database, and not an export of nsys"
            raise FactsInvalidError(msg, hint=_HINT)
        began, ended, skipped = self._window(cut)
        began = self._shrunk(began, ended)
        raw_ops = list(self._raw_ops(began, ended))
        since = min([began, *(row[1] for row in raw_ops[:1])]) - _LEAD_NS
        raw_calls = list(self._in(_CALLS, ("start", "end", "globalTid", "correlationId", "nameId"), since, ended, MOST_CALLS))
        raw_waits = list(self._in(_WAITS, ("start", "end", "globalTid", "nameId"), began, ended, MOST_CALLS))
        raw_ranges = self._raw_ranges(began, ended)
        ids = {_whole(row[-1]) for rows in (raw_ops, raw_calls, raw_waits, raw_ranges) for row in rows}
        names = self._strings(ids)
        calls = [
            Call(start, end, _whole(tid), _process(tid), _whole(correlation), plain_name(names.get(_whole(name), "?")))
            for start, end, tid, correlation, name in raw_calls
        ]
        missing = {
            part
            for part, table in ((TracePart.CALLS, _CALLS), (TracePart.WAITS, _WAITS), (TracePart.RANGES, _RANGES))
            if not self._has(table)
        }
        if not calls:
            missing.add(TracePart.CALLS)
        return Trace(
            maker=self._maker(),
            began=began,
            ended=ended,
            ops=[_op(row, names) for row in raw_ops],
            calls=calls,
            waits=[Wait(start, end, _whole(tid), names.get(_whole(name), "?")) for start, end, tid, name in raw_waits],
            ranges=sorted(
                Range(start, end, _whole(tid), str(text)[:LONGEST_NAME] if text is not None else names.get(_whole(name), "?"))
                for start, end, tid, text, name in raw_ranges
            ),
            missing=frozenset(missing),
            overhead_ns=self._overhead(began, ended),
            gpus=self._gpus(),
            warm_up_ns=skipped,
            no_work="" if any(map(self._has, _GPU_TABLES)) else _NO_TABLES,
            notes=self._notes,
        )

    def _has(self, table: str, *columns: str) -> bool:
        """Whether there is a plain table with these columns."""
        if table not in self._columns:
            kind = self._db.execute("SELECT type, substr(sql, 1, 40) FROM sqlite_master WHERE name = ?", (table,)).fetchone()
            plain = kind is not None and kind[0] == "table" and str(kind[1]).upper().split()[:2] == ["CREATE", "TABLE"]
            self._columns[table] = {str(row[1]) for row in self._db.execute(f'PRAGMA table_info("{table}")')} if plain else set()
        there = self._columns[table]
        return bool(there) and there.issuperset(columns)

    def _query(self, table: str, columns: Sequence[str], rest: str = "", values: Sequence[object] = (), *, alike: str = "") -> Rows:
        """The rows of a table whose times are times; a column that this version of nsys does not write is NULL."""
        if not self._has(table, "start", "end"):
            return iter(())
        chosen = ", ".join(alike if name == "*" else f'"{name}"' if name in self._columns[table] else "NULL" for name in columns)
        times = "typeof(start) = 'integer' AND typeof(\"end\") = 'integer' AND \"end\" >= start"
        return self._db.execute(f'SELECT {chosen} FROM "{table}" WHERE {times} {rest}', values)  # noqa: S608 - names of ours

    def _in(self, table: str, columns: Sequence[str], began: int, ended: int, most: int) -> Rows:
        return self._query(table, columns, 'AND start < ? AND "end" > ? ORDER BY start, "end" LIMIT ?', (ended, began, most))

    def _window(self, cut: Cut) -> tuple[int, int, int]:
        if cut.range_name:
            return *self._named(cut.range_name), 0
        processes: dict[int, tuple[int, int, int]] = {}
        for table in _GPU_TABLES:
            found = (
                self._query(table, ("globalPid", "*"), "GROUP BY 1 ORDER BY 2 DESC LIMIT 64", alike='count(*), min(start), max("end")')
                if self._has(table, "globalPid")
                else iter(())
            )
            for pid, count, first, last in found:
                known = processes.get(_whole(pid), (0, first, last))
                processes[_whole(pid)] = (known[0] + count, min(known[1], first), max(known[2], last))
        if not processes:
            return 0, 0, 0
        _, first, last = max(processes.values())
        return cut.window(first, last)

    def _named(self, name: str) -> tuple[int, int]:
        """The window of a named range."""
        ids = [_whole(row[0]) for row in self._db.execute("SELECT id FROM StringIds WHERE value = ? LIMIT 4", (name,))]
        marks = ", ".join("?" * len(ids))
        by_id = f" OR textId IN ({marks})" if ids and self._has(_RANGES, "textId") else ""
        by_text = "text = ?" if self._has(_RANGES, "text") else "? IS NULL"
        found = self._query(_RANGES, ("start", "end"), f"AND ({by_text}{by_id}) ORDER BY start LIMIT 1", (name, *ids))
        for start, end in found:
            return start, end
        msg = f"{self._path} has no range {name!a}"
        raise FactsInvalidError(msg, hint="the names are those that the program gives to NVTX; without --range the whole is looked at")

    def _shrunk(self, began: int, ended: int) -> int:
        """A later beginning, where the window holds more than is kept in memory."""
        asked = began
        for _ in range(8):
            ops = sum(self._count(table, began, ended) for table in _GPU_TABLES)
            over = max(ops / MOST_OPS, self._count(_CALLS, began, ended) / MOST_CALLS, self._count(_WAITS, began, ended) / MOST_CALLS)
            if over <= 1:
                break
            began = ended - int((ended - began) * _FILL_UP / over)
        if began != asked:
            self._notes.append(
                f"only the last {(ended - began) / 1e9:.2f} s of {(ended - asked) / 1e9:.2f} s are looked at: the trace is large"
            )
        return began

    def _count(self, table: str, began: int, ended: int) -> int:
        found = self._query(table, ("*",), 'AND start < ? AND "end" > ?', (ended, began), alike="count(*)")
        return sum(int(row[0]) for row in found)

    def _raw_ops(self, began: int, ended: int) -> list[tuple[Any, ...]]:
        """Rows of all GPU tables: kind, start, end, device, pid, correlation, bytes, copy kind, source, destination, shape, name."""
        rows: list[tuple[Any, ...]] = []
        for table, kind in ((_KERNEL, Kind.KERNEL), (_GRAPH, Kind.GRAPH), (_COPY, Kind.COPY), (_FILL, Kind.FILL)):
            name = "shortName" if self._has(table, "shortName") else "demangledName"
            columns = ("start", "end", "deviceId", "globalPid", "correlationId", "bytes", "copyKind", "srcKind", "dstKind", *_SHAPE, name)
            rows += [(kind, *row) for row in self._in(table, columns, began, ended, MOST_OPS)]
        return sorted(rows, key=lambda row: (row[1], row[2]))

    def _raw_ranges(self, began: int, ended: int) -> list[tuple[Any, ...]]:
        """The longest ranges of the window: start, end, thread, text, id of the text."""
        if not self._has(_RANGES, "eventType"):
            return []
        condition = f'AND eventType IN ({_PUSH_POP}, {_START_END}) AND start < ? AND "end" > ? ORDER BY "end" - start DESC LIMIT ?'
        rows = list(self._query(_RANGES, ("start", "end", "globalTid", "text", "textId"), condition, (ended, began, _MOST_RANGES)))
        if len(rows) == _MOST_RANGES:
            self._notes.append(f"only the {_MOST_RANGES} longest named ranges are looked at")
        return rows

    def _strings(self, ids: set[int]) -> dict[int, str]:
        """The texts of these ids, in one pass."""
        if not self._has("StringIds", "id", "value"):
            return {}
        found = self._db.execute(f"SELECT id, substr(CAST(value AS TEXT), 1, {LONGEST_NAME}) FROM StringIds")  # noqa: S608 - a number
        return {key: str(value) for key, value in found if key in ids}

    def _overhead(self, began: int, ended: int) -> int:
        parts = 'sum(min("end", ?) - max(start, ?))'
        own = f"AND overheadType IN {_PROFILERS_OWN}" if self._has(_CUPTI_OVERHEAD, "overheadType") else "AND 0"
        total = 0
        for table, which in ((_OVERHEAD, ""), (_CUPTI_OVERHEAD, own)):
            for row in self._query(table, ("*",), f'{which} AND start < ? AND "end" > ?', (ended, began, ended, began), alike=parts):
                total += max(0, _whole(row[0]))
        return total

    def _gpus(self) -> dict[int, model.Card]:
        if not self._has("TARGET_INFO_GPU", "id", "name"):
            return {}
        more = ", ".join(c if self._has("TARGET_INFO_GPU", c) else "NULL" for c in ("smCount", "computeMajor", "computeMinor"))
        query = f"SELECT id, substr(CAST(name AS TEXT), 1, 80), {more} FROM TARGET_INFO_GPU LIMIT ?"  # noqa: S608 - names of ours
        return {
            _whole(key): model.Card(str(name), max(0, _whole(sms)), f"{major}.{minor}" if min(_whole(major), _whole(minor)) >= 0 else "")
            for key, name, sms, major, minor in self._db.execute(query, (_MOST_GPUS,))
        }

    def _maker(self) -> str:
        if not self._has("META_DATA_EXPORT", "name", "value"):
            return "nsys, of an unknown version"
        query = "SELECT name, substr(CAST(value AS TEXT), 1, 40) FROM META_DATA_EXPORT WHERE name IN (?, ?)"
        found = dict(self._db.execute(query, ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION")))
        return (
            f"nsys {found.get('EXPORT_PRODUCT_VERSION', 'of an unknown version')}, schema {found.get('EXPORT_SCHEMA_VERSION', 'unknown')}"
        )


def _op(row: tuple[Any, ...], names: dict[int, str]) -> Op:
    kind, start, end, device, pid, correlation, size, copy_kind, source, destination, *shape, name = row
    text = names.get(_whole(name), "?") if kind is Kind.KERNEL else ("CUDA graph" if kind is Kind.GRAPH else str(kind))
    pageable = None
    if kind is Kind.COPY:
        text = _COPY_KINDS.get(_whole(copy_kind), "copy")
        if isinstance(source, int) and isinstance(destination, int):
            pageable = True if _PAGEABLE in {source, destination} else False if _PINNED in {source, destination} else None
    sides = tuple(shape) if kind is Kind.KERNEL and all(_whole(side) > 0 for side in shape) else ()
    known = (start, end, kind, _whole(device), _process(pid), _whole(correlation), text, max(0, _whole(size)), pageable)
    return Op(*known, copy_kind in _UNIFIED, sides)


def _whole(value: object) -> int:
    """A column's value where a whole number is expected: SQLite lets any column hold anything."""
    return value if isinstance(value, int) else -1


def _process(serial: object) -> int:
    """The process in a `globalTid` or `globalPid` of nsys, which holds the machine, the process and the thread."""
    return _whole(serial) >> 24 & 0xFFFFFF
