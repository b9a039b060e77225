"""An answer that is not the cloud's is no answer: neither a defect of gpuprov nor something to believe, whatever was asked."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from provision.clouds import base
from provision.clouds.aws.access import AwsAccess
from provision.clouds.received import Received
from provision.errors import CloudUnreachableError
from provision.rehearsal.control import Rehearsal
from provision.structs import replace
from tests.clouds.aws.rig import AwsRig
from tests.clouds.digitalocean.rig import DigitalOceanRig
from tests.clouds.gcp.rig import GcpRig
from tests.clouds.portal import KINDS, Portal

RIGS: dict[str, Callable[[Rehearsal], Any]] = {
    "aws": lambda ec2: AwsRig(ec2, AwsAccess(**ec2.settings("aws"))),
    "gcp": GcpRig,
    "digitalocean": DigitalOceanRig,
}


@pytest.fixture(params=RIGS)
def rig(request: pytest.FixtureRequest, ec2: Rehearsal) -> Any:
    made = RIGS[request.param](ec2)
    made.cloud_name = request.param
    made.heal()  # nothing is late: only a journal makes a launch look for longer
    return made


@pytest.fixture
def portal(rig: Any, ec2: Rehearsal) -> Iterator[Portal]:
    """A portal before the rig's cloud, which lets everything pass at first."""
    with Portal(ec2.endpoints[rig.cloud_name]) as made:
        rig.access = replace(rig.access, endpoint_url=made.url)
        yield made


def questions(cloud: base.Cloud, order: base.Order, machine: base.Instance, things: list[base.Thing]) -> dict[str, Callable[[], object]]:
    """Every call that the contract has and that asks the cloud."""
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    return {
        "find": cloud.find,
        "launch": lambda: cloud.launch(order),
        "wait_running": lambda: cloud.wait_running(machine, timeout_s=5),
        "stop": lambda: cloud.stop([machine], timeout_s=5),
        "extend": lambda: cloud.extend([machine], later),
        "allow": lambda: cloud.allow(machine.group, ["192.0.2.0/24"]),
        "things": lambda: cloud.things(machine.group),
        "known": lambda: cloud.things(
            machine.group, base.Known(machine.group, machine.launch_id, "", machines=((machine.id, machine.zone),), young=False)
        ),
        "remove": lambda: cloud.remove(things, on_step=lambda _: None),
    }


@pytest.mark.matrix
def test_it_is_no_answer_in_any_call(rig: Any, portal: Portal) -> None:
    (machine,) = rig.cloud().launch(rig.order())
    machine = rig.cloud().wait_running(machine, timeout_s=60)
    things = rig.cloud().things(machine.group)
    wrong = []
    for kind in KINDS:
        for name, ask in questions(rig.cloud(), rig.order(), machine, things).items():
            portal.kind = kind
            try:
                got: object = ask()
            except CloudUnreachableError as error:
                assert error.hint
                continue
            except Exception as error:  # noqa: BLE001 - whatever else it is, is listed
                got = error
            wrong.append((kind, name, repr(got)[:200]))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_made_is_found_by_the_next_try(rig: Any, portal: Portal, kind: str) -> None:
    order = rig.order()
    portal.kind, portal.left = kind, 1
    making = ("Action=RunInstances", "POST /v2/droplets ", "/instances?", "/instances ", "/bulkInsert")
    portal.spares = lambda request: request.startswith("GET") or not any(word in request for word in making)
    with pytest.raises(CloudUnreachableError):
        rig.cloud().launch(order)
    assert portal.left == 0
    (machine,) = rig.cloud().launch(order)
    assert [each.id for each in rig.cloud().find(order.name)] == [machine.id]


def test_what_an_answer_lacks_is_asked_of_it_in_vain() -> None:
    answer = Received({"Reservations": []})
    assert (answer["Reservations"], answer.get("NextToken"), "NextToken" in answer) == ([], None, False)
    with pytest.raises(CloudUnreachableError, match="no 'NextToken'"):
        answer["NextToken"]
