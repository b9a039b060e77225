"""What EC2 does and moto does not, put into moto's own classes; which gaps there are is listed in shared/facts/emulators.md §A.

Here: timed state changes, power and consoles. Launches are in `ec2_launch`, spot in `ec2_spot`, all other answers in `ec2_answers`.
"""

from __future__ import annotations

import base64
import threading
import time
from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.models.instances import Instance, InstanceBackend, InstanceState
from moto.ec2.responses.general import General

from provision.rehearsal import ec2_answers, ec2_launch, ec2_spot
from provision.rehearsal.ec2_launch import loopback, set_address
from provision.rehearsal.ec2_model import Park, Settings, instances

__all__ = ["Settings", "ended_by_itself", "instances", "patch"]


def patch(settings: Settings, park: Park | None) -> None:
    """Change moto's classes for this process. With a park, instances are its hosts; without, their addresses are loopback ones."""
    lock = threading.RLock()
    _patch_states(settings)
    ec2_launch.patch(settings, park, lock, lambda instance: _transition(instance, "pending", 0, settings.pending_s))
    _patch_visibility(settings)
    _patch_power(park)
    _patch_console(settings, park)
    ec2_answers.patch(settings)
    ec2_spot.patch(settings)


# --- states -------------------------------------------------------------------------------------------------------


def _transition(instance: Instance, name: str, code: int, seconds: float) -> None:
    """Show another state for a while before the one that moto holds."""
    instance.__dict__["_via"] = (InstanceState(name, code), time.monotonic() + seconds)


def _patch_states(settings: Settings) -> None:
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
            _transition(self, name, code, getattr(settings, seconds))
            return before

        setattr(Instance, method, changed)

    wrap("start", "pending", 0, ("running", 16), "pending_s")
    wrap("stop", "stopping", 64, ("stopped", 80), "ending_s")
    wrap("terminate", "shutting-down", 32, ("terminated", 48), "ending_s")


def _patch_visibility(settings: Settings) -> None:
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
    off = park or _Nothing()

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


class _Nothing:
    """Instances without hosts: nothing happens to them."""

    def stop(self, instance_id: str) -> None: ...
    def reboot(self, instance_id: str) -> None: ...
    def destroy(self, instance_id: str) -> None: ...


def _powered_off(instance: Instance, park: Park | _Nothing) -> None:
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


def _patch_console(settings: Settings, park: Park | None) -> None:
    def get_console_output(self: Any) -> ActionResult:
        instance = self.ec2_backend.get_instance(self._get_param("InstanceId"))
        shown = park is not None and time.monotonic() - instance.launched >= settings.console_delay_s and instance.state != "terminated"
        text = park.console(instance.id)[-65_536:] if park and shown else ""
        output = base64.b64encode(text.encode()).decode()
        return ActionResult({"InstanceId": instance.id, "Timestamp": utcnow(), "Output": output})

    General.get_console_output = get_console_output
