"""How the clocks were set at this boot."""

import re

from provision.structs import Struct
from provision.verify.facts.base import Fact, NotObservedError


class ClockSetting(Struct):
    """How the clocks of one GPU were set: `application`, `locked`, `locked-graphics`, or `none` where the card took nothing."""

    mode: str
    memory_mhz: int
    graphics_mhz: int


class ClocksReportFacts(Fact):
    """What the unit of the clocks reached, a line a GPU; None where it did not run since the boot."""

    name = "clocks_report"
    lines: tuple[str, ...] | None

    @property
    def settings(self) -> dict[int, ClockSetting]:
        """GPU → its setting.

        Raises:
            NotObservedError: a line is not one of the unit's.
        """
        settings = {}
        for line in self.lines or ():
            match = re.fullmatch(r"(\d{1,3}) (application|locked|locked-graphics|none) (\d{1,6}) (\d{1,6})", line, re.ASCII)
            if match is None:
                msg = f"the report of the clocks is malformed: {line[:50]!r}"
                raise NotObservedError(msg)
            settings[int(match[1])] = ClockSetting(match[2], int(match[3]), int(match[4]))
        return settings
