"""How much the account may do and have: requests in an hour and a minute, droplets, and places for those with GPUs."""

import threading
import time
from collections import deque
from typing import Final

from provision.rehearsal.digitalocean.refusals import DropletApiError, unprocessable
from provision.rehearsal.digitalocean.settings import DigitaloceanSettings
from provision.rehearsal.digitalocean.world import DropletWorld

_HOUR_S: Final = 3600
_MINUTE_S: Final = 60
_KEY_LISTS: Final = "sshKeys_list"


def check_count(world: DropletWorld, count: int) -> None:
    """Refuse more droplets than the account may have; those that are off count."""
    if len(world.droplets) + count > world.settings.do_droplet_limit:
        raise unprocessable("creating this/these droplet(s) will exceed your droplet limit")


def room(world: DropletWorld, region: str) -> float:
    """How many more droplets with GPUs a region can hold; those that are off take their place too."""
    places = world.settings.do_capacity.get(region, float("inf"))
    return places - sum(d.gpu and d.region == region for d in world.droplets.values())


class RequestRates:
    """The requests of the last hour: each counts for as long as the limit says, and is then forgotten."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()
        self._key_lists: deque[float] = deque()
        self._lock = threading.Lock()

    def count(self, settings: DigitaloceanSettings, operation: str) -> tuple[dict[str, str], DropletApiError | None]:
        """Count a request; returns the headers of its answer, and the refusal if it was one too many."""
        with self._lock:
            now = time.time()
            minute = self._within(self._times, now, _MINUTE_S)
            hour = self._within(self._times, now, _HOUR_S)
            lists = self._within(self._key_lists, now, _MINUTE_S)
            over: deque[float] | None = None
            if len(minute) >= settings.do_limit_minute:
                over = minute
            elif operation == _KEY_LISTS and len(lists) >= settings.do_limit_key_lists:
                over = lists
            refused = over is not None or len(hour) >= settings.do_limit_hour
            left = 0 if refused else settings.do_limit_hour - len(hour) - 1
            oldest = hour[0] if hour else now
            headers = {
                "ratelimit-limit": str(settings.do_limit_hour),
                "ratelimit-remaining": str(left),
                "ratelimit-reset": str(int(oldest) + _HOUR_S),
            }
            if refused:
                # Only a burst says when to come again: the document's description, "Rate Limit".
                wait = {"retry-after": str(max(int(over[0] + _MINUTE_S - now) + 1, 1))} if over else {}
                return headers | wait, DropletApiError(429, "API Rate limit exceeded.", headers=headers | wait)
            self._times.append(now)
            if operation == _KEY_LISTS:
                self._key_lists.append(now)
            return headers, None

    @staticmethod
    def _within(times: deque[float], now: float, seconds: float) -> deque[float]:
        while times and times[0] <= now - _HOUR_S:
            times.popleft()
        return deque(at for at in times if at > now - seconds)
