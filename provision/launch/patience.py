"""Repetition: how long a throttled or unanswered call is repeated, and how long a launch waits for capacity."""

from collections.abc import Callable
from typing import Final, TypeVar

import tenacity

from provision.clouds.base import Step
from provision.errors import CapacityError, CloudUnreachableError, ThrottledError
from provision.structs import Struct

T = TypeVar("T")


class Patience(Struct):
    """How often and for how long.

    Attributes:
        throttled_s: for how long a throttled call is repeated, with growing pauses. Clouds refill their buckets of
            calls by one or two a second, so a minute is long.
        unanswered: how often a call without an answer is sent in all.
        pause_s: the first pause; each later one is twice as long, up to 20 s.
        shown_s: for how long after an attempt without an answer a cloud may not show what it made.
        round_s: the first pause between two rounds of --wait-capacity; each later one is half as long again, up to 5 minutes.
    """

    throttled_s: float = 90.0
    unanswered: int = 3
    pause_s: float = 1.0
    round_s: float = 20.0
    shown_s: float = 30.0

    def ask(self, call: Callable[[], T], *, on_step: Step, what: str, repeat_unanswered: bool = True) -> T:
        """Call, and repeat the call while it is throttled or unanswered. Every other result or error ends it at once.

        Args:
            call: repeated unchanged; a call that makes something must carry the same token each time.
            on_step: told before each pause.
            what: the call in words.
            repeat_unanswered: false where the SDK itself has repeated the call, as it may when the call makes nothing.
        """

        def enough(state: tenacity.RetryCallState) -> bool:
            error = state.outcome.exception() if state.outcome else None
            if isinstance(error, ThrottledError):
                return (state.seconds_since_start or 0) + state.upcoming_sleep > self.throttled_s
            return not repeat_unanswered or state.attempt_number >= self.unanswered

        def announce(state: tenacity.RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            why = "throttled" if isinstance(error, ThrottledError) else "no answer"
            on_step(f"{what}: {why}, next try in {state.upcoming_sleep:.1f} s")

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type((ThrottledError, CloudUnreachableError)),
            wait=tenacity.wait_exponential(multiplier=self.pause_s, exp_base=2, max=20) + tenacity.wait_random(0, self.pause_s / 4),
            stop=enough,
            before_sleep=announce,
            reraise=True,
        )(call)

    def rounds(self, one: Callable[[], T], *, for_s: float, on_step: Step) -> T:
        """Do a round, and further rounds while there is no capacity and `for_s` seconds have not passed."""

        def announce(state: tenacity.RetryCallState) -> None:
            rest_min = (for_s - (state.seconds_since_start or 0)) / 60
            on_step(f"no capacity anywhere; round {state.attempt_number + 1} in {state.upcoming_sleep:.0f} s ({rest_min:.0f} min left)")

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(CapacityError),
            wait=tenacity.wait_exponential(multiplier=self.round_s, exp_base=1.5, max=300) + tenacity.wait_random(0, self.round_s / 10),
            stop=tenacity.stop_before_delay(for_s),
            before_sleep=announce,
            reraise=True,
        )(one)


PATIENT: Final = Patience()
