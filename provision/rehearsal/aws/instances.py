"""Instances of the embedded EC2 as moto does not have them: states that take their time, real power, consoles, status events.

Launches are in `launch`, spot requests in `spot`.
"""

import base64
import copy
import datetime as dt
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.instances import Instance, InstanceBackend, InstanceState
from moto.ec2.models.tags import TagBackend
from moto.ec2.responses.general import General
from moto.ec2.responses.instances import InstanceResponse
from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, get_prefix

from provision.rehearsal.aws import late
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import instances, loopback, method_of, refuse, set_address, show_state
from provision.rehearsal.hosts import HostPark

_CONSOLE_BYTES: Final = 65_536
_PENDING_S: Final = 0.02
_OVER: Final = {"terminated", "shutting-down"}


def patch(settings: AwsSettings, park: HostPark | None) -> None:
    """Change moto's classes for this process. With a park, instances are its hosts; without, their addresses are loopback ones."""
    _patch_states(settings)
    _patch_tags(settings)
    _patch_memory(settings)
    _patch_power(park)
    _patch_answers(settings, park)


def _patch_states(settings: AwsSettings) -> None:
    def state(self: Any) -> InstanceState | None:
        passing = self.__dict__.get("_via")
        if passing and time.monotonic() < passing[1]:
            return InstanceState(passing[0].name, passing[0].code)
        lasting = self.__dict__.get("_held")
        return lasting if isinstance(lasting, InstanceState) else None

    def hold(self: Any, state: InstanceState) -> None:
        self.__dict__["_held"] = state

    Instance._state = property(state, hold)  # noqa: SLF001 - moto offers no other way to its states

    def wrap(method: str, name: str, code: int, then: tuple[str, int], seconds: str) -> None:
        original = getattr(Instance, method)

        def change(self: Any, *args: Any, **kwargs: Any) -> Any:
            before = original(self, *args, **kwargs)
            self._state = InstanceState(*then)  # what moto changed may have been the passing state, which is not kept
            show_state(self, name, code, getattr(settings, seconds))
            if method == "terminate":
                self.__dict__["_ended"] = time.monotonic() + getattr(settings, seconds)
            return before

        setattr(Instance, method, change)

    wrap("start", "pending", 0, ("running", 16), "pending_s")
    wrap("stop", "stopping", 64, ("stopped", 80), "ending_s")
    wrap("terminate", "shutting-down", 32, ("terminated", 48), "ending_s")


def _patch_tags(settings: AwsSettings) -> None:
    """Show the tags of a thing, and find it by them, only some time after its first ones were put on it: EC2 is eventually consistent."""
    create, describe = TagBackend.create_tags, TagBackend.describe_tags

    def is_late(resource_id: str) -> bool:
        return late.is_late(f"tags {resource_id}", settings, settings.tags_s)

    @method_of(TagBackend)
    def create_tags(self: Any, resource_ids: list[str], tags: dict[str, str]) -> bool:
        for resource_id in resource_ids:
            late.born(f"tags {resource_id}")
        return bool(create(self, resource_ids, tags))

    @method_of(TagBackend)
    def describe_tags(self: Any, filters: Any = None) -> list[dict[str, str]]:
        return [row for row in describe(self, filters) if not is_late(row["resource_id"])]

    @method_of(TaggedEC2Resource)
    def get_tags(self: Any) -> list[dict[str, str]]:
        """Look a resource's tags up by its id; moto searches the tags of all resources, several times for each one that it describes."""
        kind = EC2_PREFIX_TO_RESOURCE.get(get_prefix(self.id), "") if self.id else ""
        tags = self.ec2_backend.tags.get(self.id, {}) if self.id and not is_late(self.id) else {}
        return [{"resource_id": self.id, "key": key, "value": value, "resource_type": kind} for key, value in tags.copy().items()]


def _patch_memory(settings: AwsSettings) -> None:
    """Forget instances that ended, as EC2 does; moto describes them for ever, and each call costs more than the one before."""
    every = InstanceBackend.all_reservations

    @method_of(InstanceBackend)
    def all_reservations(self: Any, filters: Any = None) -> Any:
        before = time.monotonic() - settings.terminated_s
        for number, reservation in self.reservations.copy().items():
            # One without instances is being filled by another request.
            if reservation.instances and all(_has_ended(instance, before) for instance in reservation.instances):
                self.reservations.pop(number, None)  # another request may do the same
        return every(self, filters)


def _has_ended(instance: Any, before: float) -> bool:
    """Whether an instance was terminated before this time."""
    return bool(instance.__dict__.get("_ended", before) < before)


def _refuse_ended(instances: Iterable[Instance], done: str) -> None:
    """The words: https://github.com/canonical/ubuntu-pro-client/pull/1697; of those that ended: cloud-custodian/cloud-custodian#3143."""
    for instance in instances:
        if instance.state in _OVER or (done == "started" and instance.state == "stopping"):
            refuse("IncorrectInstanceState", f"The instance '{instance.id}' is not in a state from which it can be {done}.")


def _refuse_one_time(instances: Iterable[Instance]) -> None:
    """EC2 stops only spot machines of persistent requests (cloud-custodian/cloud-custodian#8003); gpuprov's are one-time."""
    _refuse_ended(instances, "stopped")
    for instance in instances:
        if instance.lifecycle == "spot":
            words = f"You can't stop the Spot Instance '{instance.id}' because it is associated with a one-time Spot Instance request."
            refuse("UnsupportedOperation", words)


