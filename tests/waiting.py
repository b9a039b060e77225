"""Waiting in tests: for a condition, with a deadline that is only there so that a test which hangs ends."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LONG_S = 240.0
_SLOWER, _RARELY_S = 1.2, 0.3


def until(answer: Callable[[], T], *, every_s: float = 0.05, longest_s: float = LONG_S) -> T:
    """Ask until the answer is true, and return it. What takes long is asked more rarely: a question may cost as much as the pause."""
    deadline, pause_s = time.monotonic() + longest_s, every_s
    while not (now := answer()):
        assert time.monotonic() < deadline, now
        time.sleep(pause_s)
        pause_s = max(every_s, min(pause_s * _SLOWER, _RARELY_S))
    return now
