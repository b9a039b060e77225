"""Requests and answers are checked with Google's own document."""

import json
from typing import Any

import pytest

from tests.rehearsal.gcp.conftest import ZONE, Gce


@pytest.mark.parametrize(
    ("method", "path", "body", "says"),
    [
        ("POST", f"zones/{ZONE}/instances", {"nmae": "a"}, b"Unknown name"),
        ("POST", f"zones/{ZONE}/instances", {"disks": [{"bot": True}]}, b"resource.disks[0]"),
        ("POST", f"zones/{ZONE}/instances", {"name": 7}, b"a string is expected"),
        ("POST", f"zones/{ZONE}/instances", {"name": "Upper"}, b"Must be a match of regex"),
        ("POST", f"zones/{ZONE}/instances", {"scheduling": {"onHostMaintenance": "EXPLODE"}}, b"listed values"),
        ("POST", f"zones/{ZONE}/instances", {"disks": {}}, b"a list is expected"),
        ("POST", f"zones/{ZONE}/instances", {"canIpForward": "yes"}, b"a boolean is expected"),
        ("POST", f"zones/{ZONE}/instances", {"disks": [{"diskSizeGb": "big"}]}, b"int64 is expected"),
        ("POST", f"zones/{ZONE}/instances", ["a"], b"an object is expected"),
        ("POST", f"zones/{ZONE}/instances", {"name": "a"}, b"Required field 'resource.machineType'"),
        ("POST", "global/firewalls", {"name": "a", "labels": {"a": "b"}}, b"Unknown name"),
        ("GET", f"zones/{ZONE}/instances?colour=red", None, b'Unknown name \\"colour\\"'),
        ("GET", f"zones/{ZONE}/instances?maxResults=many", None, b"an integer is expected"),
        ("GET", f"zones/{ZONE}/instances?filter=name", None, b"Invalid list filter expression"),
        ("GET", "zones/UPPER/instances", None, b"Must be a match of regex"),
        ("POST", f"zones/{ZONE}/instances/a/stop", {"a": 1}, b"takes no body"),
    ],
)
def test_what_is_not_in_googles_document_is_refused(gce: Gce, method: str, path: str, body: Any, says: bytes) -> None:
    status, answer = gce.raw(method, path, None if body is None else json.dumps(body).encode())
    assert status == 400
    assert says in answer
    assert json.loads(answer)["error"]["errors"][0]["domain"] == "global"


def test_every_handled_method_is_one_of_googles() -> None:
    from provision.rehearsal.gcp import api, discovery

    known = {method.id for methods in discovery.load().methods.values() for method in methods}
    assert set(api._HANDLERS) <= known


def test_an_answer_that_google_could_not_have_sent_is_our_defect(gce: Gce) -> None:
    gce.made("odd")
    gce.ask("settings", {"gce_maintenance": {"odd": {"no-such-field": 1}}})
    status, answer = gce.raw("GET", f"zones/{ZONE}/instances/odd")
    assert (status, json.loads(answer)["error"]["errors"][0]["reason"]) == (500, "emulatorError")
