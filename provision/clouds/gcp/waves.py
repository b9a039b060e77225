"""Rolls of a managed instance group: each wave is a canary of a size, which the group brings about by itself; gpuprov says when to go on.

Google has no way back of its own: whoever waits here sends the group back when the new members do not serve. A roll that nobody waits for
any more stays at its wave, and the same command goes on. docs.cloud.google.com/compute/docs/instance-groups/updating-migs
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from provision.clouds import base
from provision.clouds.fleet import FleetView, Waves
from provision.clouds.gcp.answers import last
from provision.clouds.gcp.errors import ChangedMeanwhileError
from provision.clouds.polling import poll
from provision.clouds.refusals import RollUnderWayError
from provision.errors import CloudInvalidError
from provision.structs import Struct

_BOOT_S: Final = 900.0
_LONGEST_PAUSE_S: Final = 10.0
_MOST_TRIES: Final = 5  # to change a group that others change at the same moment


def templates_of(shown: Any) -> frozenset[str]:
    """The names of the templates that a group is to have members of."""
    return frozenset(last(row.instance_template) for row in shown.versions)


class Roll(Struct):
    """One roll of one group.

    Attributes:
        name: the fleet's.
        old, new: names of the templates.
        shown: asks for the group as Google has it.
        view: asks for the same in our words.
        aim: gives the group its versions, as (template, size) with one size None, where it is still as it was shown.
        longest_s: how long a member's program may run.
        seen: the templates that the group had when it was decided that it may roll.
    """

    name: str
    old: str
    new: str
    shown: Callable[[], Any]
    view: Callable[[], FleetView | None]
    aim: Callable[[Sequence[tuple[str, int | None]], Any], None]
    longest_s: float
    seen: frozenset[str]

    def run(self, waves: Waves, on_step: base.Step) -> None:
        """Go through the waves that are left.

        Raises:
            CloudInvalidError: the new members do not serve; the group goes back to the old version.
            RollUnderWayError: somebody rolls the group to another version meanwhile; it is left to that.
        """
        expected = self.seen
        for percent in waves.percents:
            size, count, expected = self._reach(percent, expected, whole=percent == waves.percents[-1])
            on_step(f"waiting until {count} of {size} members serve with version {self.version}")
            why = self._waited(count)
            if why:
                self._back(why, on_step)
            if percent != waves.percents[-1] and count < size and waves.pause_s:
                on_step(f"{percent} % serve; the roll goes on in {waves.pause_s} s")
                time.sleep(waves.pause_s)

    def _reach(self, percent: int, expected: frozenset[str], *, whole: bool) -> tuple[int, int, frozenset[str]]:
        """Let the group come to a wave, unless it is there or beyond.

        Returns:
            its size, how many members are to have the new version, and the templates that it has now.
        """
        for _ in range(_MOST_TRIES):
            shown = self.shown()
            if templates_of(shown) != expected:
                break
            size = int(shown.target_size)
            count = size if whole else -(-size * percent // 100)
            present = self._aimed(shown)
            if present is not None and (present > count or (present == count and count < size)):
                return size, min(present, size), expected
            wanted = [(self.new, None)] if whole or self.old == self.new else [(self.new, count), (self.old, None)]
            with contextlib.suppress(ChangedMeanwhileError):
                self.aim(wanted, shown)
                return size, count, frozenset(template for template, _ in wanted)
        raise self._superseded()

    @property
    def version(self) -> str:
        """The new one, as `status` shows it."""
        return self.new.rpartition("-")[2]

    def _aimed(self, shown: Any) -> int | None:
        """How many members the group is to have of the new version; None where it does not know it."""
        for row in shown.versions:
            if last(row.instance_template) == self.new:
                if "target_size" in row:
                    return int(row.target_size.fixed)
                return int(shown.target_size) if len(shown.versions) == 1 else None  # what a roll leaves is not what it goes to
        return None

    def _waited(self, count: int) -> str:
        """Wait until so many members of the new version serve; why they will not, or an empty text."""

        def serving(view: FleetView | None) -> int:
            return sum(member.serves and member.version == self.version for member in view.members) if view else 0

        view = poll(
            self.view,
            lambda v: v is None or v.halted or v.version != self.version or serving(v) >= min(count, v.size),
            timeout_s=self.longest_s + _BOOT_S,
            longest_s=_LONGEST_PAUSE_S,
        )
        if view is None:
            return "the group is gone"
        if view.version != self.version:
            raise self._superseded()
        if serving(view) >= min(count, view.size):
            return ""
        return "too many members failed" if view.halted else "they did not serve in time"

    def _superseded(self) -> RollUnderWayError:
        msg = f"fleet {self.name} rolls to another version by now, or went back: this roll to version {self.version} has ended"
        return RollUnderWayError(msg, hint=f"`gpuprov fleet status {self.name}` shows where it is")

    def _back(self, why: str, on_step: base.Step) -> None:
        if self.old == self.new:
            msg = f"fleet {self.name} does not come to version {self.version}: {why}"
            raise CloudInvalidError(msg, hint=f"`gpuprov fleet status {self.name}` shows what the members say; roll to another program")
        on_step(f"going back: {why}")
        for _ in range(_MOST_TRIES):
            shown = self.shown()
            if self._aimed(shown) is None:
                raise self._superseded()
            with contextlib.suppress(ChangedMeanwhileError):
                self.aim([(self.old, None)], shown)
                break
        else:
            raise self._superseded()
        msg = f"fleet {self.name} goes back to version {self.old.rpartition('-')[2]}: {why}"
        raise CloudInvalidError(msg, hint=f"`gpuprov fleet status {self.name}` shows what the members say; roll to another program")
