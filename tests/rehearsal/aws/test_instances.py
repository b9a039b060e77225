"""States of instances that take their time."""

from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

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


def test_an_instance_that_ended_is_described_for_a_while_and_then_it_is_unknown(ec2: Rehearsal, aws: Any, image: str) -> None:
    lasting, ended = run(aws, image)["InstanceId"], run(aws, image)["InstanceId"]
    aws.terminate_instances(InstanceIds=[ended])
    until(lambda: state(aws, ended) == "terminated")
    control.ask(ec2, "settings", method="PUT", body={"terminated_s": 0.0})
    shown = [row["InstanceId"] for entry in aws.describe_instances()["Reservations"] for row in entry["Instances"]]
    assert (lasting in shown, ended in shown) == (True, False)
    with pytest.raises(ClientError, match=r"InvalidInstanceID\.NotFound"):
        aws.describe_instances(InstanceIds=[ended])
    aws.terminate_instances(InstanceIds=[lasting])
