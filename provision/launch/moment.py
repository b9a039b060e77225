"""The moment that stands for the deadline while no launch has set one: in the plan's requests it is replaced by words."""

import datetime as dt
from typing import Any, Final

from provision.clouds.forms import LATE, TIMER

ONCE: Final = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


def in_words(value: Any, words: str) -> Any:
    """A request with words in place of the moment `ONCE`, which stands for the deadline."""
    if isinstance(value, str):
        for moment, text in ((ONCE, words), (ONCE + LATE, f"{words[:-1]} and {LATE.seconds // 60} min>")):
            value = value.replace(moment.strftime(TIMER), text).replace(moment.isoformat(timespec="seconds"), text)
        return value
    if isinstance(value, dict):
        return {key: in_words(item, words) for key, item in value.items()}
    return [in_words(item, words) for item in value] if isinstance(value, list | tuple) else value
