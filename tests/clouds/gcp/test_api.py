"""Operations: answers that are lost, ends that do not come, quotas of calls."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from provision.clouds.gcp import api, removal, store
from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.api import MOST_PAGES, GcpProjectApi
from provision.clouds.gcp.errors import NotReadyError
from provision.errors import CloudUnreachableError, ThrottledError
from tests.clouds.gcp.rig import ZONE, GcpRig


def test_an_answer_lost_while_an_operation_is_waited_for_is_asked_for_again(rig: GcpRig) -> None:
    order = rig.order().at(ZONE)
    waits = r"compute\.(zone|global)Operations\.wait"
    rig.faults({"kind": "lost", "action": waits, "count": 1}, {"kind": "html", "action": waits, "count": 2})
    (machine,) = rig.cloud().launch(order)
    assert [i.id for i in rig.cloud().find(order.name)] == [machine.id]


def test_an_operation_without_an_end_is_bounded(rig: GcpRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provision.clouds.gcp.cloud._INSERTED_S", 0.3)
    rig.set(gce_operation_s=3.0)
    order = rig.order().at(ZONE)
    with pytest.raises(CloudUnreachableError, match="still under way"):
        rig.cloud().launch(order)
    rig.set(gce_operation_s=0.1)
    monkeypatch.undo()
    (machine,) = rig.cloud().launch(order)  # the same operation, asked for again
    assert [i.id for i in rig.cloud().find(order.name)] == [machine.id]


def test_a_removal_that_takes_long_is_under_way_and_the_same_command_ends_it(rig: GcpRig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert removal._REMOVED_S >= 20 * 60
    order = rig.order().at(ZONE)
    cloud = rig.cloud()
    cloud.launch(order)
    monkeypatch.setattr(removal, "_REMOVED_S", 0.3)
    rig.set(gce_operation_s=3.0)
    with pytest.raises(CloudUnreachableError, match="still under way"):
        cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    monkeypatch.undo()
    cloud.remove(cloud.things(order.name), on_step=lambda _: None)
    assert cloud.things(order.name) == []


def test_a_quota_of_calls_is_no_quota_of_machines(rig: GcpRig) -> None:
    order = rig.order().at(ZONE)
    rig.faults({"kind": "error", "action": r"compute\.instances\.get", "code": "quotaExceeded", "http": 403, "count": 1})
    with pytest.raises(ThrottledError):
        rig.cloud().launch(order)
    (machine,) = rig.cloud().launch(order)
    assert [i.id for i in rig.cloud().find(order.name)] == [machine.id]


def test_a_list_that_names_a_next_page_for_ever_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    def pages() -> Any:
        while True:
            sent.append("page")
            yield SimpleNamespace(items=["rule"], next_page_token="again")

    monkeypatch.setattr(GcpProjectApi, "call", lambda *_, **__: SimpleNamespace(pages=pages()))
    with pytest.raises(CloudUnreachableError, match=r"the list of compute\.firewalls\.list has no end") as error:
        GcpProjectApi(GcpAccess(project="p")).pages("Firewalls", "list", "compute.firewalls.list")
    assert error.value.hint
    assert len(sent) == MOST_PAGES


def test_a_list_of_objects_that_names_a_next_page_for_ever_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps({"items": [{"name": "a", "size": "1", "timeCreated": "2026-11-27T00:00:00Z"}], "nextPageToken": "again"})
    monkeypatch.setattr(store, "_send", lambda *_, **__: SimpleNamespace(json=lambda **hook: json.loads(body, **hook)))
    with pytest.raises(CloudUnreachableError, match="the list of bucket has no end"):
        list(store.names(GcpProjectApi(GcpAccess(project="p")), "bucket", "evidence/", 100))


NOT_READY = {"kind": "error", "code": "resourceNotReady", "http": 400, "message": "The resource 'global/networks/default' is not ready"}


@pytest.mark.parametrize("kind", ["error", "operation"])
def test_a_removal_is_repeated_while_a_network_is_not_ready(rig: GcpRig, kind: str) -> None:
    """By the call's refusal, and by the end of its operation; Terraform does the same (GoogleCloudPlatform/magic-modules#5418)."""
    order = rig.order().at(ZONE)
    rig.cloud().launch(order)
    code = "resourceNotReady" if kind == "error" else "RESOURCE_NOT_READY"
    rig.faults({**NOT_READY, "kind": kind, "code": code, "action": r"compute\.(firewalls|instances)\.delete", "count": 3})
    rig.cloud().remove(rig.cloud().things(order.name), on_step=lambda _: None)
    assert rig.cloud().things(order.name) == []


def test_a_launch_is_made_while_a_network_is_not_ready(rig: GcpRig) -> None:
    rig.faults({**NOT_READY, "action": r"compute\.(firewalls|instances)\.insert", "count": 4})
    (machine,) = rig.cloud().launch(rig.order().at(ZONE))
    assert rig.named().count("compute.instances.insert") >= 1
    assert rig.raw(machine.id)


def test_what_is_never_ready_is_said_to_be_so(rig: GcpRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_READY_S", 0.3)
    rig.faults({**NOT_READY, "action": r"compute\.firewalls\.insert"})
    with pytest.raises(NotReadyError, match="is not ready"):
        rig.cloud().launch(rig.order().at(ZONE))
