"""Observations that begin while the rest of the program is still being loaded.

A connection takes as long to open as our own imports do, and neither needs the other. So this module imports nothing that is heavy, and
what is asked of a host (the tier, which the profile knows) follows the connection.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from provision.host.ssh import Target
from provision.verify.observe import observe

if TYPE_CHECKING:
    from provision.verify.facts import Facts

__all__ = ["Ahead"]

_END_S = 5


class Ahead:
    """Connections to hosts, opened at once in a thread of their own; what nobody took is closed at the end of the `with`.

    Args:
        targets: the hosts.
        timeout_s: for one observation, from now on.
    """

    def __init__(self, targets: Sequence[Target], *, timeout_s: float) -> None:
        self._began = time.monotonic()
        self._loop = asyncio.new_event_loop()
        self._tiers: dict[Target, concurrent.futures.Future[str]] = {target: concurrent.futures.Future() for target in targets}
        self._thread = threading.Thread(target=self._loop.run_forever, name="ahead", daemon=True)
        self._thread.start()
        self._begun = {
            target: asyncio.run_coroutine_threadsafe(self._one(target, tier, timeout_s), self._loop) for target, tier in self._tiers.items()
        }

    @staticmethod
    async def _one(target: Target, tier: concurrent.futures.Future[str], timeout_s: float) -> Facts:
        return await observe(target, timeout_s=timeout_s, tier=asyncio.wrap_future(tier))

    def tell(self, tier: str) -> None:
        """What is asked of every host that was not told yet."""
        for told in self._tiers.values():
            if not told.done():
                told.set_result(tier)

    def take(self, target: Target, tier: str) -> concurrent.futures.Future[Facts] | None:
        """The facts of a host, once: None where its observation was not begun, was taken already, or was told another tier."""
        told = self._tiers.get(target)
        if told is None or (told.done() and told.result() != tier):
            return None
        if not told.done():
            told.set_result(tier)
        return self._begun.pop(target, None)

    @property
    def began(self) -> float:
        """When the connections were begun, on the monotonic clock."""
        return self._began

    def __enter__(self) -> Self:
        """Nothing more: the connections are on their way."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections that nobody took."""
        for begun in self._begun.values():
            begun.cancel()
        asyncio.run_coroutine_threadsafe(_settled(), self._loop).result(_END_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_S)
        self._loop.close()


async def _settled() -> None:
    """Wait until every other task of this loop has ended, and with it what it started."""
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task is not asyncio.current_task()), return_exceptions=True)
