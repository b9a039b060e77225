"""Facts from a host in one round trip: one connection, one command, the probe on its standard input, a framed answer.

While the probe waits for slow facts it sends the others ahead, in numbered parts: when the host dies half-way, these are still judged.

The host is not trusted: its output may be cut off, doubled, corrupted, endless or about another day. None of that may cost more than
the allowed time and memory, and the result is always facts, unknown facts, or an error that shows the output.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
import secrets
import zlib
from collections.abc import AsyncIterator, Awaitable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from provision.errors import FactsInvalidError, GpuprovError, HostUnreachableError, ProbeFailedError
from provision.host import python
from provision.host.ssh import Completed, Target, execute
from provision.structs import Struct, asdict

if TYPE_CHECKING:  # the models of the facts take longer to import than all the rest, and the connection opens meanwhile
    from provision.profile.model import Profile
    from provision.verify.facts import Facts

PROBE: Final = Path(__file__).parent / "probe"
# In the order in which they import each other.
MODULES: Final = (
    *("run", "device", "system", "disk", "sessions", "health", "links", "mig", "gpu", "boot", "settings", "counters", "surroundings"),
    *("egress", "cluster"),
    *("containers", "stack", "kernels", "vision", "libraries", "worker", "perf"),
)
# What the client adds to facts: a host has no say in them.
ADDED: Final = frozenset({"bench", "fleet"})
_MAX_OUTPUT: Final = 8 * 1024 * 1024
_MAX_FACTS: Final = 4 * 1024 * 1024
_MAX_PARTS: Final = 2 * 1024 * 1024  # all parts together
# What unpacking bytes from a stranger may raise.
_BROKEN: Final = (ValueError, TypeError, KeyError, zlib.error, RecursionError)

# A python3 that is too old for the probe is a fact like any other: this code is written so that it runs there too.
# pynvml is compiled only when a fact needs it: its 10,000 lines take longer than all other facts together.
# The request comes last, because facts begin before the client has read the profile, which says what to ask.
_LOADER: Final = """
import importlib.abc, importlib.util, json, sys, threading, zlib
def piece():
    return s.read(int(s.readline()))
