"""The contract between the clouds that keep the size of a group of machines by themselves, and everything above them.

A fleet is one group of one region. The cloud launches its members, replaces those that end, and rolls them; nobody of ours need run
meanwhile. A member serves only after it verified itself. The deadline is the group's: a group replaces a member that powers itself off.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any, Final, Protocol

from provision.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from provision.clouds.base import Order, Step

BREAKER: int = 5
"""How many members may fail with one program before the group launches no more."""
MOST_EVIDENCE: Final = 8 << 20  # bytes of one piece: a member posts at most 4 MiB of what its program printed
_MOST_TOGETHER: Final = 128 << 20
_MOST_PIECES: Final = 8  # of one member: it posts one for each program and boot
_MOST_LISTED: Final = 50_000
_MOST_KEYS: Final = 50


class FleetOrder(Struct):
    """Everything that a fleet is made from.

    Attributes:
        machine: one member; its deadline is the fleet's.
        bucket, prefix: the store; the prefix is empty or ends with a slash.
        digest: SHA-256 of the program that a member runs at its first boot; 0 as its exit code means that it may serve.
        breaker: how many members may fail with it before the group launches no more.
        longest_s: how long the program may run. A roll on AWS fails after an hour without a new member, and its boot is in that hour.
        trust: whom a member believes, where its program is a signed bundle; it stands in the machine's user data.
        store_key: the key that the store's objects are encrypted with, where it is the account's own; for the policies alone.
    """

    machine: Order
    bucket: str
    prefix: str
    digest: str
    breaker: int = BREAKER
    longest_s: int = 2700
    trust: Mapping[str, Any] = field(default_factory=dict)
    store_key: str = ""


class FleetMember(Struct):
    """One member, as the cloud's group has it.

    Attributes:
        state: in the cloud's own words.
        serves: whether it counts as capacity.
        version: of the template that it was launched from.
        name: where the cloud calls it otherwise than by its id; one that is made anew can keep it.
    """

    id: str
    zone: str
    type: str
    state: str
    serves: bool
    healthy: bool
    version: str
    name: str = ""


class FleetView(Struct):
    """What the cloud says of a fleet.

    Attributes:
        size: how many members the group should have.
        halted: whether it launches no more.
        deadline: when the group goes to 0, ISO 8601; empty when nothing is scheduled.
        version: of the template that new members have.
        roll: the state of the last roll, in the cloud's words; empty without one.
        roll_percent, roll_reason: how far it is, and the cloud's words about it.
        failures: what the cloud says of the last launches that failed, the newest first.
    """

    size: int
    halted: bool
    deadline: str
    version: str
    members: tuple[FleetMember, ...]
    roll: str = ""
    roll_percent: int = 0
    roll_reason: str = ""
    failures: tuple[str, ...] = ()


class Waves(Struct):
    """How a roll goes.

    Attributes:
        healthy_percent: how many members serve at least.
        percents: where it pauses; the last is 100.
        pause_s: how long, before it goes on by itself.
    """

    healthy_percent: int = 90
    percents: tuple[int, ...] = (5, 25, 100)
    pause_s: int = 600


class PostedEvidence(Struct):
    """What a member posted, under the name that the cloud's own identity gave it.

    Attributes:
        instance: of the prefix: only that machine may write there, or what others wrote has a doubt.
        content: as it was posted; no more than the machine's own word.
        doubt: why the cloud does not say that this machine posted it; empty where it does.
    """

    instance: str
    digest: str
    content: dict[str, Any] = field(default_factory=dict)
    doubt: str = ""


def newest(listed: Iterable[tuple[str, str, int]]) -> list[str]:
    """What is read of all that members posted: the newest pieces of each, so that one that posts much hides no other, within bounds.

    Args:
        listed: name below the fleet's prefix, time and bytes of each.
    """
    kept: dict[str, list[tuple[str, str, int]]] = {}
    for name, at, size in itertools.islice(listed, _MOST_LISTED):
        of_member = kept.setdefault(name.partition("/")[0], [])
        of_member.append((at, name, size))
        of_member.sort(reverse=True)
        del of_member[_MOST_PIECES:]
    found, room = [], _MOST_TOGETHER
    for row in itertools.zip_longest(*kept.values()):
        for _, name, size in filter(None, row):
            found += [name] if size <= room else []
            room -= min(size, room)
    return sorted(found)


def content_of(raw: bytes) -> dict[str, Any]:
    """What a member posted, without what no evidence has; empty where it is none."""
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    items = content.items() if isinstance(content, dict) else ()
    return {key: value for key, value in itertools.islice(items, _MOST_KEYS) if value is None or isinstance(value, str | int | float)}


class Fleet(Protocol):
    """The groups of one region. Every call may be repeated; an order asked twice makes one group."""

    def ensure(self, order: FleetOrder, size: int, program: bytes, *, on_step: Step) -> None:
        """Make the group of an order, its deadline first, and give it its size."""

    def size(self, name: str, size: int) -> None:
        """Let the group have so many members."""

    def shrink(self, name: str, members: Sequence[FleetMember]) -> None:
        """End exactly these members, and let the group have so many fewer: none comes in their place.

        Each is asked for once. Where one has left the group meanwhile, the cloud refuses, and the caller looks again.
        """

    def extend(self, order: FleetOrder) -> None:
        """Move the deadline of the group to that of the order. Nothing is done on a member: a group replaces one that ends itself.

        Raises:
            CloudUnsupportedError: this cloud's groups keep the deadline that they were made with.
        """

    def members(self, name: str) -> FleetView | None:
        """What the cloud says of the group; None where there is none."""

    def evidence(self, order: FleetOrder) -> Sequence[PostedEvidence]:
        """What members posted."""

    def roll(self, order: FleetOrder, program: bytes, waves: Waves, *, instead: bool = False, on_step: Step) -> None:
        """Replace the members by ones of this order, in waves; back where they do not verify.

        It returns when the roll has begun, where the cloud goes on by itself, and otherwise at its end. With `instead` it ends another
        roll that is under way. Back is then where the group was before that one: what never served everywhere is nothing to go back to.

        Raises:
            RollUnderWayError: another roll is under way, and `instead` was not asked for; or another one took the place of this one.
        """

    def remove(self, name: str, *, on_step: Step) -> list[str]:
        """Remove the group, its members and all that was made for it; returns a phrase for each."""


class FleetPlan(Struct):
    """What is reviewed of a fleet before it exists.

    Attributes:
        caller: the policy document of whoever runs `gpuprov fleet`.
        member: the policy document of the members' role.
        role: its name.
        rehearsed_as: the setting of the embedded cloud that holds the policies of roles, by name.
        reach: what root on one member can do to the others, as the reason of a risk.
        differs: what a member has otherwise than a single machine of the place, by the key of its request; the rest is the same.
        keys: keys of the account's own → the statements that each one's policy must have before the group can launch.
        store: what the policies say, or leave out, of a key of the store.
        limits: what bounds its cost and its rolls, and what does not.
    """

    caller: dict[str, Any]
    member: dict[str, Any]
    role: str
    rehearsed_as: str
    reach: str
    differs: Mapping[str, str]
    keys: Mapping[str, Sequence[dict[str, Any]]] = field(default_factory=dict)
    store: str = ""
    limits: Sequence[str] = ()
