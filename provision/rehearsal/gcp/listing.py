"""Lists: filtered, in pages, of one scope or of all scopes at once."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from provision.rehearsal.gcp.filters import matcher
from provision.rehearsal.gcp.refusals import ComputeError, invalid
from provision.rehearsal.gcp.world import BASE, GcpCall

_PAGE: Final = 500  # the default and the most, as the parameter's description says


def _page(call: GcpCall, items: list[Any]) -> tuple[list[Any], dict[str, str]]:
    """The items of the asked page, and the token of the next."""
    size = int(call.query.get("maxResults") or _PAGE)
    if not 0 < size <= _PAGE:
        raise invalid("maxResults", size, f"Must be between 1 and {_PAGE}.")
    token = call.query.get("pageToken") or "0"
    if not token.isdigit():
        raise ComputeError(HTTPStatus.BAD_REQUEST, "invalid", "Invalid value for field 'pageToken'.")
    start = int(token)
    more = {"nextPageToken": str(start + size)} if start + size < len(items) else {}
    return items[start : start + size], more


def listed(call: GcpCall, resources: list[dict[str, Any]], kind: str, collection: str) -> dict[str, Any]:
    """The answer of a `list`.

    Args:
        call: what asks, with its filter and page.
        resources: those of the scope.
        kind: what one of them is, for `compute#…List`.
        collection: the last part of the list's id.
    """
    test = matcher(call.query.get("filter"))
    items, more = _page(call, [dict(r) for r in resources if test(r)])
    path = f"projects/{call.path['project']}/{call.scope}/{collection}"
    answer = {"kind": f"compute#{kind}List", "id": path, "selfLink": f"{BASE}{path}", **more}
    return {**answer, "items": items} if items else answer


def aggregated(call: GcpCall, resources: list[tuple[str, dict[str, Any]]], kind: str, scopes: list[str]) -> dict[str, Any]:
    """The answer of an `aggregatedList`.

    Args:
        call: what asks, with its filter and page.
        resources: (scope, resource).
        kind: what one of them is.
        scopes: all that there are: an empty one is shown with a warning.
    """
    test = matcher(call.query.get("filter"))
    found, more = _page(call, [(scope, dict(r)) for scope, r in resources if test(r)])
    items: dict[str, dict[str, Any]] = {}
    for scope, resource in found:
        items.setdefault(scope, {}).setdefault(call.kind, []).append(resource)
    for scope in scopes:
        words = f"There are no results for scope '{scope}' on this page."
        data = [{"key": "scope", "value": scope}]
        items.setdefault(scope, {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": words, "data": data}})
    path = f"projects/{call.path['project']}/aggregated/{call.kind}"
    return {"kind": f"compute#{kind}AggregatedList", "id": path, "selfLink": f"{BASE}{path}", "items": items, **more}