sent, head = json.loads(zlib.decompress(piece()).decode()), json.loads(piece().decode())
if sys.version_info < (3, 7):
    import base64, time
    python3 = {"version": "%d.%d.%d" % sys.version_info[:3], "path": sys.executable}
    answer = {"gathered_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "elapsed_s": 0, "facts": {"python3": {"value": python3}}}
    packed = base64.b64encode(zlib.compress(json.dumps(answer).encode())).decode()
    print("\\n<<gpuprov %s %d>>%s<<end>>" % (head["nonce"], len(packed), packed))
    sys.exit()
pynvml, is_here = [], threading.Event()
class Sent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name in sent["modules"] or name == "pynvml" else None
    def exec_module(self, module):
        if module.__name__ == "pynvml":
            is_here.wait()
        text = zlib.decompress(pynvml[0]).decode() if module.__name__ == "pynvml" else sent["modules"][module.__name__]
        exec(compile(text, "<gpuprov %s>" % module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Sent())
facts = {}
for name in sent["order"]:
    facts.update(getattr(importlib.import_module(name), "FACTS", {}))
def ask():
    pynvml.append(piece())
    is_here.set()
    return json.loads(piece().decode())
importlib.import_module("run").main(head, facts, ask)
"""


@cache
def _program() -> bytes:
    """The probe, packed once for all hosts."""
    modules = {name: (PROBE / f"{name}.py").read_text() for name in MODULES}
    return zlib.compress(json.dumps({"modules": modules, "order": MODULES[1:]}).encode(), 6)


class Asked(Struct):
    """What a probe is asked beyond the facts that it gathers anyway.

    Attributes:
        tier: how much it gathers.
        containers: the engine in whose container it runs a program, or `none`.
        prefix: the environment of the image's own PyTorch; empty for gpuprov's.
    """

    tier: str = "standard"
    containers: str = "none"
    prefix: str = ""

    @classmethod
    def of(cls, profile: Profile, tier: str) -> Asked:
        """What a profile takes to be judged."""
        own = profile.stack.python
        return cls(tier, profile.stack.containers, (own.prefix if own else None) or "")


async def _parcel(nonce: str, deadline_s: float, asked: Asked | Awaitable[Asked]) -> AsyncIterator[bytes]:
    """The bytes for the probe's standard input."""
    head = json.dumps({"nonce": nonce, "deadline_s": deadline_s}).encode()
    yield b"".join(map(python.piece, (_LOADER.encode(), _program(), head, python.pynvml())))
    yield python.piece(json.dumps(asdict(asked if isinstance(asked, Asked) else await asked)).encode())


async def observe(target: Target, *, timeout_s: float = 60, asked: Asked | Awaitable[Asked] = Asked()) -> Facts:
    """Gather the facts of a host; the connection is opened before what is asked is awaited.

    The probe itself gets three seconds less than `timeout_s`, so that it can still say which facts it lacks. ProbeFailedError where the
    host ran something and no facts came back. Other errors are those of `execute`, unless some facts had arrived: the others are unknown.
    """
    nonce = secrets.token_hex(8)
    parcel = _parcel(nonce, max(1.0, timeout_s - 3), asked)
    output = bytearray()
    try:
        result = await execute(
            target, python.command(nonce), stdin=parcel, timeout_s=timeout_s, max_output_bytes=_MAX_OUTPUT, output=output
        )
    except HostUnreachableError as error:
        reason = f"the connection ended before it came: {error.message}"
        if (partial := _partial(target, _parts(bytes(output), nonce), reason)) is not None:
            return partial
        raise
    return _unframe(target, result, nonce, dt.datetime.now(dt.UTC))


def _unframe(target: Target, result: Completed, nonce: str, now: dt.datetime) -> Facts:
    """Find the frame with our nonce, whatever a banner, a profile script or a careless python printed around it."""
    why = "more output than can be facts" if result.truncated else f"exit code {result.exit_code}"
    parts = _parts(result.stdout, nonce)
    for frame in re.finditer(rb"<<gpuprov %s (\d{1,9})>>([A-Za-z0-9+/=]*)<<end>>" % nonce.encode(), result.stdout):
        try:
            answer, _ = _unpack(frame[2], int(frame[1]))
            facts = {**_facts_of(parts, "a part of the answer did not arrive whole"), **answer["facts"], "clock_ahead": _clock(answer, now)}
            return _parse(target, answer, facts)
        except (*_BROKEN, FactsInvalidError) as error:
            why = f"its answer is broken: {str(error)[:200] or type(error).__name__}"
    if f"<<gpuprov {nonce} none>>".encode() in result.stdout:
        return _parse(target, {"gathered_at": "", "elapsed_s": 0}, {"python3": {"value": None}})
    if (partial := _partial(target, parts, f"the probe ended before it came: {why}")) is not None:
        return partial
    raise _failure(target, result, why, cut=f"<<gpuprov {nonce} ".encode() in result.stdout)


def _parse(target: Target, answer: dict[str, Any], facts: dict[str, Any]) -> Facts:
    from provision.verify.facts import SCHEMA, parse  # noqa: PLC0415 - slow to import, and the connection opens meanwhile: see the top

    said = {name: answer for name, answer in facts.items() if name not in ADDED}
    return parse({**answer, "schema": SCHEMA, "facts": said}, f"the probe on {target.name}")


def _facts_of(parts: list[dict[str, Any]], reason: str) -> dict[str, Any]:
    """The facts of all parts that were sent ahead; a fact that was promised and is in none of them is unknown for this reason."""
    promised = [names for part in parts if isinstance(names := part.get("promised"), list)]
    facts: dict[str, Any] = {name: {"unknown": reason} for names in promised for name in names if isinstance(name, str)}
    for part in reversed(parts):
        facts.update(part["facts"])
    return facts


def _parts(output: bytes, nonce: str) -> list[dict[str, Any]]:
    """The parts that arrived whole, by number; of a repeated number the first, and together no larger than facts can be."""
    parts: dict[int, dict[str, Any]] = {}
    room = _MAX_PARTS
    for frame in re.finditer(rb"<<gpuprov %s part (\d{1,4}) (\d{1,9})>>([A-Za-z0-9+/=]*)<<end>>" % nonce.encode(), output):
        if int(frame[1]) in parts:
            continue
        try:
            parts[int(frame[1])], size = _unpack(frame[3], int(frame[2]), room)
        except _BROKEN:
            continue
        room -= size
    return [parts[number] for number in sorted(parts)]


def _partial(target: Target, parts: list[dict[str, Any]], reason: str) -> Facts | None:
    """The facts of an answer that broke off; None where none had arrived."""
    if not parts:
        return None
    try:
        return _parse(target, parts[-1], {**_facts_of(parts, reason), "clock_ahead": {"unknown": reason}})
    except FactsInvalidError:
        return None


def _unpack(frame: bytes, length: int, most: int = _MAX_FACTS) -> tuple[dict[str, Any], int]:
    """The content of a frame that is whole and no larger than facts can be, and its size in bytes; another raises one of _BROKEN."""
    if len(frame) != length:
        msg = f"{len(frame)} characters came of {length}"
        raise ValueError(msg)
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(base64.b64decode(frame, validate=True), max(1, most))
    if unpacker.unconsumed_tail or not unpacker.eof:
        msg = "it is cut off, or larger than facts can be"
        raise ValueError(msg)
    answer = json.loads(text)
    if not isinstance(answer, dict) or not isinstance(answer["facts"], dict):
        msg = "it holds no facts"
        raise TypeError(msg)
    return answer, len(text)


def _clock(answer: dict[str, Any], now: dt.datetime) -> dict[str, Any]:
    """How far the host's clock is ahead of ours: the one fact that takes both sides."""
    try:
        start = now - dt.timedelta(seconds=float(answer["elapsed_s"]))
        return {"value": {"ahead_s": round((dt.datetime.fromisoformat(answer["gathered_at"]) - start).total_seconds(), 1)}}
    except (ValueError, TypeError, KeyError, OverflowError):
        return {"unknown": "the host named no time that could be read"}


def _failure(target: Target, result: Completed, why: str, *, cut: bool) -> GpuprovError:
    """The error for an answer that holds no facts, with the output that came instead."""
    host = target.destination or "localhost"
    by_hand = "run the script that `gpuprov probe --script` prints on the host by hand, and judge its output with `gpuprov verify --facts`"
    if result.truncated:
        hint = f"something prints without end at login or when python3 starts: see `ssh {host} true`; or {by_hand}"
    elif cut:
        hint = f"the answer began and did not arrive whole: try again; or {by_hand}"
    else:
        hint = f"see whether `ssh {host} python3 -V` works; or {by_hand}"
    output = (result.stderr or result.stdout)[-500:].decode(errors="replace").strip()
    return ProbeFailedError(f"the probe ran on {target.name} and no facts came back ({why})", hint=hint, detail=output)
