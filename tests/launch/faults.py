"""The fault matrix: every call of a launch meets every kind of failure, once and for ever.

The client classifies what it is told, gives up on a call that is never answered, makes no machine twice, and leaves nothing that `down`
does not find.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests import sample
from tests.waiting import until

from .conftest import SHORT_S

MOST_CALLS = 90  # of one launch: a call that is never answered is sent several times by the SDK and by us, also to see what is left
numbers = itertools.count(1)
# Of AWS: the code, its HTTP status, our class. Words: docs/sources/emulators.md §A; classes: docs/sources/clouds.md §10.5.
ERRORS: dict[str, list[tuple[str, int, str]]] = {
    "aws": [
        ("InsufficientInstanceCapacity", 500, "no-capacity"),
        ("VcpuLimitExceeded", 400, "quota-exceeded"),
        ("RequestLimitExceeded", 503, "throttled"),
        ("UnauthorizedOperation", 403, "permission-refused"),
        ("RequestExpired", 400, "credentials-expired"),
        ("AuthFailure", 401, "credentials-missing"),
        ("InvalidParameterValue", 400, "cloud-invalid"),
        ("InvalidAMIID.NotFound", 400, "image-not-found"),
        ("InternalError", 500, "cloud-unreachable"),
    ],
    # Of DigitalOcean: the message, its HTTP status. Words: provision/rehearsal/digitalocean/refusals.py says where each was read.
    "digitalocean": [
        ("Size is not available in this region.", 422, "no-capacity"),
        ("creating this/these droplet(s) will exceed your droplet limit", 422, "quota-exceeded"),
        ("API Rate limit exceeded.", 429, "throttled"),
        ("You are not authorized to perform this operation", 403, "permission-refused"),
        ("Unable to authenticate you", 401, "credentials-expired"),
        ("Name is invalid", 422, "cloud-invalid"),
        ("Server Error", 500, "cloud-unreachable"),
    ],
    # Of GCP: the reason, its HTTP status. Shapes: docs/sources/emulators.md, "google-cloud-compute".
    "gcp": [
        ("quotaExceeded", 403, "quota-exceeded"),
        ("rateLimitExceeded", 429, "throttled"),
        ("forbidden", 403, "permission-refused"),
        ("invalid", 400, "cloud-invalid"),
        ("backendError", 503, "cloud-unreachable"),
    ],
}
WIRE: list[tuple[str, dict[str, Any], str]] = [
    ("html 502", {"kind": "html"}, "cloud-unreachable"),
    ("dropped", {"kind": "drop"}, "cloud-unreachable"),
    ("reply lost", {"kind": "lost"}, "cloud-unreachable"),
    ("answer late", {"kind": "delay", "delay_s": 1.5}, "cloud-unreachable"),  # the clients of this test wait for half a second
]


def actions(clients: Any) -> list[str]:
    """The calls of an undisturbed launch, each once."""
    clients.settings()
    clients.forget_calls()
    assert "error" not in clients.run("up", "calm")
    found = list(dict.fromkeys(call["action"] for call in clients.calls()))
    clients.run("down", "calm")
    assert clients.left() == []
    return found


def tidy(clients: Any, name: str) -> None:
    """Whatever came of it: the same command again makes exactly one machine, and `down` leaves nothing."""
    clients.faults([])
    again = clients.run("up", name)
    assert "error" not in again, again
    assert clients.machines(name) == again["ids"]
    assert len(again["ids"]) == 1
    clients.run("down", name)
    assert clients.left() == [], name


def faults(kind: str) -> list[tuple[str, dict[str, Any], str]]:
    return [*((code, {"kind": "error", "code": code, "http": http}, ours) for code, http, ours in ERRORS[kind]), *WIRE]


@pytest.mark.matrix
@pytest.mark.parametrize("often", ["once", "for ever"])
def test_every_call_meets_every_fault(clients: Any, often: str, capsys: pytest.CaptureFixture[str]) -> None:
    calls = actions(clients)
    table = [f"\n  {clients.kind.name}, each fault {often}: what came of the launch, and its calls"]
    for row, (label, rule, ours) in enumerate(faults(clients.kind.name)):
        cells = []
        for action in sample.part(calls, row):
            name = f"f{next(numbers)}"
            clients.faults([{**rule, "action": action.replace(".", r"\."), **({"count": 1} if often == "once" else {})}])
            clients.forget_calls()
            result = clients.run("up", name, timeout_s=SHORT_S)
            outcome, sent = result.get("code", "launched"), len(clients.calls())
            assert sent <= MOST_CALLS, (action, label, sent)
            # Refused for ever ends as what it is. Anything may come of a look that is passed over, or of a place that has a neighbour.
            if often == "for ever":
                read = {"throttled"} if label == "quotaExceeded" else set[str]()  # of calls, where no machine is asked for
                assert outcome in {ours, "launched", "cloud-unreachable", *read}, (action, label, result)
                looked_for = clients.kind.looks and rule["kind"] in {"lost", "delay"} and outcome == "launched"
                assert action != clients.kind.launch or outcome == ours or looked_for, (action, label, result)
            assert result.get("hint", "x"), (action, label, result)
            clients.faults([])
            assert len(clients.machines(name)) <= 1, (action, label)
            if rule["kind"] == "delay":
                # What is on its way is carried out after its client has gone: not while things are counted.
                until(lambda: all("seconds" in call for call in clients.calls()))
            tidy(clients, name)
            cells.append(f"{action[-24:]}: {outcome} {sent}")
        table.append(f"    {label:30} {' | '.join(cells)}")
    with capsys.disabled():
        print("\n".join(table))
