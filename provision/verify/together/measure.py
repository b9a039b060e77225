"""Run `onhost.py` on all hosts at once: each says where it listens, is told of the others, and says what it found."""

import asyncio
import base64
import json
import re
import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from provision.errors import GpuprovError
from provision.host import python
from provision.host.ssh import Target, execute

_PROGRAM: Final = Path(__file__).with_name("onhost.py")
_LOOK_S: Final = 0.02
_MOST_OUTPUT: Final = 2 << 20
_Text = Annotated[str, Field(max_length=300)]
_Port = Annotated[int, Field(ge=1, le=65535)]
Model = TypeVar("Model", bound=BaseModel)
_Seconds = Annotated[float, Field(allow_inf_nan=False)]


class _GroupAnswer(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class ClockAnswer(_GroupAnswer):
    """By how much a peer's clock is ahead, and how wrong that can be."""

    ahead_s: _Seconds
    error_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class PeerAnswer(_GroupAnswer):
    """What one host found of another.

    Attributes:
        resolved: the addresses of the other's host name.
        clock: None where no connection was made; `tcp` says why.
        ssh: why port 22 could not be reached; empty where it could.
        small, large: whether a small packet, and one of the interface's MTU, came through in one piece; None where it was not tried.
    """

    resolved: list[_Text]
    clock: ClockAnswer | None
    tcp: _Text
    ssh: _Text
    small: bool
    large: bool | None


class HostAnswer(_GroupAnswer):
    """What one host found: of its peers by name, of its own name, and of EFA (None where nothing can say)."""

    peers: dict[str, PeerAnswer]
    own: list[_Text]
    efa: bool | None


class _Ready(_GroupAnswer):
    tcp: _Port
    udp: _Port


@dataclass(frozen=True, slots=True)
class ListeningHost:
    """One host of the group; hostname, address and MTU were observed on it."""

    target: Target
    hostname: str
    address: str
    mtu: int


@dataclass(slots=True)
class _Talk:
    """The talk with one host: what it printed, whether it ended, and why."""

    output: bytearray = field(default_factory=bytearray)
    ended: bool = False
    why: str = ""
    ready: _Ready | None = None
    done: HostAnswer | None = None

    def read(self, nonce: str) -> None:
        """Read what has arrived."""
        self.ready = self.ready or _found(_Ready, self.output, nonce, "ready")
        self.done = self.done or (_found(HostAnswer, self.output, nonce, "done") if self.ready else None)


@dataclass(slots=True)
class _Round:
    """One measurement: all talks, and the two moments for which each host waits."""

    talks: dict[str, _Talk]
    nonce: str = field(default_factory=lambda: secrets.token_hex(8))
    listening: asyncio.Event = field(default_factory=asyncio.Event)
    finished: asyncio.Event = field(default_factory=asyncio.Event)

    async def watch(self) -> None:
        """Say when all hosts listen, and when all are done; one that ended is waited for no longer."""
        talks = self.talks.values()
        while not self.finished.is_set():
            for talk in talks:
                talk.read(self.nonce)
            if all(talk.ready or talk.ended for talk in talks):
                self.listening.set()
            if all(talk.done or talk.ended for talk in talks):
                self.finished.set()
            await asyncio.sleep(_LOOK_S)


async def measure(members: Sequence[ListeningHost], *, timeout_s: float) -> dict[str, HostAnswer | str]:
    """What each host found of the others, by name; a text says why there is nothing from a host."""
    now = _Round({member.target.name: _Talk() for member in members})

    async def run(member: ListeningHost) -> None:
        talk = now.talks[member.target.name]
        try:
            done = await execute(
                member.target,
                python.command(now.nonce),
                stdin=_parcel(member, members, now),
                timeout_s=timeout_s,
                max_output_bytes=_MOST_OUTPUT,
                output=talk.output,
            )
            talk.why = done.stderr.decode(errors="replace").strip()[-200:]
        except GpuprovError as error:
            talk.why = error.message
        finally:
            talk.read(now.nonce)
            talk.ended = True

    await asyncio.gather(now.watch(), *map(run, members))
    return {name: talk.done or talk.why or "it said nothing" for name, talk in now.talks.items()}


async def _parcel(member: ListeningHost, members: Sequence[ListeningHost], now: _Round) -> AsyncIterator[bytes]:
    """What one host reads: the program, where it listens, who the others are; and the end, when all others are done."""
    yield python.piece(_PROGRAM.read_bytes() + b"\nmain(s)\n")
    yield _line({"nonce": now.nonce, "address": member.address, "mtu": member.mtu})
    await now.listening.wait()
    peers = []
    for other in members:
        ready = now.talks[other.target.name].ready
        if ready and other is not member:
            where = {"name": other.target.name, "hostname": other.hostname, "address": other.address}
            peers.append({**where, "tcp": ready.tcp, "udp": ready.udp})
    yield _line(peers)
    await now.finished.wait()


def _line(data: Any) -> bytes:
    return json.dumps(data).encode() + b"\n"


def _found(kind: type[Model], output: bytearray, nonce: str, name: str) -> Model | None:
    """What a host said under a name; None where it has not, or in another form."""
    found = re.search(rb"<<gpuprov %s %s ([A-Za-z0-9+/=]*)>>" % (nonce.encode(), name.encode()), bytes(output))
    try:
        return kind.model_validate_json(base64.b64decode(found[1], validate=True)) if found else None
    except (ValidationError, ValueError):
        return None
