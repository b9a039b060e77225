"""The ways to do the same work on several things at the same time."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
_LOOK_S = 0.25


def at_once(work: Callable[[T], R], items: Iterable[T], *, most: int = 16) -> list[R]:
    """Do the work on every item, each in a thread of its own, and return the results in the order of the items.

    All of the work has ended before an error is raised, so nothing runs on behind the caller's back.

    Args:
        work: called once for each item. One item is worked on in the caller's thread.
        items: what to work on.
        most: how many threads may run at the same time.

    Raises:
        BaseException: the error of the first item, in their order, whose work failed.
    """
    queue = list(items)
    if len(queue) <= 1:
        return [work(item) for item in queue]
    with ThreadPoolExecutor(max_workers=min(len(queue), most), thread_name_prefix="at-once") as pool:
        futures = [pool.submit(work, item) for item in queue]
    return [future.result() for future in futures]


def each_to_its_end(work: Callable[[T], R], items: Iterable[T], stop: threading.Event) -> list[R | BaseException]:
    """Do the work on every item, each in a thread of its own, and return what came of each, in the order of the items.

    No failure ends the work on another item.

    Args:
        work: called once for each item.
        items: what to work on.
        stop: set at a Ctrl-C, for the work to look at; then all of it has ended before the KeyboardInterrupt goes on.

    Returns:
        For each item its result, or the error that ended its work.
    """
    queue = list(items)
    with ThreadPoolExecutor(max_workers=max(1, len(queue)), thread_name_prefix="each") as pool:
        futures = list[Future[R]]()
        try:
            with _interrupts_held():  # between a thread's start and its entry in the pool's list nobody would wait for it
                futures += [pool.submit(work, item) for item in queue]
            while wait(futures, timeout=_LOOK_S).not_done:  # a signal that another thread gets does not wake this one
                pass
        except KeyboardInterrupt:
            stop.set()
            wait(futures)
            raise
    return [future.exception() or future.result() for future in futures]


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Raise the KeyboardInterrupt of a Ctrl-C at the end of the block, and not within it."""
    if threading.current_thread() is not threading.main_thread():  # signals arrive in the main thread only
        yield
        return
    noted = threading.Event()
    before = signal.signal(signal.SIGINT, lambda _number, _frame: noted.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if noted.is_set():
        raise KeyboardInterrupt


def run_until(work: Coroutine[None, None, R], stop: threading.Event | None) -> R:
    """Run a coroutine to its end; it is cancelled soon after `stop` is set.

    Raises:
        KeyboardInterrupt: it was stopped.
    """

    async def watched() -> R:
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                if stop is not None and stop.is_set():
                    task.cancel()
                await asyncio.wait({task}, timeout=_LOOK_S)
            return await task
        finally:
            # A Ctrl-C cancels this coroutine only. The work has to end before asyncio cancels every task that is left: asyncio's own one,
            # which connects the pipes of a new process, must not be among them, or the wait for that process never ends.
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    try:
        return asyncio.run(watched())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
