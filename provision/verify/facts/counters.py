"""Who may read the performance counters."""

from typing import Annotated

from pydantic import Field

from provision.verify.facts.base import Fact, FactPart


class UserAccess(FactPart):
    """What an ordinary user got when she asked for counters."""

    outcome: str
    user: str | None
    message: Annotated[str, Field(alias="said")]


class GroupAccess(FactPart):
    """What a member of the group gets: her effective capabilities in hexadecimal, and what ncu said; None where it was not tried.

    `taken` are the options and variables of hers that the helper takes while it is root.
    """

    members: tuple[str, ...]
    capabilities: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")] | None
    taken: tuple[str, ...] | None = None
    outcome: str
    message: Annotated[str, Field(alias="said")]


class CountersFacts(Fact):
    """Access to performance counters in its three layers; None where a layer says nothing.

    `by_command_line` is whether the kernel's command line decides on the layer on disk, whatever files say.
    """

    name = "counters"
    on_disk: Annotated[str, Field(pattern=r"^[01]$")] | None
    by_command_line: bool = False
    live: Annotated[str, Field(pattern=r"^[01]$")] | None
    as_user: UserAccess
    as_group: GroupAccess | None = None
