"""Ask a cloud again and again until its answer is enough."""

from collections.abc import Callable
from typing import TypeVar

import tenacity

T = TypeVar("T")


def poll(
    ask: Callable[[], T],
    enough: Callable[[T], bool],
    *,
    timeout_s: float,
    first_s: float = 0.1,
    factor: float = 2.0,
    longest_s: float = 5.0,
) -> T:
    """Ask at growing intervals until the answer is enough or the time is up, and return the last answer.

    Args:
        ask: one question; its errors end the polling.
        enough: whether an answer ends it.
        timeout_s: after this many seconds no new question is asked. The first is always asked.
        first_s: the first pause.
        factor: how much longer each pause is than the one before.
        longest_s: the longest pause.
    """
    return tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda answer: not enough(answer)),
        wait=tenacity.wait_exponential(multiplier=first_s, exp_base=factor, max=longest_s),
        stop=tenacity.stop_after_delay(timeout_s),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )(ask)
