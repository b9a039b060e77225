"""Operations: the answer to a call that changes something, by which a client waits for the change."""

import time
import uuid
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from provision.rehearsal.gcp.listing import as_list
from provision.rehearsal.gcp.unkind import begun, later_s
from provision.rehearsal.gcp.world import GcpCall, Handler, ResourcePath, now

_LONGEST_WAIT_S: Final = 110.0  # Google's wait answers within two minutes in any case: the method's description in the document
_TEMPLATE: Final[dict[str, Any]] = {"kind": "compute#operation", "user": "rehearsal@gpuprov-rehearsal.iam.gserviceaccount.com"}


def failure(code: str, message: str, *, http: int = 503, details: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """The fields of an operation that failed; each detail has `errorInfo`, `quotaInfo`, `help` or `localizedMessage`."""
    error = {"code": code, "message": message, **({"errorDetails": details} if details else {})}
    # Clients show the phrase in capitals: "503 SERVICE UNAVAILABLE ZONE_RESOURCE_POOL_EXHAUSTED…", scylladb/scylla-cluster-tests#12477.
    return {"error": {"errors": [error]}, "httpErrorStatusCode": http, "httpErrorMessage": HTTPStatus(http).phrase.upper()}


def begin(
    call: GcpCall,
    target: ResourcePath,
    *,
    kind: str | None = None,  # the operation's type; the method's name by default
    settle: Callable[[], None] | None = None,  # called before the operation ends, without the lock, for as long as it takes
    finish: Callable[[], object] | None = None,  # called under the lock when the operation succeeds
    undo: Callable[[], object] | None = None,  # called under the lock when it fails
    error: dict[str, Any] | None = None,  # how it fails, from `failure`; by default as the call's fault says, if it has one
    more: dict[str, Any] | None = None,  # further fields of the operation
) -> dict[str, Any]:
    """Start an operation on what a call changes, which ends after `gce_operation_s`, and some later."""
    world, error = call.world, error or call.error
    place = ResourcePath(call.path["project"], call.scope, "operations", f"operation-{time.time_ns() // 10**6}-{uuid.uuid4().hex[:22]}")
    operation = world.add(place, "operation", {**_TEMPLATE, "operationType": kind or call.method.id.rsplit(".", 1)[1], **(more or {})})
    del operation["creationTimestamp"]
    operation |= {"status": "PENDING", "progress": 0, "targetLink": target.link, "insertTime": now(), "startTime": now()}
    if target in world.resources:
        operation["targetId"] = world.resources[target]["id"]

    begun(world, target, 1)

    def end() -> None:
        if settle:
            settle()
        with world.lock:
            begun(world, target, -1)
            operation.update({"status": "DONE", "progress": 100, "endTime": now(), **(error or {})})
            act = undo if error else finish
            try:
                if act:
                    act()
            finally:
                world.progress.notify_all()

    seconds = world.settings.gce_operation_s + later_s(call)
    if seconds <= 0:
        end()
    else:
        world.timers.after(seconds, end)
    return dict(operation)


def _operation(call: GcpCall) -> dict[str, Any]:
    return call.world.get(ResourcePath(call.path["project"], call.scope, "operations", call.path["operation"]))


def _get(call: GcpCall) -> dict[str, Any]:
    operation = _operation(call)
    if operation["status"] == "PENDING":
        operation |= {"status": "RUNNING", "progress": 10}
    return dict(operation)


def _wait(call: GcpCall) -> dict[str, Any]:
    operation = _operation(call)
    call.world.progress.wait_for(lambda: operation["status"] == "DONE", timeout=_LONGEST_WAIT_S)
    return _get(call)


def _list(call: GcpCall) -> dict[str, Any]:
    answer = as_list(call, [o for _, o in call.world.within(call.path["project"], "operations", call.scope)])
    links = {name: answer[name].replace(call.collection, "operations") for name in ("id", "selfLink")}
    return {**answer, **links, "kind": "compute#operationList"}


HANDLERS: Final[dict[str, Handler]] = {
    f"compute.{scope}Operations.{verb}": handler
    for scope in ("zone", "region", "global")
    for verb, handler in (("get", _get), ("wait", _wait), ("list", _list))
}
