"""Sums over several hosts (all-reduce): each pair of hosts alone, and all together, by the PyTorch of each host."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from provision.host.ssh import Target
from provision.structs import Struct
from provision.verify.together.talk import GroupAnswer, GroupProgram, converse

_PROGRAM: Final = Path(__file__).with_name("onsums.py")
_WORKER: Final = Path(__file__).with_name("sumworker.py")
_PATIENCE_S: Final = 60
_ROUNDS: Final = 7
_GPU_BYTES: Final = 256 << 20
_CPU_BYTES: Final = 8 << 20
_Speed = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SumFigures(GroupAnswer):
    """What one host measured.

    Attributes:
        pairs: GB/s of the bus with one other host at a time, by that host's number among all; at most seven of them.
        together: the same over all hosts.
        right: whether each sum had its value.
    """

    pairs: dict[str, _Speed]
    together: _Speed
    right: bool


class SumAnswer(GroupAnswer):
    """The figures of one host, or why there are none."""

    figures: SumFigures | None
    why: Annotated[str, Field(max_length=400)]


class _Meeting(GroupAnswer):
    port: Annotated[int, Field(ge=1, le=65535)]


class SummingHost(Struct):
    """One host: its own address, the python that has PyTorch there, and how many GPUs take part (0: the CPU, over gloo)."""

    target: Target
    address: str
    interpreter: str
    gpus: int


async def sum_up(members: Sequence[SummingHost], *, timeout_s: float) -> dict[str, SumAnswer | str]:
    """What each host measured, by name; a text says why there is nothing from a host. Their GPUs are busy for some seconds."""
    by_name = {member.target.name: member for member in members}
    names, cuda = list(by_name), all(member.gpus for member in members)
    counts = [member.gpus if cuda else 1 for member in members]

    def first(name: str) -> dict[str, Any]:
        return {"address": by_name[name].address, "interpreter": by_name[name].interpreter}

    def second(name: str, ready: Mapping[str, _Meeting]) -> dict[str, Any] | None:
        if len(ready) < len(names):
            return None
        sums = {"cuda": cuda, "bytes": _GPU_BYTES if cuda else _CPU_BYTES, "rounds": _ROUNDS, "patience_s": _PATIENCE_S}
        meet = {"address": members[0].address, "port": ready[names[0]].port}
        return {"host": names.index(name), "counts": counts, "meet": meet, "code": _WORKER.read_text(), "sums": sums}

    program = GroupProgram(_PROGRAM.read_bytes(), _Meeting, SumAnswer, first, second)
    return await converse([member.target for member in members], program, timeout_s=timeout_s)
