"""Run `onhost.py` on all hosts at once: each says where it listens, is told of the others, and says what it found of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from provision.host.ssh import Target
from provision.structs import Struct
from provision.verify.together.talk import GroupAnswer, GroupProgram, converse

_PROGRAM: Final = Path(__file__).with_name("onhost.py")
_Text = Annotated[str, Field(max_length=300)]
_Port = Annotated[int, Field(ge=1, le=65535)]
_Seconds = Annotated[float, Field(allow_inf_nan=False)]


class ClockAnswer(GroupAnswer):
    """By how much a peer's clock is ahead, and how wrong that can be."""

    ahead_s: _Seconds
    error_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class PeerAnswer(GroupAnswer):
    """What one host found of another.

    Attributes:
        resolved: the addresses of the other's host name.
        clock: None where no connection was made; `tcp` says why.
        ssh: why port 22 could not be reached; empty where it could.
        small, large: whether a small packet, and one of the interface's MTU, came through in one piece; None where it was not tried.
    """

    resolved: list[_Text]
    clock: ClockAnswer | None
    tcp: _Text
    ssh: _Text
    small: bool
    large: bool | None


class HostAnswer(GroupAnswer):
    """What one host found: of its peers by name, of its own name, and of EFA (None where nothing can say)."""

    peers: dict[str, PeerAnswer]
    own: list[_Text]
    efa: bool | None


class _Ready(GroupAnswer):
    tcp: _Port
    udp: _Port


class ListeningHost(Struct):
    """One host of the group; hostname, address and MTU were observed on it."""

    target: Target
    hostname: str
    address: str
    mtu: int


async def measure(members: Sequence[ListeningHost], *, timeout_s: float) -> dict[str, HostAnswer | str]:
    """What each host found of the others, by name; a text says why there is nothing from a host."""
    by_name = {member.target.name: member for member in members}

    def first(name: str) -> dict[str, Any]:
        return {"address": by_name[name].address, "mtu": by_name[name].mtu}

    def second(name: str, ready: Mapping[str, _Ready]) -> list[dict[str, Any]]:
        return [
            {"name": other, "hostname": each.hostname, "address": each.address, "tcp": ready[other].tcp, "udp": ready[other].udp}
            for other, each in by_name.items()
            if other != name and other in ready
        ]

    program = GroupProgram(_PROGRAM.read_bytes(), _Ready, HostAnswer, first, second)
    return await converse([member.target for member in members], program, timeout_s=timeout_s)
