"""Things that an embedded cloud lets happen later."""

import threading
from collections.abc import Callable


class Timers:
    """Things that happen later, each in a thread of its own; none after `close`."""

    def __init__(self) -> None:
        self._timers: set[threading.Timer] = set()
        self._closed = False

    def after(self, seconds: float, act: Callable[[], None]) -> threading.Timer:
        """Do something later; the timer may be cancelled."""

        def fire() -> None:
            self._timers.discard(timer)
            if not self._closed:
                act()

        timer = threading.Timer(max(seconds, 0.0), fire)
        timer.daemon = True
        self._timers.add(timer)
        timer.start()
        return timer

    def close(self) -> None:
        """Let nothing happen any more."""
        self._closed = True
        for timer in list(self._timers):
            timer.cancel()
