"""A fleet on GCP with real hosts: members verify themselves, come again while no client runs, and stop a program that always fails."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from provision import paths
from provision.converge.failed_member import failed_task
from provision.rehearsal import control
from provision.workflow.fleet import connected, known, order_of
from provision.workflow.session import Session
from tests.cli.conftest import Call, call
from tests.embedded import Embedded
from tests.waiting import until

__all__ = ["call"]

pytestmark = [pytest.mark.rehearsal, pytest.mark.matrix(of=4, turn=3)]
SET_UP_S = 900.0  # that hosts set themselves up, on a machine that has other work
ACCOUNT = "gpu-node@gpuprov-rehearsal.iam.gserviceaccount.com"


@pytest.fixture
def words(own_home: Path, tmp_path: Path, embedded: Embedded) -> Iterator[tuple[str, ...]]:
    text = (paths.profiles_dir() / "t4-train.yml").read_text().replace("name: t4-train", "name: ff", 1)
    (tmp_path / "f.yml").write_text(text.replace("    gpu: t4\n", f"    gpu: t4\n    identity: {{service_account: {ACCOUNT}}}\n", 1))
    folder = own_home / "rehearsal"
    rehearsal = embedded.start(folder, hosts=True)
    control.ask(rehearsal, "settings", method="PUT", body={"gce_check_s": 0.5, "gce_group_retry_s": 0.5})
    yield ("fleet", "up", str(tmp_path / "f.yml"), "--store", "gs://a-store/x", "--rehearse", "gcp", "--without-gpu")
    assert control.stop(folder)


def shown(call: Call) -> dict[str, Any]:
    return dict(json.loads(call("fleet", "status", "ff", "--json")[1]))


def steady(call: Call, count: int) -> dict[str, dict[str, Any]]:
    """The members by name, once so many serve and each has said so itself in this boot."""

    def found() -> dict[str, dict[str, Any]] | None:
        view = shown(call)
        rows = {row["name"]: row for row in view["members"]}
        return rows if view["serving"] == len(rows) == count and all(row["boot_id"] for row in rows.values()) else None

    return until(found) or {}


def crash(instance_id: str) -> None:
    """Pull a host's plug."""
    for process in psutil.process_iter(["cmdline"]):
        if any(f"/gce-{instance_id}" in word for word in process.info["cmdline"] or []):
            os.kill(process.pid, signal.SIGKILL)
            return
    pytest.fail(f"no host of {instance_id}")


def test_members_that_crash_come_again_with_evidence_of_their_own(call: Call, words: tuple[str, ...], tmp_path: Path) -> None:
    program = tmp_path / "proves"  # setting three hosts up is the subject of tests/clouds/aws/test_member.py
    program.write_text("#!/bin/sh\nuptime\n")
    assert call(*words, "--count", "3", "--program", str(program))[0] == 0
    before = steady(call, 3)
    sick = sorted(before)[:2]
    for name in sick:
        crash(before[name]["id"])
    until(lambda: not {before[name]["id"] for name in sick} & {row["id"] for row in shown(call)["members"]})
    after = steady(call, 3)
    assert set(after) == set(before)  # the names stay, and nothing else
    for name, row in after.items():
        assert (row["id"] == before[name]["id"]) is (name not in sick)
        assert (row["boot_id"] == before[name]["boot_id"]) is (name not in sick)
        assert row["doubt"] == ""
    assert call("fleet", "down", "ff", "--yes")[0] == 0


def test_a_member_whose_image_has_no_cloud_init_runs_its_program(call: Call, words: tuple[str, ...], tmp_path: Path) -> None:
    path, program = Path(words[2]), tmp_path / "proves"
    path.write_text(path.read_text().replace('  name: ubuntu\n  version: "24.04"', '  name: debian\n  version: "12"'))
    program.write_text("#!/bin/sh\nsystemctl is-active google-startup-scripts.service; command -v cloud-init || echo none\n")
    code, _, err = call(*words, "--count", "1", "--program", str(program))
    assert code == 0, err
    (member,) = steady(call, 1).values()
    assert member["doubt"] == ""
    session = Session.open()
    _, record, planned = known(session, "ff")
    (posted,) = connected(session, record, planned).evidence(order_of(record, planned))
    assert posted.content["output"].split()[1:] == ["none"], posted.content
    assert call("fleet", "down", "ff", "--yes")[0] == 0


def test_a_bundle_that_always_fails_never_serves_and_its_evidence_says_why(call: Call, words: tuple[str, ...]) -> None:
    """Nobody runs the proxy of the profile, and there is less room than it wants: each member fails at a task, and then says all of it."""
    path = Path(words[2])
    text = path.read_text().replace("frameworks:\n    pytorch: auto", "frameworks: {}").replace("opencv: wheel", "opencv: none")
    text = text.replace("ffmpeg: true", "ffmpeg: false").replace("[gcc, make, cmake, git, tmux]", "[]").replace("[nsys, ncu]", "[]")
    text = text.replace("min_free_gb: 5", "min_free_gb: 4000") + "\nsources: {proxy: 'http://127.0.0.1:9'}\n"
    path.write_text(text)
    code, _, err = call(*words, "--count", "2")
    assert code == 0, err

    def halted() -> bool:
        view = shown(call)
        assert view["serving"] == 0, view
        return bool(view["halted"]) and all(row["cloud"] == "VERIFYING, unhealthy" for row in view["members"])

    until(halted, longest_s=SET_UP_S)
    last = {row["id"] for row in shown(call)["members"]}
    assert len(last) == 2
    session = Session.open()
    _, record, planned = known(session, "ff")
    posted = connected(session, record, planned).evidence(order_of(record, planned))
    assert 5 <= len(posted) <= 5 + 1  # the other member may have been under way
    assert {each.doubt for each in posted} == {""}
    for each in posted:
        assert each.content["exit_code"] == 1
        assert "fail: root-room" in each.content["errors"], each.content["errors"]
        task = failed_task(each.content["errors"])
        assert task is not None, each.content["errors"]
        assert (task.role, task.task, "Connection refused" in task.why) == ("sources", "Fetch the keys of the repositories", True), task
    assert call("fleet", "status", "ff")[0] == 3
    view = shown(call)
    assert {row["id"] for row in view["members"]} == last  # nothing is made anew any more
    assert [(row["role"], row["task"]) for row in view["failed"]] == [("sources", "Fetch the keys of the repositories")]
    assert call("fleet", "down", "ff", "--yes")[0] == 0


def test_a_program_that_always_fails_is_run_so_often_and_no_more(call: Call, words: tuple[str, ...], tmp_path: Path) -> None:
    program = tmp_path / "fails"
    program.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    assert call(*words, "--count", "2", "--program", str(program))[0] == 0
    until(lambda: shown(call)["halted"])

    def settled() -> list[str]:
        rows = shown(call)["members"]
        return [row["id"] for row in rows] if all(row["cloud"] == "VERIFYING, unhealthy" for row in rows) else []

    ids = until(settled)
    assert len(ids) == 2
    assert shown(call)["serving"] == 0
    folder = paths.state_dir() / "rehearsal"
    running = control.running(folder)
    assert running is not None
    calls = control.ask(running, "calls")
    posted = [row for row in calls if row["action"] == "storage.objects.insert" and "refused" not in row]
    # The program; five pieces of evidence and five failures; a sixth of each where the other member was under way.
    assert 1 + 5 + 5 <= len(posted) <= 1 + 6 + 6
    assert call("fleet", "down", "ff", "--yes")[0] == 0
