"""Observations that begin while the rest of the program is still being imported.

Opening a connection takes as long as our own imports, and neither needs the other. So this module imports nothing heavy. A host begins with
the facts that every profile needs; what else is asked, which only the profile knows, follows.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from provision.host.ssh import Target
from provision.verify.observe import Asked, observe

if TYPE_CHECKING:
    from provision.verify.facts import Facts

_END_S = 10  # more than a command has to end by itself


class EarlyObservations:
    """Connections to hosts, opened at once in a thread of their own. The end of the `with` closes those that were not taken.

    `timeout_s` is for one observation, from now on.
    """

    def __init__(self, targets: Sequence[Target], *, timeout_s: float) -> None:
        self.started_at = time.monotonic()  # when the connections began to open
        self._loop = asyncio.new_event_loop()
        self._asked: dict[Target, concurrent.futures.Future[Asked]] = {target: concurrent.futures.Future() for target in targets}
        self._thread = threading.Thread(target=self._loop.run_forever, name="ahead", daemon=True)
        self._thread.start()
        self._observations = {
            target: asyncio.run_coroutine_threadsafe(self._observe(target, asked, timeout_s), self._loop)
            for target, asked in self._asked.items()
        }

    @staticmethod
    async def _observe(target: Target, asked: concurrent.futures.Future[Asked], timeout_s: float) -> Facts:
        return await observe(target, timeout_s=timeout_s, asked=asyncio.wrap_future(asked))

    def tell(self, asked: Asked) -> None:
        """Send what is asked to every host that was not told yet."""
        for future in self._asked.values():
            if not future.done():
                future.set_result(asked)

    def take(self, target: Target, asked: Asked) -> concurrent.futures.Future[Facts] | None:
        """The facts of a host, once; None where no observation of it began, it was already taken, or it was asked something else."""
        future = self._asked.get(target)
        if future is None or (future.done() and future.result() != asked):
            return None
        if not future.done():
            future.set_result(asked)
        return self._observations.pop(target, None)

    def __enter__(self) -> Self:
        """Nothing more: the connections are already opening."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections that were not taken."""
        for observation in self._observations.values():
            observation.cancel()
        asyncio.run_coroutine_threadsafe(_all_tasks_ended(), self._loop).result(_END_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_S)
        self._loop.close()


async def _all_tasks_ended() -> None:
    """Wait until every other task of this loop has ended, together with the processes it started."""
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task is not asyncio.current_task()), return_exceptions=True)
