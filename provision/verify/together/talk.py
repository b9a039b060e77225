"""Run one program on all hosts of a group at once: each says that it is ready, is told of the others, and says what it found."""

import asyncio
import base64
import json
import re
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from provision.errors import GpuprovError
from provision.host import python
from provision.host.ssh import Target, execute
from provision.structs import MutableStruct, Struct, field

_LOOK_S: Final = 0.02
_MOST_OUTPUT: Final = 2 << 20


class GroupAnswer(BaseModel):
    """What a host says: strictly of this form."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", defer_build=True)


Ready = TypeVar("Ready", bound=GroupAnswer)
Done = TypeVar("Done", bound=GroupAnswer)
_Kind = TypeVar("_Kind", bound=GroupAnswer)


class GroupProgram(Struct, Generic[Ready, Done]):
    """What all hosts run.

    Attributes:
        code: defines `main(s)`, whose argument is the rest of standard input; it may run on any Python 3.6 or later.
        ready, done: the forms of its two answers.
        first: what a host is told at once, by its name; the nonce of its answers is added.
        second: what it is told when all have said that they are ready, from its name and their answers; None where there is nothing to do.
    """

    code: bytes
    ready: type[Ready]
    done: type[Done]
    first: Callable[[str], dict[str, Any]]
    second: Callable[[str, Mapping[str, Ready]], Any]


class _Talk(MutableStruct, Generic[Ready, Done]):
    """The talk with one host: what it printed, whether it ended, and why."""

    program: GroupProgram[Ready, Done]
    output: bytearray = field(default_factory=bytearray)
    ended: bool = False
    why: str = ""
    ready: Ready | None = None
    done: Done | None = None

    def read(self, nonce: str) -> None:
        """Read what has arrived."""
        self.ready = self.ready or _found(self.program.ready, self.output, nonce, "ready")
        self.done = self.done or (_found(self.program.done, self.output, nonce, "done") if self.ready else None)


class _Round(MutableStruct, Generic[Ready, Done]):
    """One run: all talks, and the two moments for which each host waits."""

    talks: dict[str, _Talk[Ready, Done]]
    nonce: str = field(default_factory=lambda: secrets.token_hex(8))
    all_ready: asyncio.Event = field(default_factory=asyncio.Event)
    finished: asyncio.Event = field(default_factory=asyncio.Event)

    async def watch(self) -> None:
        """Say when all hosts are ready, and when all are done; one that ended is waited for no longer."""
        talks = self.talks.values()
        while not self.finished.is_set():
            for talk in talks:
                talk.read(self.nonce)
            if all(talk.ready or talk.ended for talk in talks):
                self.all_ready.set()
            if all(talk.done or talk.ended for talk in talks):
                self.finished.set()
            await asyncio.sleep(_LOOK_S)


async def converse(targets: Sequence[Target], program: GroupProgram[Ready, Done], *, timeout_s: float) -> dict[str, Done | str]:
    """What each host found, by name; a text says why there is nothing from a host."""
    now = _Round[Ready, Done]({target.name: _Talk(program) for target in targets})

    async def parcel(name: str) -> AsyncIterator[bytes]:
        yield python.piece(program.code + b"\nmain(s)\n")
        yield _line({"nonce": now.nonce, **program.first(name)})
        await now.all_ready.wait()
        yield _line(program.second(name, {each: talk.ready for each, talk in now.talks.items() if talk.ready}))
        await now.finished.wait()

    async def run(target: Target) -> None:
        talk = now.talks[target.name]
        try:
            ended = await execute(
                target,
                python.command(now.nonce),
                stdin=parcel(target.name),
                timeout_s=timeout_s,
                max_output_bytes=_MOST_OUTPUT,
                output=talk.output,
            )
            talk.why = ended.stderr.decode(errors="replace").strip()[-200:]
        except GpuprovError as error:
            talk.why = error.message
        finally:
            talk.read(now.nonce)
            talk.ended = True

    await asyncio.gather(now.watch(), *map(run, targets))
    return {name: talk.done or talk.why or "it said nothing" for name, talk in now.talks.items()}


def _line(data: Any) -> bytes:
    return json.dumps(data).encode() + b"\n"


def _found(kind: type[_Kind], output: bytearray, nonce: str, name: str) -> _Kind | None:
    """What a host said under a name; None where it has not, or in another form."""
    found = re.search(rb"<<gpuprov %s %s ([A-Za-z0-9+/=]*)>>" % (nonce.encode(), name.encode()), bytes(output))
    try:
        return kind.model_validate_json(base64.b64decode(found[1], validate=True)) if found else None
    except (ValidationError, ValueError):
        return None
