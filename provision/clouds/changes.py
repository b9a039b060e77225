"""The calls that change something at a cloud, told to whoever keeps a record of them.

Each cloud's client tells of its calls at the one place through which they go. Whoever wants to know listens while a command runs. Without
a listener nothing is told, and nothing is asked of a cloud for its sake.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Final

from provision.structs import Struct


class ChangingCall(Struct):
    """A call that changes something, after its answer. It has none of the call's parameters: they may hold secrets.

    Attributes:
        cloud: name of the cloud.
        where: region or zone; empty for what has none.
        action: the call, such as `RunInstances`.
        answer: `accepted`, the cloud's code for its refusal, or `unanswered`.
        request_id: under which the cloud's own trail has the call.
        operation: what the cloud started and has under this name in its trail, where calls start something.
        principal: who asked, as the cloud knows them; empty where it did not say.
    """

    cloud: str
    where: str
    action: str
    answer: str
    request_id: str = ""
    operation: str = ""
    principal: str = ""


Listener = Callable[[ChangingCall], None]

ACCEPTED: Final = "accepted"
UNANSWERED: Final = "unanswered"

_listeners: list[Listener] = []
_hooks: list[Callable[[], None]] = []
_LOCK: Final = threading.Lock()


@contextlib.contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Tell a listener of every changing call within the block, from whichever thread it is made."""
    with _LOCK:
        _listeners.append(listener)
    try:
        yield
    finally:
        with _LOCK:
            _listeners.remove(listener)


@contextlib.contextmanager
def before_each(hook: Callable[[], None]) -> Iterator[None]:
    """Call a function before each changing call within the block is sent, in the thread that sends it."""
    with _LOCK:
        _hooks.append(hook)
    try:
        yield
    finally:
        with _LOCK:
            _hooks.remove(hook)


def begin() -> None:
    """Say that a changing call is about to be sent."""
    for hook in tuple(_hooks):
        hook()


def is_heard() -> bool:
    """Whether anybody listens."""
    return bool(_listeners)


def tell(call: ChangingCall) -> None:
    """Tell of a call that was made."""
    for listener in tuple(_listeners):
        listener(call)
