"""States of instances that take their time."""

from functools import partial
from typing import Any

from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.rehearsal.aws.conftest import run, state
from tests.waiting import until


def test_states_take_their_time(ec2: Rehearsal, aws: Any, image: str) -> None:
    control.ask(ec2, "settings", method="PUT", body={"pending_s": 1.5, "ending_s": 1.5})
    instance = run(aws, image)["InstanceId"]
    assert state(aws, instance) == "pending"
    until(lambda: state(aws, instance) == "running")
    for call, between, after in (
        (aws.stop_instances, "stopping", "stopped"),
        (aws.start_instances, "pending", "running"),
        (aws.terminate_instances, "shutting-down", "terminated"),
    ):
        call(InstanceIds=[instance])
        assert state(aws, instance) == between
        until(partial(is_past, aws, instance, between))
        assert state(aws, instance) == after


def is_past(aws: Any, instance: str, between: str) -> bool:
    return state(aws, instance) != between
