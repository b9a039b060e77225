"""What `all_reduce_perf` of nccl-tests prints: one row for one size, and its own verdict on the result.

Source: NVIDIA/nccl-tests at a0b82b2 (2.19.6), `src/util.cu`. Before 51af557 (2.13) it prints how far a sum is off in the place of how many
numbers are wrong; the other columns are the same.
"""

import math
import re
from typing import Final

from provision.verify.bench.figures import Measured, ToolMessage

SIZE: Final = 1 << 30
"""Bytes: as `recipes/nccl.py` asks."""
_NUMBER: Final = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_RATES: Final = rf"\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}"
_ROW: Final = re.compile(rf"\s*(\d+)\s+(\d+)\s+float\s+sum\s+-1{_RATES}{_RATES}\s*")
_RANK: Final = re.compile(r"#\s+Rank\s+(\d+)\s.* device\s+(\d+) \[.*")
_WRONG: Final = re.compile(r"# Out of bounds values\s+: (\d+) (OK|FAILED)\s*")
_AVERAGE: Final = re.compile(rf"# Avg bus bandwidth\s+: {_NUMBER}\s*(?:OK|FAILED)?\s*")
_VERSION: Final = re.compile(r"# nccl-tests version (\S{1,30}) .*")
# The columns have two decimals at the least, and one figure in a hundred is not a rounding.
_ROUNDED: Final = 0.01


def read(message: ToolMessage) -> Measured:
    """The rate on the bus, as the average of both rows' halves, which is what nccl-tests calls its average.

    Raises:
        ValueError: it is not what nccl-tests prints for what was asked, or contradicts itself; its words say how.
    """
    lines, gpus = message.output.splitlines(), message.gpus
    row, wrong, average = (_only(lines, pattern) for pattern in (_ROW, _WRONG, _AVERAGE))
    ranks = [int(match[1]) for line in lines if (match := _RANK.fullmatch(line))]
    if not gpus or ranks != list(range(gpus)):
        msg = f"it used {len(ranks)} of {gpus} GPUs"
        raise ValueError(msg)
    size, count = int(row[1]), int(row[2])
    if (size, count) != (SIZE, SIZE // 4):
        msg = f"it added up {size} bytes, not {SIZE}"
        raise ValueError(msg)
    _, there_algorithm, there, there_wrong, _, here_algorithm, here, here_wrong = (float(text) for text in row.groups()[2:])
    mean, told = (there + here) / 2, float(average[1])
    factor = 2 * (gpus - 1) / gpus
    for one, other in ((mean, told), (there, factor * there_algorithm), (here, factor * here_algorithm)):
        if not math.isclose(one, other, rel_tol=_ROUNDED, abs_tol=0.02) or one <= 0:
            msg = f"its rates contradict each other: {one:g} and {other:g} GB/s"
            raise ValueError(msg)
    failed = wrong[2] != "OK" or int(wrong[1]) > 0
    whole = max(there_wrong, here_wrong) >= 1  # how many numbers are wrong; a fraction is how far one is off
    if bool(message.code) != failed or (whole and not failed):
        msg = f"it ended with {message.code} and says {wrong[1]} {wrong[2]}"
        raise ValueError(msg)
    version = next((match[1] for line in lines if (match := _VERSION.fullmatch(line))), "")
    detail: dict[str, bool | float | str | None] = {"right": not failed, "bytes": SIZE, "in_place_gb_s": here, "version": version}
    return Measured("nccl", f"all_reduce.{gpus}", 0, "GB/s", told, alone=True, seconds=message.seconds, detail=detail)


def _only(lines: list[str], pattern: re.Pattern[str]) -> re.Match[str]:
    """The one line of a form."""
    found = [match for line in lines if (match := pattern.fullmatch(line))]
    if len(found) != 1:
        msg = f"a line that must occur once in its output occurs {len(found)} times"
        raise ValueError(msg)
    return found[0]
