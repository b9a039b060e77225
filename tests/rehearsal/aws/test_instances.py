"""States of instances that take their time."""

import time
from typing import Any

from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.rehearsal.aws.conftest import run, state


def test_states_take_their_time(ec2: Rehearsal, aws: Any, image: str) -> None:
    control.ask(ec2, "settings", method="PUT", body={"pending_s": 0.6, "ending_s": 0.6})
    instance = run(aws, image)["InstanceId"]
    assert state(aws, instance) == "pending"
    time.sleep(0.7)
    assert state(aws, instance) == "running"
    for call, between, after in (
        (aws.stop_instances, "stopping", "stopped"),
        (aws.start_instances, "pending", "running"),
        (aws.terminate_instances, "shutting-down", "terminated"),
    ):
        call(InstanceIds=[instance])
        assert state(aws, instance) == between
        time.sleep(0.7)
        assert state(aws, instance) == after
