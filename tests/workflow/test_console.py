"""The error of a machine that ended by itself says what its console said, and comes as soon as it is known."""

from __future__ import annotations

from typing import Any, cast

import pytest

from provision import clouds
from provision.clouds.base import Cloud, Instance
from provision.errors import CloudError, GpuprovError, HostUnreachableError, InstanceLostError, PermissionRefusedError
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.structs import replace
from provision.workflow.console import explained, last_lines
from tests.cli.conftest import Call, call, cloud, launch  # noqa: F401 - fixtures

MACHINE = Instance(
    name="a", group="a", id="i-1", cloud="x", region="r", zone="r-a", type="t", market="on-demand", state="running", address="192.0.2.1",
    login="ubuntu", launch_id="0", profile="p", profile_digest="0", owner="o@example.org", launched_at="", deadline="",
)  # fmt: skip
LOST = InstanceLostError("it is terminated", hint="-", instance_id="i-2")
SILENT = HostUnreachableError("no answer", hint="-", detail="ssh said this")


class Told:
    """A cloud that has one answer of each kind."""

    def __init__(self, console: str | CloudError, *, ended: bool) -> None:
        self.answer, self.ended = console, ended

    def console(self, instance: Instance) -> str:
        if isinstance(self.answer, CloudError):
            raise self.answer
        return f"{self.answer}\n{instance.id}\r\n\n"

    def wait_running(self, instance: Instance, *, timeout_s: float) -> Instance:
        assert timeout_s == 0
        if self.ended:
            msg = "it is gone"
            raise InstanceLostError(msg, hint="-", instance_id=instance.id)
        return instance


def raised(error: GpuprovError, cloud: Told, *instances: Instance) -> GpuprovError:  # noqa: F811 - not the fixture
    error = type(error)(error.message, hint=error.hint, detail=error.detail, **({"instance_id": "i-2"} if error is LOST else {}))
    with pytest.raises(GpuprovError) as caught, explained(lambda _cloud, _region: cast("Cloud", cloud), instances or (MACHINE,)):
        raise error
    return caught.value


def test_of_several_machines_it_is_the_console_of_the_one_that_ended() -> None:
    error = raised(LOST, Told("boot", ended=True), MACHINE, replace(MACHINE, id="i-2"))
    assert error.detail.splitlines() == ["the console of i-2 ends with", "boot", "i-2"]


def test_a_machine_that_does_not_answer_because_it_ended_is_said_to_have_ended() -> None:
    error = raised(SILENT, Told("panic", ended=True))
    assert (error.code, error.message) == ("instance-lost", "it is gone")
    assert error.detail.splitlines()[1:] == ["panic", "i-1"]


def test_a_machine_that_runs_and_does_not_answer_keeps_its_error() -> None:
    error = raised(SILENT, Told("booting", ended=False))
    assert (error.code, error.detail.splitlines()[0], error.detail.splitlines()[-2:]) == (
        "host-unreachable",
        SILENT.detail,
        ["booting", "i-1"],
    )


def test_a_console_that_cannot_be_read_hides_no_error() -> None:
    error = raised(LOST, Told(PermissionRefusedError("no", hint="-"), ended=True))
    assert (error.code, error.message, error.detail) == ("instance-lost", LOST.message, "")


def test_a_console_is_cut_and_nothing_in_it_is_obeyed() -> None:
    text = "".join(f"{number}\r\n" for number in range(40)) + "\x1b]0;title\x07\x1b[31mred\u202e\n" + "x" * 100_000
    lines = last_lines(text)
    assert len(lines) == 15
    assert lines[0] == "27"
    assert lines[-2] == "�]0;title��[31mred�"
    assert len(lines[-1]) < 10_000
    assert last_lines(" \r\n\n") == []


def test_a_machine_that_ends_while_its_host_key_is_awaited_is_not_waited_for(call: Call, cloud: Rehearsal) -> None:  # noqa: F811
    control.ask(cloud, "settings", method="PUT", body={"gce_guest_attributes_s": 600.0})
    for name, region in (("aws", "ap-east-1"), ("gcp", "asia-east2")):
        code, _, err = launch(call, name, "--rehearse", name)
        assert (code, "error[host-key-unknown]" in err) == (3, True), err
        client: Any = clouds.connect(name, region, clouds.access_from(name, cloud.settings(name)))
        (machine,) = client.find(name)
        client.remove(client.things(name), on_step=lambda _: None)
        with pytest.raises(InstanceLostError) as caught:
            client.host_keys(machine, timeout_s=600)
        assert caught.value.instance_id == machine.id
