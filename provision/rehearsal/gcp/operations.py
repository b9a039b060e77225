"""Operations: what a call that changes something answers with, and what it is later waited for by."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from provision.rehearsal.gcp.listing import listed
from provision.rehearsal.gcp.world import GcpCall, Handler, ResourcePath, now

_LONGEST_WAIT_S: Final = 110.0  # Google's wait answers within two minutes, done or not: the method's description in the document
_TEMPLATE: Final[dict[str, Any]] = {"kind": "compute#operation", "user": "rehearsal@gpuprov-rehearsal.iam.gserviceaccount.com"}


def failure(code: str, message: str, *, http: int = 503, details: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """How an operation ends when it fails: the fields that it has then.

    Args:
        code: such as `QUOTA_EXCEEDED`.
        message: what a user reads.
        http: the status that the operation names.
        details: `errorDetails`, each with `errorInfo`, `quotaInfo`, `help` or `localizedMessage`.
    """
    error = {"code": code, "message": message, **({"errorDetails": details} if details else {})}
    # Clients show the phrase in capitals: "503 SERVICE UNAVAILABLE ZONE_RESOURCE_POOL_EXHAUSTED…", scylladb/scylla-cluster-tests#12477.
    return {"error": {"errors": [error]}, "httpErrorStatusCode": http, "httpErrorMessage": HTTPStatus(http).phrase.upper()}


def begin(
    call: GcpCall,
    target: ResourcePath,
    *,
    kind: str | None = None,
    finish: Callable[[], None] | None = None,
    settle: Callable[[], None] | None = None,
    failed: dict[str, Any] | None = None,
    more: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Start an operation, which ends after `gce_operation_s`.

    Args:
        call: what asked for it; its request id will find the operation again.
        target: what is changed.
        kind: the operation's type; the method's name by default.
        finish: done at its end, under the lock.
        settle: done before that, without the lock; the operation takes as long as it does.
        failed: how it ends if it fails, from `failure`.
        more: further fields of the operation.
    """
    world = call.world
    failed = failed or call.failing
    project, scope = call.path["project"], call.scope
    place = ResourcePath(project, scope, "operations", f"operation-{time.time_ns() // 10**6}-{uuid.uuid4().hex[:22]}")
    operation = world.add(place, "operation", {**_TEMPLATE, "operationType": kind or call.method.id.rsplit(".", 1)[1], **(more or {})})
    del operation["creationTimestamp"]
    operation |= {"status": "PENDING", "progress": 0, "targetLink": target.link, "insertTime": now(), "startTime": now()}
    if target in world.resources:
        operation["targetId"] = world.resources[target]["id"]

    def end() -> None:
        if settle:
            settle()
        with world.lock:
            operation.update({"status": "DONE", "progress": 100, "endTime": now(), **(failed or {})})
            try:
                if finish:
                    finish()
            finally:
                world.changed.notify_all()

    if world.settings.gce_operation_s <= 0:
        end()
    else:
        world.timers.after(world.settings.gce_operation_s, end)
    return dict(operation)


def _place(call: GcpCall) -> ResourcePath:
    return ResourcePath(call.path["project"], call.scope, "operations", call.path["operation"])


def _get(call: GcpCall) -> dict[str, Any]:
    operation = call.world.get(_place(call))
    if operation["status"] == "PENDING":
        operation |= {"status": "RUNNING", "progress": 10}
    return dict(operation)


def _wait(call: GcpCall) -> dict[str, Any]:
    operation = call.world.get(_place(call))
    call.world.changed.wait_for(lambda: operation["status"] == "DONE", timeout=_LONGEST_WAIT_S)
    return _get(call)


def _list(call: GcpCall) -> dict[str, Any]:
    return listed(call, [o for _, o in call.world.within(call.path["project"], "operations", call.scope)], "operation", "operations")


HANDLERS: Final[dict[str, Handler]] = {
    f"compute.{scope}Operations.{verb}": handler
    for scope in ("zone", "region", "global")
    for verb, handler in (("get", _get), ("wait", _wait), ("list", _list))
}
