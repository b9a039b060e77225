"""Instance refreshes of the embedded Auto Scaling: waves with checkpoints, back to the old template, ended by hand.

What a refresh does with which preference: botocore's model of StartInstanceRefresh and RefreshPreferences, and
docs.aws.amazon.com/autoscaling/ec2/userguide/instance-refresh-overview.html. That it fails after an hour without progress is what the model
says of protected members (ScaleInProtectedInstances, Wait); for replacements that fail it is an assumption.
"""

import math
import secrets
from typing import Any, Final

from provision.rehearsal.aws.scaling import Engine, Group, GroupMember
from provision.structs import MutableStruct, field

ACTIVE: Final = frozenset({"Pending", "InProgress", "Cancelling", "RollbackInProgress"})
_PATIENCE_S: Final = 3600


class Refresh(MutableStruct):
    """One refresh; `template` is what its replacements are launched from."""

    template: dict[str, str]
    types: tuple[str, ...]
    before: tuple[dict[str, str], tuple[str, ...]]
    preferences: dict[str, Any]
    desired: dict[str, Any] | None
    started: float
    waiting: set[str]  # the members that are still to be replaced
    total: int
    status: str = "Pending"
    reason: str = ""
    ended: float | None = None
    moved: float = 0.0  # when a member last came into service
    served: int = 0
    checkpoint: int = 0
    reached: float | None = None  # when this checkpoint was
    waits: bool = True  # whether its cancelling waits for launches and ends that are under way
    id: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def percentage(self) -> int:
        """How much of it is done."""
        return 100 if not self.total else 100 * (self.total - len(self.waiting)) // self.total


def active(group: Group) -> Refresh | None:
    """The refresh under way."""
    found: Refresh | None = next((refresh for refresh in group.refreshes if refresh.status in ACTIVE), None)
    return found


def launched_from(group: Group) -> tuple[dict[str, str], tuple[str, ...]]:
    """The template and the types that a new member has now."""
    refresh = active(group)
    return (refresh.template, refresh.types) if refresh else (group.template, group.types)


def begin(
    group: Group,
    preferences: dict[str, Any],
    desired: dict[str, Any] | None,
    launched: tuple[dict[str, str], tuple[str, ...]],
    now: float,
) -> Refresh:
    """Start one; the caller has refused a second."""
    template, types = launched
    waiting = {m.id for m in group.staying if not (preferences.get("SkipMatching") and m.template == template)}
    before = (dict(group.template), group.types)
    refresh = Refresh(template, types, before, preferences, desired, now, waiting, len(waiting), moved=now)
    group.refreshes.insert(0, refresh)
    return refresh


def roll_back(group: Group, refresh: Refresh, now: float, reason: str) -> None:
    """Go back to the template that the group had."""
    refresh.status, refresh.reason = "RollbackInProgress", reason
    refresh.template, refresh.types = refresh.before
    refresh.waiting = {m.id for m in group.staying if m.template != refresh.template}
    refresh.total, refresh.checkpoint, refresh.reached, refresh.moved = len(refresh.waiting), 0, None, now


def step(engine: Engine, group: Group) -> None:
    """Take the next step of a group's refresh, if one is under way."""
    refresh, now = active(group), engine.now()
    if refresh is None:
        return
    if refresh.status == "Cancelling":
        if not refresh.waits or all(member.state == "InService" for member in group.members.values()):
            _end(group, refresh, "Cancelled", now)
        return
    if refresh.status == "Pending":
        refresh.status = "InProgress"
    staying = {member.id: member for member in group.staying}
    refresh.waiting &= set(staying)
    in_service = [m for m in staying.values() if m.state == "InService" and m.id not in refresh.waiting]
    if len(in_service) != refresh.served:
        refresh.served, refresh.moved = len(in_service), now
    settled = len(staying) >= group.desired and all(m.state == "InService" for m in staying.values())
    if settled and not refresh.waiting:
        _succeed(group, refresh, now)
    elif refresh.reached is None and now - refresh.moved >= _PATIENCE_S:
        _fail(group, refresh, now)
    elif not _holds_at_checkpoint(refresh, now, settled=settled):
        _replace(engine, group, refresh, staying)


def _succeed(group: Group, refresh: Refresh, now: float) -> None:
    if refresh.status == "RollbackInProgress":
        _end(group, refresh, "RollbackSuccessful", now)
    else:
        group.template, group.types = refresh.template, refresh.types
        _end(group, refresh, "Successful", now)


def _fail(group: Group, refresh: Refresh, now: float) -> None:
    reason = "The refresh made no progress for an hour."
    if refresh.status == "RollbackInProgress":
        _end(group, refresh, "RollbackFailed", now, reason)
    elif refresh.preferences.get("AutoRollback"):
        roll_back(group, refresh, now, reason)
    else:
        _end(group, refresh, "Failed", now, reason)


def _end(group: Group, refresh: Refresh, status: str, now: float, reason: str = "") -> None:
    refresh.status, refresh.ended, refresh.reason = status, now, reason or refresh.reason
    group.retry_at = 0.0


def _allowed(refresh: Refresh) -> int:
    """How many may be replaced before the next checkpoint."""
    points = refresh.preferences.get("CheckpointPercentages") or []
    if refresh.status == "RollbackInProgress" or not points:
        return refresh.total
    if refresh.checkpoint >= len(points):
        return math.ceil(refresh.total * int(points[-1]) / 100)
    return math.ceil(refresh.total * int(points[refresh.checkpoint]) / 100)


def _holds_at_checkpoint(refresh: Refresh, now: float, *, settled: bool) -> bool:
    """Whether a checkpoint is reached and its delay is not over."""
    points = refresh.preferences.get("CheckpointPercentages") or []
    if refresh.status == "RollbackInProgress" or not points or refresh.total - len(refresh.waiting) < _allowed(refresh) or not settled:
        return False
    if refresh.reached is None:
        refresh.reached = now
        refresh.reason = f"Waiting at checkpoint {points[min(refresh.checkpoint, len(points) - 1)]}%."
    if refresh.checkpoint >= len(points) - 1 and points[-1] < 100:  # noqa: PLR2004 - per cent
        refresh.waiting.clear()  # what the last checkpoint leaves out is not replaced
        return False
    if now - refresh.reached < float(refresh.preferences.get("CheckpointDelay", 3600)):
        return True
    refresh.checkpoint, refresh.reached, refresh.reason, refresh.moved = refresh.checkpoint + 1, None, "", now
    return True


def _replace(engine: Engine, group: Group, refresh: Refresh, staying: dict[str, GroupMember]) -> None:
    """Retire as many as the preferences allow; the group's size brings their replacements. Who is not in service costs no health."""
    least = math.ceil(group.desired * float(refresh.preferences.get("MinHealthyPercentage", 90)) / 100)
    in_service = sum(member.state == "InService" for member in staying.values())
    missing = group.desired - in_service
    healthy = max(in_service - least, 1 if not missing else 0)
    room = _allowed(refresh) - (refresh.total - len(refresh.waiting))
    protected = refresh.preferences.get("ScaleInProtectedInstances", "Wait")
    for member in sorted((staying[each] for each in refresh.waiting), key=lambda m: (m.state == "InService", m.since)):
        if member.protected and protected == "Ignore":
            refresh.waiting.discard(member.id)
        serving = member.state == "InService"
        if room > 0 and (healthy > 0 or not serving) and not (member.protected and protected != "Refresh"):
            engine.retire(group, member, "an instance refresh")
            room, healthy = room - 1, healthy - serving
