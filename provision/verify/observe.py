"""Facts from a host in one round trip: one connection, one command, the probe on its standard input, a framed answer.

While slow facts are awaited the others are sent ahead, in numbered parts: what came is kept, and judged, when the host dies half-way.

The host is not believed: what it prints may be cut off, doubled, corrupted, endless or about another day, and none of that may cost
more than the time and the memory that were allowed for, or end in anything but facts, unknown facts or an error that says what came.
"""

from __future__ import annotations

import base64
import datetime as dt
import importlib.util
import json
import re
import secrets
import shlex
import zlib
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from provision.errors import FactsInvalidError, GpuprovError, HostUnreachableError, ProbeFailedError
from provision.host.ssh import Completed, Target, execute

if TYPE_CHECKING:  # the models of the facts take longer to import than all the rest, and a connection may be opened meanwhile
    from provision.verify.facts import Facts

__all__ = ["MODULES", "PROBE", "observe"]

PROBE: Final = Path(__file__).parent / "probe"
# In the order in which they import each other.
MODULES: Final = (
    *("run", "device", "system", "disk", "sessions", "health", "links", "gpu", "settings", "counters", "surroundings"),
    *("stack", "worker", "perf"),
)
_MAX_OUTPUT: Final = 8 * 1024 * 1024
_MAX_FACTS: Final = 4 * 1024 * 1024
_MAX_PARTS: Final = 2 * 1024 * 1024  # all parts together

# What runs on the host before anything of ours is there: read a line with a length, then that many bytes, then run them.
_FIRST: Final = "import sys;s=sys.stdin.buffer;exec(s.read(int(s.readline())))"
# A python3 that is too old for the probe is a fact like others, said in words that it understands.
# pynvml follows behind and is read only when a fact asks for it: its 10,000 lines take a long way to travel and longer to compile than
# all other facts take together.
# The last module's facts start first: those of `stack` take longest. What is asked comes last, so that the modules are compiled by then.
_LOADER: Final = """
import importlib.abc, importlib.util, json, sys, types, zlib
sent = json.loads(zlib.decompress(s.read(int(s.readline()))).decode())
if sys.version_info < (3, 7):
    import base64, time
    request = json.loads(s.read(int(s.readline())).decode())
    found = {"version": "%d.%d.%d" % sys.version_info[:3], "path": sys.executable}
    told = {"gathered_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "elapsed_s": 0, "facts": {"python3": {"value": found}}}
    packed = base64.b64encode(zlib.compress(json.dumps(told).encode())).decode()
    print("\\n<<gpuprov %s %d>>%s<<end>>" % (request["nonce"], len(packed), packed))
    sys.exit()
class Sent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name in sent["modules"] or name == "pynvml" else None
    def exec_module(self, module):
        if module.__name__ == "pynvml":
            sent["modules"]["pynvml"] = zlib.decompress(s.read(int(s.readline()))).decode()
        exec(compile(sent["modules"][module.__name__], "<gpuprov %s>" % module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Sent())
facts = {}
for name in reversed(sent["order"]):
    facts.update(getattr(importlib.import_module(name), "FACTS", {}))
request = json.loads(s.read(int(s.readline())).decode())
importlib.import_module("run").main(request, facts)
"""


@cache
def _modules() -> dict[str, str]:
    """The probe's modules as source text."""
    return {name: (PROBE / f"{name}.py").read_text() for name in MODULES}


@cache
def _pynvml() -> bytes:
    """NVIDIA's module, packed once for all hosts."""
    found = importlib.util.find_spec("pynvml")
    assert found is not None and found.origin is not None  # noqa: S101, PT018 - a dependency of ours
    return zlib.compress(Path(found.origin).read_bytes(), 6)


@cache
def _program() -> bytes:
    """The probe, packed once for all hosts."""
    return zlib.compress(json.dumps({"modules": _modules(), "order": MODULES[1:]}).encode(), 6)


