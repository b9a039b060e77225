"""Waiting in tests: for a condition, with a deadline that is only there so that a test which hangs ends."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LONG_S = 240.0


def until(answer: Callable[[], T], *, every_s: float = 0.05, longest_s: float = LONG_S) -> T:
    """Ask until the answer is true, and return it."""
    deadline = time.monotonic() + longest_s
    while not (now := answer()):
        assert time.monotonic() < deadline, now
        time.sleep(every_s)
    return now
