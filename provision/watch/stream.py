"""Samples of a host, for as long as somebody wants them: one connection, one process there, and nothing left behind.

The process on the host ends when its standard input closes, which a killed client causes as well. A host may die, lie, stall or flood:
each is a `Lost` with its reason, and the connection is made again, later each time.
"""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import time
import zlib
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from provision.errors import GpuprovError, HostUnreachableError, ProbeFailedError
from provision.host import python
from provision.host.ssh import Target, refusal, ssh_argv
from provision.structs import Struct
from provision.watch import sample
from provision.watch.sample import Sample

SAMPLER: Final = Path(__file__).parent / "sampler"
_MODULES: Final = ("host", "gpus", "stream")
_LOADER: Final = """
import importlib.abc, importlib.util, json, sys, zlib
def piece():
    return s.read(int(s.readline()))
sent = {name: text for name, text in json.loads(zlib.decompress(piece()).decode()).items()}
packed, request = piece(), json.loads(piece().decode())
if sys.version_info < (3, 7):
    print("%s old %d.%d" % ((request["nonce"],) + sys.version_info[:2]))
    sys.exit()
class Sent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name in sent or name == "pynvml" else None
    def exec_module(self, module):
        text = sent[module.__name__] if module.__name__ != "pynvml" else zlib.decompress(packed).decode()
        exec(compile(text, "<gpuprov %s>" % module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Sent())
importlib.import_module("stream").main(request)
"""
# A host that sends more than this in a second is not believed: a sample of 16 GPUs has 20 KB.
_MOST_BYTES_S: Final = 2_000_000
_FIRST_S: Final = 20.0
_GOOD: Final = 10
_BACK_OFF_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0)


class Lost(Struct):
    """Why there are no samples now, and when the connection is tried again."""

    error: GpuprovError
    retry_s: float


@cache
def _program() -> bytes:
    return zlib.compress(json.dumps({name: (SAMPLER / f"{name}.py").read_text() for name in _MODULES}).encode(), 6)


async def samples(target: Target, interval_s: float) -> AsyncGenerator[Sample | Lost]:
    """Samples at an interval, and a `Lost` whenever they end. It goes on until the caller stops."""
    failures = 0
    while True:
        heard = 0
        try:
            async for each in _connection(target, interval_s):
                heard += 1
                failures = 0 if heard == _GOOD else failures  # one that sends a sample and fails again is asked ever later
                yield each
            msg = f"{target.name} ended the session"
            raise HostUnreachableError(msg, hint="it may have been switched off, or its python3 was killed")
        except GpuprovError as error:
            retry_s = _BACK_OFF_S[min(failures, len(_BACK_OFF_S) - 1)]
            failures += 1
            yield Lost(error, retry_s)
        await asyncio.sleep(retry_s)


async def _connection(target: Target, interval_s: float) -> AsyncGenerator[Sample]:
    """The samples of one connection."""

    def parcel(nonce: str) -> tuple[bytes, ...]:
        return _LOADER.encode(), _program(), python.pynvml(), json.dumps({"nonce": nonce, "interval_s": interval_s}).encode()

    async with contextlib.aclosing(lines(target, parcel, interval_s)) as every:
        async for line in every:
            yield sample.parse(line, target.name)


async def lines(target: Target, parcel: Callable[[str], Sequence[bytes]], interval_s: float) -> AsyncGenerator[bytes]:
    """The lines of a program of ours on a host; it always ends with the process, here and there.

    `parcel` has what is sent, for a nonce with which every line must begin. A line comes within twice `interval_s` or so.
    """
    nonce = secrets.token_hex(8)
    command = python.command(nonce)
    argv = ["/bin/sh", "-c", command] if target.is_local else [*ssh_argv(target), command]
    process = await _started(argv)
    assert process.stdin is not None  # noqa: S101 - asked for above
    assert process.stdout is not None  # noqa: S101
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(b"".join(python.piece(part) for part in parcel(nonce)))
            await process.stdin.drain()
        async for line in _lines(process, target, interval_s):
            if line.startswith(b"<<gpuprov " + nonce.encode() + b" none>>"):
                msg = f"{target.name} has no python3"
                raise ProbeFailedError(msg, hint=f"`gpuprov apply {target.name}` installs it with the first role")
            word, _, rest = line.partition(b" ")
            if word != nonce.encode():
                continue  # a banner, or what a start-up file prints
            if rest.startswith(b"old "):
                msg = f"{target.name} has Python {rest[4:20].decode(errors='replace').strip()}, and 3.7 is the oldest that can measure"
                raise ProbeFailedError(msg, hint="install a newer python3 there, and put it first on the path of SSH commands")
            yield rest
        await _say_why(process, target)
    finally:
        await _end(process)


async def _started(argv: list[str]) -> asyncio.subprocess.Process:
    """Start a program. If this is cancelled meanwhile, it is ended: Python 3.11 may wait for ever for a start that was cancelled."""
    start = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=sample.MAX_LINE_BYTES,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(start)
    except asyncio.CancelledError:
        await _end(await start)
        raise


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill a program with what it started. The pipes are closed first: one that is full and read no more would never tell its end.

    They are closed one by one: the transport's own `close` takes the end of the process as well, and whoever waits for it then finds none.
    """
    for number in (0, 1, 2):
        pipe = process._transport.get_pipe_transport(number)  # type: ignore[attr-defined]  # noqa: SLF001 - as in `host.ssh.execute`
        if pipe is not None:
            pipe.close()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def _lines(process: asyncio.subprocess.Process, target: Target, interval_s: float) -> AsyncGenerator[bytes]:
    """The lines that come, within the time and the amount that samples take."""
    assert process.stdout is not None  # noqa: S101 - asked for
    wait_s, began, received = _FIRST_S, time.monotonic(), 0
    while True:
        try:
            async with asyncio.timeout(wait_s):
                line = await process.stdout.readline()
        except TimeoutError:
            msg = f"{target.name} sent nothing for {wait_s:.0f} s"
            raise HostUnreachableError(msg, hint="the host or the connection stalls; see its load, and the driver's messages") from None
        except ValueError:
            msg = f"{target.name} sent a line of more than {sample.MAX_LINE_BYTES // 1024} KiB"
            raise ProbeFailedError(msg, hint="another program writes into the session: see what the login's start-up files print") from None
        if not line:
            return
        received += len(line)
        if received > sample.MAX_LINE_BYTES + _MOST_BYTES_S * (time.monotonic() - began):
            msg = f"{target.name} sends more than samples can be"
            raise ProbeFailedError(msg, hint="another program writes into the session: see what the login's start-up files print")
        wait_s = max(_FIRST_S / 2, 4 * interval_s)
        yield line


async def _say_why(process: asyncio.subprocess.Process, target: Target) -> None:
    """Raise what ssh or the host's python said at its end, if it said something."""
    assert process.stderr is not None  # noqa: S101 - asked for
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(3):
            said = (await process.stderr.read(65_536)).decode(errors="replace")
            code = await process.wait()
            if code == 255 and not target.is_local:  # noqa: PLR2004 - ssh(1)
                raise refusal(target, said)
            if code:
                last = next((line for line in reversed(said.splitlines()) if line.strip()), "it said nothing")
                msg = f"the sampler on {target.name} ended with {code}: {last[:200]}"
                raise ProbeFailedError(msg, hint=f"`gpuprov probe {target.name}` shows what this host tells")