async def _parcel(nonce: str, deadline_s: float, tier: str | Awaitable[str]) -> AsyncIterator[bytes]:
    """The bytes for the probe's standard input."""

    def piece(part: bytes) -> bytes:
        return b"%d\n%s" % (len(part), part)

    yield piece(_LOADER.encode()) + piece(_program())
    asked = tier if isinstance(tier, str) else await tier
    yield piece(json.dumps({"nonce": nonce, "deadline_s": deadline_s, "tier": asked}).encode()) + piece(_pynvml())


def _command(nonce: str) -> str:
    """What the host's shell is asked to run.

    One word list for whatever login shell there is (fish, tcsh), which hands it to a POSIX sh: a host without python3 is an answer, not
    a failure. The frames are never spelled out in it, because a host may print back what it was asked. -I keeps the user's environment
    and folder out of the imports.
    """
    script = (
        f'if command -v python3 >/dev/null 2>&1; then exec python3 -IB -c "{_FIRST}"; else printf "\\n<<gpuprov %s none>>\\n" {nonce}; fi'
    )
    return f"exec /bin/sh -c {shlex.quote(script)}"


async def observe(target: Target, *, timeout_s: float = 60, tier: str | Awaitable[str] = "standard") -> Facts:
    """Gather the facts of a host.

    Args:
        target: which host.
        timeout_s: for everything; the probe itself gets three seconds less, so that it can still say what it did not get.
        tier: how much is gathered: quick, standard or perf; the connection is opened before an awaited one is known.

    Raises:
        ProbeFailedError: the host ran something and no facts came back.
        GpuprovError: as `provision.host.ssh.execute` raises them; not where some facts had come by then: the others are unknown.
    """
    nonce = secrets.token_hex(8)
    parcel = _parcel(nonce, max(1.0, timeout_s - 3), tier)
    heard = bytearray()
    try:
        done = await execute(target, _command(nonce), stdin=parcel, timeout_s=timeout_s, max_output_bytes=_MAX_OUTPUT, heard=heard)
    except HostUnreachableError as error:
        if (early := _partial(target, _parts(bytes(heard), nonce), f"the connection ended before it came: {error.message}")) is not None:
            return early
        raise
    return _unframe(target, done, nonce, dt.datetime.now(dt.UTC))


