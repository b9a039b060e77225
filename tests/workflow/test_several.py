"""Several hosts of which some are hurt while they are set up: each has its own verdict, and the next run repairs what it can."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.converge.bundle import config
from provision.converge.events import RunEvents
from provision.converge.progress import Progress
from provision.converge.there import converge_there
from provision.errors import GpuprovError, HostUnreachableError, InternalError, PlaybookFailedError
from provision.workflow.converging import sign
from provision.workflow.session import Say, Session
from provision.workflow.several import HostsFailedError, Outcomes, on_each, reason, worst
from tests.embedded import Embedded
from tests.waiting import LONG_S, until
from tests.workflow.broken_hosts import Machines

COUNT = 6
FULL, CUT, FAR = "m-1", ("m-2", "m-3"), "m-4"
WELL = (FAR, "m-5", "m-6")


def unreachable() -> HostUnreachableError:
    return HostUnreachableError("gone", hint="wait")


def test_the_worst_exit_code_is_that_of_a_failure_and_then_that_of_what_is_unknown() -> None:
    assert [worst(codes) for codes in ([], [0, 3], [3, 1, 0], [4, 1, 3], [3, 70, 4], [1, 2])] == [0, 3, 1, 4, 70, 2]
    failed = HostsFailedError(Outcomes([], {"a": unreachable()}), hint="again")
    assert failed.exit_code == 3
    failed.weigh([0, 1])
    assert failed.exit_code == 1
    failed.weigh([0])
    assert failed.exit_code == 1


def test_the_first_line_counts_the_reasons_and_each_host_has_its_own_line_and_way_out() -> None:
    full = PlaybookFailedError("b has no room", hint="make room")
    full.kind = "disk-full"
    error = HostsFailedError(Outcomes(["c"], {"a": unreachable(), "b": full, "d": unreachable()}), hint="again")
    first, *lines = error.message.splitlines()
    assert first == "the set-up failed on 3 of 4 machines: 2 host-unreachable, 1 playbook-failed (disk-full)"
    assert lines == [
        *("  a: error[host-unreachable]: gone", "    hint: wait"),
        *("  b: error[playbook-failed]: b has no room", "    hint: make room"),
        *("  d: error[host-unreachable]: gone", "    hint: wait"),
    ]
    assert [(each["name"], each["code"], each["kind"]) for each in error.failed()] == [
        ("a", "host-unreachable", ""),
        ("b", "playbook-failed", "disk-full"),
        ("d", "host-unreachable", ""),
    ]
    assert error.exit_code == 4
    assert reason(PlaybookFailedError("x", hint="y")) == "playbook-failed"


def test_no_host_waits_for_another_and_a_defect_on_one_does_not_lose_the_verdicts_on_the_others() -> None:
    first_has_failed, said = threading.Event(), list[tuple[str, str]]()

    def work(name: str, say: Say) -> str:
        say("at work")
        if name == "a":
            raise KeyError(name)
        if name == "b":
            raise unreachable()
        assert first_has_failed.wait(LONG_S)
        return name

    def on_host(name: str, step: str) -> None:
        said.append((name, step))
        if name == "a" and step.startswith("error["):
            first_has_failed.set()

    outcomes = on_each({name: name for name in "abc"}, work, on_host=on_host, stop=threading.Event())
    assert outcomes.proven == ["c"]
    assert {name: type(error) for name, error in outcomes.errors.items()} == {"a": InternalError, "b": HostUnreachableError}
    assert "KeyError: 'a'" in outcomes.errors["a"].message
    assert "Traceback" in outcomes.errors["a"].detail
    ends = [(name, step.split(":")[0]) for name, step in said if step != "at work"]
    assert sorted(ends) == [("a", "error[internal]"), ("b", "error[host-unreachable]"), ("c", "done")]


def test_a_file_that_this_machine_refuses_is_no_defect() -> None:
    def work(_name: str, _say: Say) -> None:
        raise OSError(28, "No space left on device", "/state/events.jsonl")

    error = on_each({"a": "a"}, work, on_host=lambda *_: None, stop=threading.Event()).errors["a"]
    assert (error.code, "/state/events.jsonl: No space" in error.message) == ("file-refused", True)


def test_a_stop_ends_the_work_on_all_hosts() -> None:
    stop, said = threading.Event(), list[tuple[str, str]]()

    def work(name: str, say: Say) -> None:
        if name == "a":
            stop.set()
        stop.wait(LONG_S)
        say("goes on")

    with pytest.raises(KeyboardInterrupt):
        on_each({name: name for name in "ab"}, work, on_host=lambda *told: said.append(told), stop=stop)
    assert sorted(said) == [("a", "stopped"), ("b", "stopped")]


def test_an_error_that_gpuprov_understands_is_kept_as_it_is() -> None:
    error = unreachable()

    def work(_name: str, _say: Say) -> None:
        raise error

    kept: dict[str, GpuprovError] = on_each({"a": "a"}, work, on_host=lambda *_: None, stop=threading.Event()).errors
    assert kept["a"] is error


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory, embedded: Embedded) -> Iterator[Machines]:
    made = Machines(tmp_path_factory.mktemp("broken"))
    embedded.start(made.folder / "state" / "rehearsal", hosts=True)
    yield made
    made.gpuprov("rehearse", "stop")


@pytest.mark.rehearsal
@pytest.mark.matrix(of=4, turn=3)
def test_each_of_several_broken_hosts_has_its_verdict_and_the_next_run_repairs_them(machines: Machines) -> None:
    """Two lose their power, one has no room, and one is 300 ms away; two are well."""
    words = ("--profile", str(machines.small_profile()), "--rehearse", "--name", "m", "--count", str(COUNT), "--without-gpu", "--json")
    done = machines.gpuprov("up", *words)
    assert done.returncode == 0, done.stderr[-3000:]
    before = machines.ids()
    for name in before:
        machines.shell(name, "umount /data")  # so that there is something to set up
    machines.fill(FULL)
    with machines.far_away(FAR, 300), machines.started("up", *words) as process:
        seen, waited = [], set(CUT)
        assert process.stderr is not None
        for line in process.stderr:
            seen.append(line)
            for name in {name for name in waited if f" {name}: preflight: " in line}:
                machines.cut_power(before[name])
                waited.remove(name)
            if not waited:
                break
        out, rest = process.communicate(timeout=4 * LONG_S)
    assert process.returncode == 4, (seen, rest)
    data = json.loads(out)
    assert [host["instance"]["name"] for host in data["hosts"]] == list(WELL)
    assert all(host["report"]["exit_code"] == 0 for host in data["hosts"])
    failed = {each["name"]: each for each in data["failed"]}
    assert {name: (each["code"], each["kind"]) for name, each in failed.items()} == {
        FULL: ("playbook-failed", "disk-full"),
        **dict.fromkeys(CUT, ("instance-lost", "")),
    }
    assert "df -h" in failed[FULL]["hint"]
    assert "launches another one in its place" in failed[CUT[0]]["hint"]
    assert data["error"]["message"].startswith("the set-up failed on 3 of 6 machines: 2 instance-lost, 1 playbook-failed (disk-full)\n")
    lines = [line.split(" s  ", 1)[1].strip() for line in [*seen, *rest.splitlines()] if " s  " in line]
    for name in before:  # nothing is reported twice, or by half
        assert len([line for line in lines if line == f"{name}: done" or line.startswith(f"{name}: error[")]) == 1, name

    done = machines.gpuprov("apply", CUT[0], "m-5", "--without-gpu", "--json")
    data = json.loads(done.stdout)
    assert done.returncode == 3, done.stderr  # nothing failed, and of one nothing is known
    assert [(host["report"]["host"], host["report"]["exit_code"]) for host in data["hosts"]] == [("m-5", 0)]
    assert [(each["name"], each["code"]) for each in data["failed"]] == [(CUT[0], "host-unreachable")]

    machines.make_room(FULL)
    done = machines.gpuprov("up", *words)
    assert done.returncode == 0, done.stderr[-3000:]
    hosts = json.loads(done.stdout)["hosts"]
    after = machines.ids()
    assert {host["instance"]["name"]: host["instance"]["id"] for host in hosts} == after
    assert len(after) == COUNT
    assert {name: after[name] for name in (FULL, *WELL)} == {name: before[name] for name in (FULL, *WELL)}
    assert not {before[name] for name in CUT} & set(after.values())
    assert machines.gpuprov("down", "m", "--yes").returncode == 0


BOOTS = """
- hosts: all
  gather_facts: false
  become: true
  tasks:
    - {name: Look, ansible.builtin.stat: {path: /run/before-the-boot}, register: looked}
    - {name: Reboot, ansible.builtin.reboot: {}, when: looked.stat.exists}
    - {name: After, ansible.builtin.command: {argv: [sh, -c, "test ! -e /var/waits || until test -e /var/go; do sleep 0.1; done"]}}