def _refuse_protected(instances: Iterable[Instance]) -> None:
    """End what is in other zones than those that are protected, and refuse: API_TerminateInstances says so, with an example."""
    zones = {instance.placement.zone: instance for instance in instances if instance.disable_api_termination}
    others = [instance.id for instance in instances if instance.placement.zone not in zones]
    for kept in list(zones.values())[:1]:
        if others:
            kept.ec2_backend.terminate_instances(others)
        words = f"The instance '{kept.id}' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again."
        refuse("OperationNotPermitted", words)


def _patch_power(park: HostPark | None) -> None:
    """Do to the host of an instance what a call does to the instance."""

    def follow(method: str, act: Callable[[Instance], None], check: Callable[[Iterable[Instance]], object] = list) -> None:
        original = getattr(InstanceBackend, method)

        def change(self: Any, instance_ids: list[str]) -> Any:
            check(self.get_multi_instances_by_id(instance_ids))
            alive = {i.id for i in self.get_multi_instances_by_id(instance_ids) if i.state not in _OVER}
            answer = original(self, instance_ids)
            for instance in self.get_multi_instances_by_id(instance_ids):
                if instance.id in alive:
                    act(instance)
            return answer

        setattr(InstanceBackend, method, change)

    def start(instance: Instance) -> None:
        address = park.start(instance.id) if park else loopback()
        if not instance.private:  # a private address stays
            set_address(instance, address)

    def stop(instance: Instance) -> None:
        if park:
            park.stop(instance.id)
        set_address(instance, None)  # EC2 takes the public address back, and gives another at the next start

    _patch_start(start)
    follow("stop_instances", stop, _refuse_one_time)
    follow("terminate_instances", lambda instance: park.destroy(instance.id) if park else None, _refuse_protected)
    if park:
        follow("reboot_instances", lambda instance: park.reboot(instance.id))


def _patch_start(act: Callable[[Instance], None]) -> None:
    """Start what is stopped; one that runs stays as it is, and the answer says that (https://github.com/stackshy/cloudemu/pull/153)."""
    begin = InstanceBackend.start_instances

    @method_of(InstanceBackend)
    def start_instances(self: Any, instance_ids: list[str]) -> Any:
        there = self.get_multi_instances_by_id(instance_ids)
        _refuse_ended(there, "started")
        begun = begin(self, [i.id for i in there if i.state == "stopped"])
        for instance, _ in begun:
            act(instance)
        return [*begun, *((i, copy.copy(i.instance_state)) for i in there if i not in [started for started, _ in begun])]

    def answer(self: Any) -> ActionResult:
        self.error_on_dryrun()
        rows = [
            {"InstanceId": instance.id, "CurrentState": instance.instance_state, "PreviousState": before}
            for instance, before in self.ec2_backend.start_instances(self._get_param("InstanceIds", []))
        ]
        return ActionResult({"StartingInstances": rows})

    InstanceResponse.start_instances = answer


def ended_by_itself(park: HostPark, instance_id: str) -> None:
    """A host powered itself off: EC2 terminates or stops the instance, as its shutdown behaviour says."""
    for instance in instances():
        while instance.id == instance_id and instance.state == "pending":
            time.sleep(_PENDING_S)  # at EC2 an instance runs before its system can end it
        if instance.id == instance_id and instance.state not in {"terminated", "stopped", "shutting-down", "stopping"}:
            if instance.shutdown_behavior == "terminate":
                instance.terminate()
                park.destroy(instance_id)
            else:
                instance.stop()
                park.stop(instance_id)


def _patch_answers(settings: AwsSettings, park: HostPark | None) -> None:
    @method_of(InstanceBackend)
    def describe_instances(self: Any, filters: Any = None) -> Any:
        """Leave new instances out for a while."""
        reservations = self.all_reservations(filters)
        since = time.monotonic() - settings.unseen_s
        for reservation in reservations:  # copies, whose lists are the originals'
            shown = (i for i in reservation.instances if getattr(i, "launched", 0.0) <= since)
            reservation.instances = [i for i in shown if not late.is_late(i.id, settings)]
        return [reservation for reservation in reservations if reservation.instances]

    @method_of(General)
    def get_console_output(self: Any) -> ActionResult:
        instance = self.ec2_backend.get_instance(self._get_param("InstanceId"))
        late = time.monotonic() - instance.launched >= settings.console_delay_s
        text = park.console(instance.id)[-_CONSOLE_BYTES:] if park and late else ""  # of one that ended as well
        output = base64.b64encode(text.encode()).decode()
        return ActionResult({"InstanceId": instance.id, "Timestamp": utcnow(), "Output": output})

    @method_of(InstanceResponse)
    def describe_instance_status(self: Any) -> ActionResult:
        answer = self.ec2_backend.describe_instance_status(
            self._get_param("InstanceIds", []),
            self._get_bool_param("IncludeAllInstances", if_none=False),
            [{"name": k, "values": v} for k, v in self._filters_from_querystring().items()],
        )
        shown = (instance for instance in answer if not late.is_late(instance.id, settings))
        return ActionResult({"InstanceStatuses": [_status(instance, settings) for instance in shown]})


def _status(instance: Any, settings: AwsSettings) -> dict[str, Any]:
    fine = {"Status": "ok" if instance.state == "running" else "not-applicable"}
    events = [
        {**event, **({"NotBefore": dt.datetime.fromisoformat(event["NotBefore"])} if "NotBefore" in event else {})}
        for event in settings.events.get(instance.id, [])
    ]
    return {
        "InstanceId": instance.id,
        "AvailabilityZone": instance.placement.zone,
        "InstanceState": {"Name": instance._state.name, "Code": instance._state.code},  # noqa: SLF001 - moto offers no other way
        "InstanceStatus": fine,
        "SystemStatus": fine,
        "Events": events,
    }
