"""Instances of the embedded EC2 as moto does not have them: states that take their time, real power, consoles, status events.

Launches are in `launch`, spot requests in `spot`.
"""

from __future__ import annotations

import base64
import datetime as dt
import time
from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.models.instances import Instance, InstanceBackend, InstanceState
from moto.ec2.responses.general import General
from moto.ec2.responses.instances import InstanceResponse

from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import instances, loopback, set_address, show_state
from provision.rehearsal.base import Park


def patch(settings: AwsSettings, park: Park | None) -> None:
    """Change moto's classes for this process. With a park, instances are its hosts; without, their addresses are loopback ones."""
    _patch_states(settings)
    _patch_visibility(settings)
    _patch_power(park)
    _patch_console(settings, park)
    _patch_status(settings)


def _patch_states(settings: AwsSettings) -> None:
    def shown(self: Any) -> InstanceState | None:
        via = self.__dict__.get("_via")
        if via and time.monotonic() < via[1]:
            return InstanceState(via[0].name, via[0].code)
        held = self.__dict__.get("_held")
        return held if isinstance(held, InstanceState) else None

    def hold(self: Any, state: InstanceState) -> None:
        self.__dict__["_held"] = state

    Instance._state = property(shown, hold)  # noqa: SLF001 - moto offers no other way to its states

    def wrap(method: str, name: str, code: int, then: tuple[str, int], seconds: str) -> None:
        original = getattr(Instance, method)

        def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
            before = original(self, *args, **kwargs)
            self._state = InstanceState(*then)  # what moto changed may have been a shown state, which is not kept
            show_state(self, name, code, getattr(settings, seconds))
            return before

        setattr(Instance, method, changed)

    wrap("start", "pending", 0, ("running", 16), "pending_s")
    wrap("stop", "stopping", 64, ("stopped", 80), "ending_s")
    wrap("terminate", "shutting-down", 32, ("terminated", 48), "ending_s")


def _patch_visibility(settings: AwsSettings) -> None:
    """Leave new instances out of descriptions for a while."""

    def describe_instances(self: Any, filters: Any = None) -> Any:
        found = self.all_reservations(filters)
        since = time.monotonic() - settings.unseen_s
        for reservation in found:  # copies, whose lists are the originals'
            reservation.instances = [i for i in reservation.instances if getattr(i, "launched", 0.0) <= since]
        return [reservation for reservation in found if reservation.instances]

    InstanceBackend.describe_instances = describe_instances


def _patch_power(park: Park | None) -> None:
    """Let what is asked of instances happen to their hosts."""
    start = park.start if park else (lambda _id: loopback())
    off = park or _NoHosts()

    def follow(method: str, act: Any) -> None:
        original = getattr(InstanceBackend, method)

        def changed(self: Any, instance_ids: list[str]) -> Any:
            alive = {i.id for i in self.get_multi_instances_by_id(instance_ids) if i.state not in {"terminated", "shutting-down"}}
            done = original(self, instance_ids)
            for instance in self.get_multi_instances_by_id(instance_ids):
                if instance.id in alive:
                    act(instance)
            return done

        setattr(InstanceBackend, method, changed)

    follow("start_instances", lambda i: _started(i, start))
    follow("stop_instances", lambda i: _powered_off(i, off))
    follow("reboot_instances", lambda i: off.reboot(i.id))
    follow("terminate_instances", lambda i: off.destroy(i.id))


def _started(instance: Instance, start: Any) -> None:
    address = start(instance.id)
    if not instance.private:  # a private address stays
        set_address(instance, address)


class _NoHosts:
    """Instances without hosts: nothing happens to them."""

    def stop(self, instance_id: str) -> None: ...
    def reboot(self, instance_id: str) -> None: ...
    def destroy(self, instance_id: str) -> None: ...


def _powered_off(instance: Instance, park: Park | _NoHosts) -> None:
    park.stop(instance.id)
    set_address(instance, None)  # EC2 takes the public address back, and gives another at the next start


def ended_by_itself(park: Park, instance_id: str) -> None:
    """A host powered itself off: EC2 terminates or stops the instance, as its shutdown behaviour says."""
    for instance in instances():
        if instance.id == instance_id and instance.state not in {"terminated", "stopped", "shutting-down", "stopping"}:
            if instance.shutdown_behavior == "terminate":
                instance.terminate()
                park.destroy(instance_id)
            else:
                instance.stop()
                park.stop(instance_id)


def _patch_console(settings: AwsSettings, park: Park | None) -> None:
    def get_console_output(self: Any) -> ActionResult:
        instance = self.ec2_backend.get_instance(self._get_param("InstanceId"))
        shown = park is not None and time.monotonic() - instance.launched >= settings.console_delay_s and instance.state != "terminated"
        text = park.console(instance.id)[-65_536:] if park and shown else ""
        output = base64.b64encode(text.encode()).decode()
        return ActionResult({"InstanceId": instance.id, "Timestamp": utcnow(), "Output": output})

    General.get_console_output = get_console_output


def _patch_status(settings: AwsSettings) -> None:
    def describe_instance_status(self: Any) -> ActionResult:
        found = self.ec2_backend.describe_instance_status(
            self._get_param("InstanceIds", []),
            self._get_bool_param("IncludeAllInstances", if_none=False),
            [{"name": k, "values": v} for k, v in self._filters_from_querystring().items()],
        )
        return ActionResult({"InstanceStatuses": [_status(instance, settings) for instance in found]})

    InstanceResponse.describe_instance_status = describe_instance_status


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
