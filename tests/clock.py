"""A clock that only moves when somebody sleeps, for what repeats with pauses."""

from types import SimpleNamespace

import pytest
import tenacity
import tenacity.nap


class Clock:
    """Seconds since the start, and the pauses so far."""

    def __init__(self) -> None:
        self.now, self.pauses = 0.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def still(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Tenacity reads this clock from now on, and its pauses cost no time."""
    clock = Clock()
    monkeypatch.setattr(tenacity, "time", SimpleNamespace(monotonic=clock.monotonic))
    monkeypatch.setattr(tenacity.nap, "time", SimpleNamespace(sleep=clock.sleep))
    return clock
