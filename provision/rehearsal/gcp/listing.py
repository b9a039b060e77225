"""Reading resources: one by its name, and lists that are filtered, in pages, of one scope or of all."""

from collections.abc import Iterable
from typing import Any, Final

from provision.rehearsal.gcp.filters import matcher
from provision.rehearsal.gcp.refusals import ComputeError, invalid
from provision.rehearsal.gcp.world import BASE, GcpCall

_PAGE: Final = 500  # the default and the most, as the parameter's description says


def as_list(call: GcpCall, resources: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The answer of a `list`, with the filter and page of the call, out of the resources of its scope."""
    test = matcher(call.query.get("filter"))
    items, more = _page(call, [dict(resource) for resource in resources if test(resource)])
    path = f"projects/{call.path['project']}/{call.scope}/{call.collection}"
    answer = {"kind": f"compute#{_singular(call.collection)}List", "id": path, "selfLink": f"{BASE}{path}", **more}
    return {**answer, "items": items} if items else answer


def as_aggregated_list(call: GcpCall, resources: Iterable[tuple[str, dict[str, Any]]], scopes: Iterable[str]) -> dict[str, Any]:
    """The answer of an `aggregatedList`, out of the resources with their scopes; an empty scope is shown with a warning."""
    test = matcher(call.query.get("filter"))
    page, more = _page(call, [(scope, dict(resource)) for scope, resource in resources if test(resource)])
    items: dict[str, dict[str, Any]] = {}
    for scope, resource in page:
        items.setdefault(scope, {}).setdefault(call.collection, []).append(resource)
    for scope in scopes:
        words = f"There are no results for scope '{scope}' on this page."
        data = [{"key": "scope", "value": scope}]
        items.setdefault(scope, {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": words, "data": data}})
    path = f"projects/{call.path['project']}/aggregated/{call.collection}"
    return {"kind": f"compute#{_singular(call.collection)}AggregatedList", "id": path, "selfLink": f"{BASE}{path}", "items": items, **more}


def _page(call: GcpCall, items: list[Any]) -> tuple[list[Any], dict[str, str]]:
    """The items of the page that the request names, and the token of the next."""
    size = int(call.query.get("maxResults") or _PAGE)
    if not 0 < size <= _PAGE:
        raise invalid("maxResults", size, f"Must be between 1 and {_PAGE}.")
    token = call.query.get("pageToken") or "0"
    if not token.isdigit():
        raise ComputeError("invalid", "Invalid value for field 'pageToken'.")
    start = int(token)
    more = {"nextPageToken": str(start + size)} if start + size < len(items) else {}
    return items[start : start + size], more


def get(call: GcpCall) -> dict[str, Any]:
    """Answer the `get` of a resource that the world holds."""
    return call.world.view(call.world.get(call.resource(call.name)))


def list_scope(call: GcpCall) -> dict[str, Any]:
    """Answer the `list` of resources that the world holds."""
    resources = call.world.within(call.path["project"], call.collection, call.scope, listed=True)
    return as_list(call, [call.world.view(resource) for _, resource in resources])


def list_all(call: GcpCall, scopes: Iterable[str]) -> dict[str, Any]:
    """Answer the `aggregatedList` of resources that the world holds."""
    shown = call.world.within(call.path["project"], call.collection, listed=True)
    resources = [(place.scope, call.world.view(resource)) for place, resource in shown]
    return as_aggregated_list(call, resources, scopes)


def _singular(collection: str) -> str:
    return "address" if collection == "addresses" else collection.removesuffix("s")
