"""`gpuprov idle`: what ends the wait, what keeps it from its end, who may object, and that all of a launch is stopped or removed.

The launch is on the embedded cloud without hosts; its machines are played behind the real `monitor`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from provision.watch import stream
from tests.cli.conftest import Call, launch, rows
from tests.watch.simulator import Simulator, path_with, simulated

WORDS = ("--idle-for", "2s", "--warn", "1s", "--interval", "0.5")


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulator]:
    """Machines that behave as their name says, ten samples a second."""
    monkeypatch.setattr(stream, "_BACK_OFF_S", (0.1,))
    with simulated(tmp_path / "bin", every_s=0.1) as simulator:
        monkeypatch.setenv("PATH", path_with(tmp_path / "bin"))
        yield simulator


@pytest.mark.usefixtures("cloud", "machines")
def test_all_machines_of_an_idle_launch_are_removed(call: Call) -> None:
    launch(call, "idle", "--count", "2")
    assert len(rows(call)) == 2
    code, out, err = call("idle", "idle", *WORDS, "--then", "down", "--json")
    assert code == 0, err
    assert json.loads(out)["idle"] is True
    assert rows(call) == []
    assert "`down` follows in 1 s" in err


@pytest.mark.usefixtures("cloud", "machines")
def test_they_are_stopped_and_the_log_says_so(call: Call) -> None:
    launch(call, "tires")
    code, out, err = call("idle", "tires", *WORDS, "--then", "stop")
    assert (code, out) == (2, ""), err
    assert "error[usage]: `gpuprov idle tires --then stop` empties what is inside machines: tires: /data, instance storage" in err
    assert "`gpuprov idle tires --then stop --yes`" in err
    assert "watching" not in err, "it is refused at once, and not when nobody is there"
    assert [row["state"] for row in rows(call)] == ["running"]
    code, out, err = call("idle", "tires", *WORDS, "--then", "stop", "--yes")
    assert (code, out.startswith("stopped tires")) == (0, True), err
    assert "this empties tires: /data" in err
    assert [row["state"] for row in rows(call)] == ["stopped"]
    logged = call("log", "--json")[1]
    assert '"stop"' in logged


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["kernels", "dead", "untold", "cpu", "parked"])
def test_nothing_is_done_to_one_that_is_busy_or_of_which_something_is_missing(
    call: Call, cloud: Rehearsal, machines: Simulator, name: str
) -> None:
    machines.dead = frozenset({"dead"})
    launch(call, name)
    control.ask(cloud, "calls", method="DELETE")
    code, out, err = call("idle", name, *WORDS, "--then", "down", "--watch-for", "3s")
    assert (code, "nothing was done" in out) == (3, True), err
    assert [each["action"] for each in control.ask(cloud, "calls")] == []


@pytest.mark.usefixtures("cloud", "machines")
def test_a_hook_is_told_and_may_object_and_activity_after_the_warning_begins_the_wait_again(call: Call, tmp_path: Path) -> None:
    launch(call, "idle")
    told = tmp_path / "it's told"
    hook = tmp_path / "hook"
    hook.write_text(
        f'#!/bin/sh\necho "$GPUPROV_IDLE_NAME $GPUPROV_IDLE_ACTION $GPUPROV_IDLE_IN_S $1" >> "{told}"\n[ "$(wc -l < "{told}")" -gt 1 ]\n'
    )
    hook.chmod(0o755)
    code, _, err = call("idle", "idle", *WORDS, "--then", "down", "--hook", f"'{hook}' '$(id) x'")
    assert code == 0, err
    assert told.read_text() == "idle down 1 $(id) x\n" * 2
    assert "the hook ended with 1: nothing is done now" in err


@pytest.mark.usefixtures("cloud", "machines")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("idle", "--idle-for", "1m", "--warn", "1m", "--then", "down"), "lower --warn, or raise"),
        (("idle", "--then", "down", "--hook", "'open"), "close each quote"),
        (("idle", "--idle-for", "2s", "--warn", "1s", "--interval", "0.5", "--then", "down", "--hook", "/no/such"), "does not run"),
        (("nothing", "--then", "down"), "nothing"),
        (("idle", "--then", "shrink"), "has no size"),
        (("idle", "--then", "down", "--keep", "1"), "without --keep"),
    ],
)
def test_what_is_wrong_is_said_with_a_way_out(call: Call, words: tuple[str, ...], said: str) -> None:
    launch(call, "idle")
    code, _, err = call("idle", *words)
    assert (code, "hint: " in err, said in err) == (2 if words[0] == "idle" else code, True, True), err
    assert len(rows(call)) == 1
