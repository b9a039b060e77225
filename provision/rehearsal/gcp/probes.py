"""Health checks of the embedded GCP: a real HTTP request to each member's host, counted as the check says.

The defaults are those of the schema HealthCheck in Google's document.
"""

import http.client
import time
from typing import Any, Final

from provision.rehearsal.gcp.listing import get, list_scope
from provision.rehearsal.gcp.operations import begin
from provision.rehearsal.gcp.refusals import in_use, invalid, not_found, not_implemented, require
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import BASE, GcpCall, Handler, ResourcePath, World
from provision.structs import MutableStruct

_COLLECTIONS: Final = ("healthChecks", "regionHealthChecks")
_OK: Final = 200
_PLAIN: Final = {"checkIntervalSec": 5, "timeoutSec": 5, "healthyThreshold": 2, "unhealthyThreshold": 2}


class Health(MutableStruct):
    """What a check has seen of one member."""

    state: str = "UNKNOWN"
    good: int = 0
    bad: int = 0
    asked_at: float = 0.0
    asking: bool = False
    had_good: bool = False

    def count(self, check: dict[str, Any], *, answered: bool | None) -> None:
        """Count an answer: good, bad, or None for none."""
        self.asking = False
        self.good, self.bad = (self.good + 1, 0) if answered else (0, self.bad + 1)
        if answered and self.good >= check["healthyThreshold"]:
            self.state, self.had_good = "HEALTHY", True
        elif not answered and self.bad >= check["unhealthyThreshold"]:
            self.state = "TIMEOUT" if answered is None else "UNHEALTHY"


def by_link(world: World, link: str) -> dict[str, Any]:
    """A check by a full or partial URL; one that does not exist is refused."""
    path = link.removeprefix(BASE).removeprefix(f"projects/{PROJECT}/")
    scope, _, name = path.rpartition("/healthChecks/")
    found = world.resources.get(ResourcePath(PROJECT, scope, _COLLECTIONS[scope != "global"], name))
    if found is None:
        raise not_found(f"projects/{PROJECT}/{path}")
    return found


def due(world: World, health: Health, check: dict[str, Any]) -> bool:
    """Whether a member is to be asked now."""
    interval_s = world.settings.gce_check_s if world.settings.gce_check_s is not None else float(check["checkIntervalSec"])
    return not health.asking and time.monotonic() >= health.asked_at + interval_s


def probe(world: World, health: Health, check: dict[str, Any], name: str, address: str) -> None:
    """Ask a member; without the world's lock. Where there are no hosts, the settings say what is answered."""
    http_check = check["httpHealthCheck"]
    answered: bool | None = None
    if world.park is None:
        status = world.settings.gce_answers.get(name, world.settings.gce_answers.get("*"))
        answered = None if status is None else status == _OK
    else:
        connection = http.client.HTTPConnection(address, http_check.get("port", 80), timeout=check["timeoutSec"])
        try:
            connection.request("GET", http_check.get("requestPath", "/"))
            answered = connection.getresponse().status == _OK
        except (OSError, http.client.HTTPException):
            answered = None
        finally:
            connection.close()
    with world.lock:
        health.asked_at = time.monotonic()
        health.count(check, answered=answered)


def _insert(call: GcpCall) -> dict[str, Any]:
    require(call.body, "name")
    if call.body.get("type") != "HTTP":
        raise not_implemented(call.method.id, [f"type {call.body.get('type')}"])
    require(call.body, "httpHealthCheck")
    place = call.resource(call.body["name"])
    body = {**_PLAIN, **call.body}
    if body["timeoutSec"] > body["checkIntervalSec"]:
        raise invalid("resource.timeoutSec", body["timeoutSec"], "It must not be greater than checkIntervalSec.")
    made = call.world.add(place, "healthCheck", body)
    made["selfLink"] = f"{BASE}projects/{PROJECT}/{place.scope}/healthChecks/{place.name}"
    return begin(call, place, undo=lambda: call.world.drop(place))


def _delete(call: GcpCall) -> dict[str, Any]:
    place = call.resource(call.name)
    link = call.world.get(place)["selfLink"]
    for collection in ("instanceGroupManagers", "regionInstanceGroupManagers"):
        for user, group in call.world.within(PROJECT, collection):
            if any(policy.get("healthCheck") == link for policy in group.get("autoHealingPolicies", [])):
                raise in_use(str(place), str(user))
    return begin(call, place, finish=lambda: call.world.drop(place))


HANDLERS: Final[dict[str, Handler]] = {
    f"compute.{collection}.{verb}": handler
    for collection in _COLLECTIONS
    for verb, handler in (("insert", _insert), ("get", get), ("list", list_scope), ("delete", _delete))
}
