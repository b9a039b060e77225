"""The one way to do the same work on several things at the same time."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


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
