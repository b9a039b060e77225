"""Many hosts behind one loopback port, for the real `gpuprov monitor`: its processes, pipes and connections are real, its hosts are not.

In the place of ssh stands a script that carries standard input and output over one connection, as ssh does, and ends with 255 where ssh
does. What runs on the host is played here, one coroutine a host: it reads what the sampler is sent, and answers as the host's name says.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from .samples import IDLE, entry, gpu

_SSH = """#!/bin/bash
exec 3<>/dev/tcp/127.0.0.1/{port} || exit 255
printf '%s\\n' "${{@: -2:1}}" >&3
exec 4<&0
cat <&4 >&3 &
cat <&3
kill $!
echo "ssh: connect to host x port 22: Connection refused" >&2
exit 255
"""
EVIL = "H\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\r\n"
QUIET: dict[str, Any] = {**IDLE, "memory_used_bytes": 0}
HOLDS = {"gpu": 0, "pid": 7, "user": "ada", "command": "python train.py"}
"""What a host sends as its sample of a number: readings of one GPU, and the rest of the sample."""
Played = Callable[[int], tuple[dict[str, Any], dict[str, Any]]]
PLAYED: dict[str, Played] = {
    "good": lambda n: ({"sm_active": (n % 8) / 8, "energy_mj": 1_000_000 + 150_000 * n, "temperature_c": 50 + n % 8}, {}),
    "range": lambda n: ({"temperature_c": 10**30} if n else {}, {}),
    "types": lambda n: ({"sm_active": "87 %"} if n else {}, {}),
    "names": lambda _: (
        {"name": EVIL, "uuid": EVIL, "power_w": None, "energy_mj": None},
        {"processes": [{**HOLDS, "user": EVIL, "command": EVIL}]},
    ),
    "idle": lambda _: (QUIET, {}),
    "kernels": lambda _: ({**QUIET, "sm_active": 0.5}, {}),
    "tires": lambda n: ({**QUIET, "sm_active": 0.5 if n < 15 else 0.0}, {}),
    "thread": lambda _: ({**QUIET, "kernel_present": 1.0}, {}),
    "power": lambda n: ({**QUIET, "power_w": 300.0 if n % 2 else 70.0}, {}),
    "bus": lambda _: ({**QUIET, "pcie_received_bytes_s": 1e9}, {}),
    "newcomer": lambda n: (QUIET, {"processes": [{**HOLDS, "pid": 100 + n}]}),
    "untold": lambda _: ({**QUIET, "sm_active": None, "kernel_present": None}, {}),
    "vanished": lambda _: ({**QUIET, "lost": "GPU is lost"}, {}),
    "parked": lambda _: ({**QUIET, "memory_used_bytes": 10 << 30}, {"processes": [HOLDS]}),
}


class Simulator:
    """The hosts. Those in `dead` are cut off, and refused until they are taken out again; `kinds` is for names that say nothing."""

    def __init__(self, every_s: float | None) -> None:
        self.dead: frozenset[str] = frozenset()
        self.kinds: dict[str, str] = {}
        self.open: set[str] = set()
        self.connections: list[str] = []
        self.sent: Counter[str] = Counter()
        self._every_s = every_s

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = (await reader.readline()).decode().strip()
        self.connections.append(name)
        self.open.add(name)
        try:
            # At the end the server's own tasks are cancelled; the streams of Python 3.11 complain of one that ends so.
            with contextlib.suppress(ConnectionError, ValueError, asyncio.IncompleteReadError, asyncio.CancelledError):
                pieces = [await reader.readexactly(int(await reader.readline())) for _ in range(4)]
                # As the sampler does: it ends when its standard input closes.
                ends = [asyncio.ensure_future(reader.read()), asyncio.ensure_future(self._send(name, json.loads(pieces[3]), writer))]
                _, pending = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                for end in pending:
                    end.cancel()
                await asyncio.gather(*ends, return_exceptions=True)
        finally:
            self.open.discard(name)
            writer.transport.abort()

    async def _send(self, name: str, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        async for text in self._told(name, request):
            writer.write(text)
            await writer.drain()

    async def _told(self, name: str, request: dict[str, Any]) -> AsyncIterator[bytes]:
        kind, number = self.kinds.get(name, name.partition("-")[0]), 0
        while name not in self.dead:
            if kind == "stalls" and number == 2:
                await self._until_dead(name, 600)
            while kind == "floods" and number == 1:
                yield b"x" * 999 + b"\n"
            while kind == "endless" and number == 1:
                yield b"x" * 65_536
            readings, more = PLAYED.get(kind, PLAYED["good"])(number)
            gpus = [] if kind == "cpu" else [gpu(**readings)]
            data = entry(*gpus, number=number, at=1000.0 + number, **more)
            yield f"a banner that is not a sample\n{request['nonce']} {json.dumps(data)}\n".encode()
            number += 1
            self.sent[name] += 1
            await self._until_dead(name, self._every_s or request["interval_s"])

    async def _until_dead(self, name: str, most_s: float) -> None:
        for _ in range(round(10 * most_s)):
            if name not in self.dead:
                await asyncio.sleep(0.1)


@contextlib.contextmanager
def simulated(folder: Path, *, every_s: float | None = None) -> Iterator[Simulator]:
    """The hosts while this lasts; `folder` is for PATH. `every_s` is how often they send, whatever they are asked for."""
    simulator, loop = Simulator(every_s), asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(simulator.serve, "127.0.0.1", 0, limit=1 << 20))
    folder.mkdir()
    (folder / "ssh").write_text(_SSH.format(port=server.sockets[0].getsockname()[1]))
    (folder / "ssh").chmod(0o755)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield simulator
    finally:

        async def end() -> None:
            server.close()
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await asyncio.sleep(0.01)  # a connection that is cut off is closed in the loop's next round

        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def path_with(folder: Path) -> str:
    return f"{folder}:{os.environ['PATH']}"