"""


@pytest.mark.rehearsal
@pytest.mark.matrix(of=4, turn=3)
def test_two_of_three_hosts_boot_in_the_middle_and_the_third_is_through_before(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has booted waits on until the third, which needs no boot, has ended."""
    profile = str(machines.small_profile())
    done = machines.gpuprov("up", "--profile", profile, "--rehearse", "--name", "b", "--count", "3", "--without-gpu", "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    names = [host["instance"]["name"] for host in json.loads(done.stdout)["hosts"]]
    machines.shell("b-1", "touch /run/before-the-boot /var/waits")
    machines.shell("b-2", "touch /run/before-the-boot")
    for name in ("GPUPROV_HOME", "GPUPROV_SSH_CONFIG"):
        monkeypatch.setenv(name, machines.env[name])
    session, playbook, stop = Session.open(), tmp_path / "boots.yml", threading.Event()
    playbook.write_text(BOOTS)
    signed = sign(session, config((), {}, tags=(), playbook=playbook))
    said, story = list[tuple[str, str]](), list[Progress]()

    def boot(name: str) -> str:
        return machines.gpuprov("ssh", name, "--", "cat /proc/sys/kernel/random/boot_id").stdout

    def work(name: str, say: Say) -> None:
        folder = tmp_path / name
        folder.mkdir()
        converge_there(session.target(name), signed, RunEvents(session.target(name), folder, story.append, diff=False, stopped=stop), say)

    def on_host(name: str, step: str) -> None:
        said.append((name, step))
        if (name, step) == ("b-3", "done"):
            until(lambda: machines.gpuprov("ssh", "b-1", "--", "sudo touch /var/go").returncode == 0)

    before = {name: boot(name) for name in names}
    outcomes = on_each({name: name for name in names}, work, on_host=on_host, stop=stop)
    assert outcomes.errors == {}
    assert {name for name, step in said if "starts again" in step} == {"b-1", "b-2"}
    assert {name for name in names if boot(name) != before[name]} == {"b-1", "b-2"}
    assert sorted((each.host, each.state) for each in story if each.task == "After" and each.state != "started") == [
        (name, "changed") for name in names
    ]
    assert machines.gpuprov("down", "b", "--yes").returncode == 0
