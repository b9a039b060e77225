"""Auto Scaling groups of the embedded AWS: what they hold, and the loop that keeps their size.

moto launches a member at once and calls it InService; it drops hooks, knows no activities and executes no schedule. So the groups are kept
here, and moto keeps their instances and launch templates. The states and their order are those of
docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-lifecycle.html, the fields those of botocore's model.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from provision.structs import MutableStruct, field

LAUNCHING: Final = "autoscaling:EC2_INSTANCE_LAUNCHING"
TERMINATING: Final = "autoscaling:EC2_INSTANCE_TERMINATING"
LEAVING: Final = frozenset({"Terminating", "Terminating:Wait", "Terminating:Proceed", "Terminated"})
_MOST_HEARTBEATS: Final = 100
_LONGEST_WAIT_S: Final = 48 * 3600
_KEPT: Final = 500
_PAUSE_S: Final = 0.05


class Activity(MutableStruct):
    """One launch or end of a member, as DescribeScalingActivities shows it; times are seconds of the clock."""

    description: str
    cause: str
    started: float
    instance_id: str = ""
    status: str = "InProgress"
    message: str = ""
    ended: float | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(16))

    def end(self, status: str, now: float, message: str = "") -> None:
        """Note how it ended."""
        if self.ended is None:
            self.status, self.ended, self.message = status, now, message


class GroupMember(MutableStruct):
    """One instance of a group."""

    id: str
    zone: str
    type: str
    template: dict[str, str]
    activity: Activity
    state: str = "Pending"
    healthy: bool = True
    protected: bool = False
    since: float = 0.0  # of the state
    hooks: dict[str, HookWait] = field(default_factory=dict)  # those that are waited for
    leaves: Activity | None = None


class HookWait(MutableStruct):
    """One hook that a member waits for."""

    token: str
    began: float
    until: float
    result: str = ""


class Group(MutableStruct):
    """An Auto Scaling group."""

    name: str
    region: str
    given: dict[str, Any]  # the fields of CreateAutoScalingGroup that are shown as they came
    least: int
    most: int
    desired: int
    created: float
    template: dict[str, str]  # LaunchTemplateId, LaunchTemplateName, Version
    types: tuple[str, ...] = ()  # of the overrides, in their order
    subnets: tuple[str, ...] = ()
    hooks: dict[str, dict[str, Any]] = field(default_factory=dict)
    suspended: set[str] = field(default_factory=set)
    schedule: dict[str, dict[str, Any]] = field(default_factory=dict)
    members: dict[str, GroupMember] = field(default_factory=dict)
    activities: list[Activity] = field(default_factory=list)
    refreshes: list[Any] = field(default_factory=list)
    tags: list[dict[str, Any]] = field(default_factory=list)
    deleting: bool = False
    retry_at: float = 0.0

    @property
    def staying(self) -> list[GroupMember]:
        """The members that count: not those in Standby, which no change of size ends (…/userguide/as-enter-exit-standby.html)."""
        return [member for member in self.members.values() if member.state not in LEAVING | {"Standby"}]

    def note(self, activity: Activity) -> Activity:
        """Add an activity, the newest first."""
        self.activities.insert(0, activity)
        del self.activities[_KEPT:]
        return activity


class Engine(MutableStruct):
    """Keeps the groups of all regions, in a thread that begins with the first of them.

    Args:
        now: the clock, in seconds.
        launch: starts an instance for a group in one of its subnets or anywhere; its id, zone, type
            and template. It raises what EC2 answers.
        end: ends an instance.
        state: the state of an instance as EC2 has it; empty for none.
        retry_s: seconds from a launch that failed to the next one.
        roll: takes the next step of a group's refresh.
    """

    now: Callable[[], float]
    launch: Callable[[Group], tuple[str, str, str, dict[str, str]]]
    end: Callable[[Group, str], None]
    state: Callable[[Group, str], str]
    retry_s: Callable[[], float]
    roll: Callable[[Engine, Group], None] = lambda _engine, _group: None
    groups: dict[tuple[str, str], Group] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _wake: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _closed: bool = False

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the groups still, and let the loop look at them afterwards."""
        with self._lock:
            yield
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="groups", daemon=True)
                self._thread.start()
        self._wake.set()

    def target_state(self, region: str, instance_id: str) -> str:
        """What the metadata of an instance says that its group wants of it; empty outside groups."""
        for (where, _), group in list(self.groups.items()):
            member = group.members.get(instance_id) if where == region else None
            if member:
                return "Terminated" if member.state in LEAVING else "InService"
        return ""

    def close(self) -> None:
        """Let nothing happen any more."""
        self._closed = True
        self._wake.set()

    def _run(self) -> None:
        while not self._closed:
            for key in list(self.groups):
                with self._lock:
                    group = self.groups.get(key)
                    if group and not self._closed:
                        self._step(group)
            self._wake.wait(_PAUSE_S if self.groups else None)
            self._wake.clear()

    def _step(self, group: Group) -> None:
        now = self.now()
        self._on_schedule(group, now)
        for member in list(group.members.values()):
            self._advance(group, member, now)
        if group.deleting and not group.members:
            self.groups.pop((group.region, group.name), None)
            return
        self._replace_unhealthy(group, now)
        self.roll(self, group)
        self._resize(group, now)

    def _on_schedule(self, group: Group, now: float) -> None:
        for name, action in sorted(group.schedule.items(), key=lambda item: float(item[1]["at"])):
            if action["at"] <= now and "ScheduledActions" not in group.suspended:
                del group.schedule[name]
                group.least = action["MinSize"] if action["MinSize"] is not None else group.least
                group.most = action["MaxSize"] if action["MaxSize"] is not None else group.most
                wanted = action["DesiredCapacity"] if action["DesiredCapacity"] is not None else group.desired
                group.desired = min(max(wanted, group.least), group.most)

    def _advance(self, group: Group, member: GroupMember, now: float) -> None:
        """Take a member to its next state."""
        there = self.state(group, member.id)
        if member.state in LEAVING:
            self._leave(group, member, there, now)
            return
        if there in {"", "terminated", "shutting-down", "stopped", "stopping"} and not group.suspended & {
            "HealthCheck",
            "ReplaceUnhealthy",
        }:
            member.healthy = False
            if member.state != "InService":
                member.activity.end("Failed", now, "The instance ended before it was in service.")
            self._retire(group, member, now, "an EC2 health check indicating it has been terminated or stopped")
            return
        if member.state == "Pending" and there == "running":
            self._wait(group, member, LAUNCHING, "Pending:Wait", now)
        if member.state == "Pending:Wait":
            result = self._result(group, member, now)
            if result == "CONTINUE":
                member.state, member.since, member.hooks = "InService", now, {}
                member.activity.end("Successful", now)
            elif result == "ABANDON":
                member.activity.end("Cancelled", now, "Instance failed to complete user's Lifecycle Action: ABANDON")
                self._retire(group, member, now, "a lifecycle hook that was abandoned", hooks=False)
                group.retry_at = max(group.retry_at, now + self.retry_s())

    def _wait(self, group: Group, member: GroupMember, transition: str, state: str, now: float) -> None:
        hooks = {name: hook for name, hook in group.hooks.items() if hook["LifecycleTransition"] == transition}
        member.state, member.since = state, now
        member.hooks = {name: HookWait(secrets.token_hex(16), now, now + hook["HeartbeatTimeout"]) for name, hook in hooks.items()}

    def _result(self, group: Group, member: GroupMember, now: float) -> str:
        """What the hooks of a member say together; empty while one is open."""
        for name, wait in member.hooks.items():
            hook = group.hooks.get(name)
            limit = min(_LONGEST_WAIT_S, _MOST_HEARTBEATS * (hook["HeartbeatTimeout"] if hook else 0))
            if not wait.result and (hook is None or now >= min(wait.until, wait.began + limit)):
                wait.result = hook["DefaultResult"] if hook else "CONTINUE"
        results = [wait.result for wait in member.hooks.values()]
        if "ABANDON" in results:
            return "ABANDON"
        return "CONTINUE" if all(results) else ""

    def _retire(self, group: Group, member: GroupMember, now: float, cause: str, *, hooks: bool = True) -> None:
        """Let a member leave; its instance ends when the hooks allow it."""
        if member.state in LEAVING:
            return
        member.leaves = group.note(Activity(f"Terminating EC2 instance: {member.id}", f"because of {cause}", now, member.id))
        if hooks:
            self._wait(group, member, TERMINATING, "Terminating:Wait", now)
        else:
            member.state, member.since, member.hooks = "Terminating", now, {}

    def retire(self, group: Group, member: GroupMember, cause: str) -> None:
        """The same for whoever else decides that a member has to go."""
        self._retire(group, member, self.now(), cause)

    def _leave(self, group: Group, member: GroupMember, there: str, now: float) -> None:
        if member.state == "Terminating:Wait" and (self._result(group, member, now) or there in {"", "terminated"}):
            member.state, member.hooks = "Terminating", {}
        if member.state == "Terminating" and there not in {"", "terminated", "shutting-down"}:
            self.end(group, member.id)
            there = self.state(group, member.id)
        if member.state == "Terminating" and there in {"", "terminated"}:
            if member.leaves:
                member.leaves.end("Successful", now)
            del group.members[member.id]

    def _replace_unhealthy(self, group: Group, now: float) -> None:
        if "ReplaceUnhealthy" in group.suspended:
            return
        grace_s = float(group.given.get("HealthCheckGracePeriod") or 0)
        for member in group.staying:
            if not member.healthy and member.state == "InService" and now >= member.since + grace_s:
                self._retire(group, member, now, "an instance that was marked as unhealthy")

    def _resize(self, group: Group, now: float) -> None:
        staying = group.staying if not group.deleting else [member for member in group.members.values() if member.state not in LEAVING]
        surplus = len(staying) - group.desired
        if surplus > 0 and "Terminate" not in group.suspended:
            open_to = sorted((m for m in staying if group.deleting or not m.protected), key=lambda m: (m.state == "InService", m.since))
            for member in open_to[:surplus]:
                cause = f"a difference between desired and actual capacity, {group.desired} and {len(staying)}"
                self._retire(group, member, now, cause, hooks=member.state == "InService")
        for _ in range(-surplus):
            if group.deleting or "Launch" in group.suspended or now < group.retry_at or not self._launch(group, now):
                return

    def _launch(self, group: Group, now: float) -> bool:
        activity = group.note(Activity("Launching a new EC2 instance", "capacity below the desired one", now))
        try:
            instance_id, zone, instance_type, template = self.launch(group)
        except Exception as error:  # noqa: BLE001 - whatever EC2 answers is the activity's message
            activity.end("Failed", now, f"{error} Launching EC2 instance failed.")
            group.retry_at = now + self.retry_s()
            return False
        activity.description, activity.instance_id = f"Launching a new EC2 instance: {instance_id}", instance_id
        protected = bool(group.given.get("NewInstancesProtectedFromScaleIn"))
        group.members[instance_id] = GroupMember(instance_id, zone, instance_type, template, activity, since=now, protected=protected)
        return True