def _unframe(target: Target, done: Completed, nonce: str, now: dt.datetime) -> Facts:
    """Find the frame with our nonce, whatever a banner, a profile script or a careless python printed around it."""
    from provision.verify.facts import SCHEMA, parse  # noqa: PLC0415 - see the top

    why = "more output than can be facts" if done.truncated else f"exit code {done.exit_code}"
    parts = _parts(done.stdout, nonce)
    for found in re.finditer(rb"<<gpuprov %s (\d{1,9})>>([A-Za-z0-9+/=]*)<<end>>" % nonce.encode(), done.stdout):
        try:
            said, _ = _unpack(found[2], int(found[1]))
            facts = {**parts.facts("a part of the answer did not arrive whole"), **said["facts"], "clock_ahead": _clock(said, now)}
            return parse({**said, "schema": SCHEMA, "facts": facts}, f"the probe on {target.name}")
        except (ValueError, TypeError, KeyError, zlib.error, RecursionError, FactsInvalidError) as error:
            why = f"its answer is broken: {str(error)[:200] or type(error).__name__}"
    if f"<<gpuprov {nonce} none>>".encode() in done.stdout:
        return parse({"schema": SCHEMA, "gathered_at": "", "elapsed_s": 0, "facts": {"python3": {"value": None}}}, "no python3")
    if (early := _partial(target, parts, f"the probe ended before it came: {why}")) is not None:
        return early
    raise _nothing(target, done, why, cut=f"<<gpuprov {nonce} ".encode() in done.stdout)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What was sent ahead: the parts that came whole, in the order of their numbers."""

    came: list[dict[str, Any]]

    def facts(self, reason: str) -> dict[str, Any]:
        """All their facts; what was promised and is in none of them is unknown for this reason."""
        promised = [name for said in self.came for name in _names(said.get("promised"))]
        facts = {name: {"unknown": reason} for name in promised}
        for said in reversed(self.came):
            facts.update(said["facts"])
        return facts


def _names(promised: Any) -> list[str]:
    return [name for name in promised if isinstance(name, str)] if isinstance(promised, list) else []


def _parts(printed: bytes, nonce: str) -> _Parts:
    """The parts in what a host printed; of a number that comes twice the first, and together no more than facts can be."""
    came: dict[int, dict[str, Any]] = {}
    room = _MAX_PARTS
    for found in re.finditer(rb"<<gpuprov %s part (\d{1,4}) (\d{1,9})>>([A-Za-z0-9+/=]*)<<end>>" % nonce.encode(), printed):
        if int(found[1]) in came:
            continue
        try:
            came[int(found[1])], size = _unpack(found[3], int(found[2]), room)
        except (ValueError, TypeError, KeyError, zlib.error, RecursionError):
            continue
        room -= size
    return _Parts([came[number] for number in sorted(came)])


def _partial(target: Target, parts: _Parts, reason: str) -> Facts | None:
    """What came of an answer that broke off; None where that is nothing."""
    from provision.verify.facts import SCHEMA, parse  # noqa: PLC0415 - see the top

    if not parts.came:
        return None
    facts = {**parts.facts(reason), "clock_ahead": {"unknown": reason}}
    try:
        return parse({**parts.came[-1], "schema": SCHEMA, "facts": facts}, f"the probe on {target.name}")
    except FactsInvalidError:
        return None


def _unpack(frame: bytes, length: int, most: int = _MAX_FACTS) -> tuple[dict[str, Any], int]:
    """What a frame holds, whole and no larger than facts can be, and how large it is.

    Raises:
        ValueError, TypeError, KeyError, zlib.error, RecursionError: it does not.
    """
    if len(frame) != length:
        msg = f"{len(frame)} characters came of {length}"
        raise ValueError(msg)
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(base64.b64decode(frame, validate=True), max(1, most))
    if unpacker.unconsumed_tail or not unpacker.eof:
        msg = "it is cut off, or larger than facts can be"
        raise ValueError(msg)
    said = json.loads(text)
    if not isinstance(said, dict) or not isinstance(said["facts"], dict):
        msg = "it holds no facts"
        raise TypeError(msg)
    return said, len(text)


def _clock(said: dict[str, Any], now: dt.datetime) -> dict[str, Any]:
    """How far the host's clock is ahead of ours: the one fact that only both sides together can give."""
    try:
        began = now - dt.timedelta(seconds=float(said["elapsed_s"]))
        return {"value": {"ahead_s": round((dt.datetime.fromisoformat(said["gathered_at"]) - began).total_seconds(), 1)}}
    except (ValueError, TypeError, KeyError, OverflowError):
        return {"unknown": "the host named no time that could be read"}


def _nothing(target: Target, done: Completed, why: str, *, cut: bool) -> GpuprovError:
    """The error for an answer that holds no facts, with what came instead."""
    host = target.destination or "localhost"
    by_hand = "run what `gpuprov probe --script` prints on it by hand, and judge that file with `gpuprov verify --facts`"
    if done.truncated:
        hint = f"something prints without end at login or when python3 starts: see `ssh {host} true`; or {by_hand}"
    elif cut:
        hint = f"the answer began and did not arrive whole: try again; or {by_hand}"
    else:
        hint = f"see whether `ssh {host} python3 -V` works; or {by_hand}"
    said = (done.stderr or done.stdout)[-500:].decode(errors="replace").strip()
    return ProbeFailedError(f"the probe ran on {target.name} and no facts came back ({why})", hint=hint, detail=said)
