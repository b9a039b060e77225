"""The daemon's life: started once, found, ended, and believed only when it is itself."""

import json
import os
import signal
import urllib.request
from pathlib import Path

import pytest

from provision.errors import RehearsalFailedError
from provision.rehearsal import control
from tests.waiting import until


def test_it_starts_once_answers_and_ends(tmp_path: Path) -> None:
    first = control.start(tmp_path, hosts=False)
    try:
        assert control.start(tmp_path, hosts=False) == first
        status = control.status(tmp_path)
        assert (status["pid"], status["endpoint"], status["gcp_endpoint"]) == (first.pid, first.endpoints["aws"], first.endpoints["gcp"])
        variables = first.environment
        assert (variables["AWS_ENDPOINT_URL"], variables["GPUPROV_GCP_ENDPOINT"]) == (first.endpoints["aws"], first.endpoints["gcp"])
        assert first.settings("aws").keys() == {
            *("endpoint_url", "access_key_id", "secret_access_key"),
            *("caller_address_url", "machine_endpoint_url"),
        }
        assert first.settings("gcp").keys() == {"project", "endpoint_url", "token", "caller_address_url", "machine_endpoint_url"}
        assert variables["GOOGLE_CLOUD_PROJECT"] == first.settings("gcp")["project"]
        for endpoint in first.endpoints.values():  # the rehearsal's own paths are at each
            with urllib.request.urlopen(f"{endpoint}/_rehearsal/caller-address") as reply:  # noqa: S310 - our own URL
                assert reply.read() == b"127.0.0.1\n"
    finally:
        assert control.stop(tmp_path)
    assert control.running(tmp_path) is None
    assert control.status(tmp_path) == {"running": False, "on_this_machine": []}
    assert not control.stop(tmp_path)


@pytest.mark.parametrize("pid", ["x", -1, 1 << 80, None, [1]])
def test_a_state_whose_pid_is_none_is_not_believed(tmp_path: Path, pid: object) -> None:
    (tmp_path / "server.json").write_text(json.dumps({"pid": pid, "secret": "", "endpoints": {}, "access": {}, "environment": {}}))
    assert control.running(tmp_path) is None


def test_a_killed_one_is_not_believed_and_the_next_start_works(tmp_path: Path) -> None:
    first = control.start(tmp_path, hosts=False)
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: control.running(tmp_path) is None)
    control.stop(tmp_path)
    second = control.start(tmp_path, hosts=False)
    assert second.pid != first.pid
    assert control.stop(tmp_path)


def test_a_process_that_got_its_pid_later_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "server.json").write_text(json.dumps({"pid": os.getpid(), "endpoints": {}, "access": {}, "environment": {}}))
    assert control.running(tmp_path) is None


def test_a_start_that_fails_says_what_the_process_said(tmp_path: Path) -> None:
    running = control.start(tmp_path / "a", hosts=False)
    os.rename(tmp_path / "a" / "server.json", tmp_path / "hidden.json")  # noqa: PTH104
    try:
        with pytest.raises(RehearsalFailedError) as caught:
            control.start(tmp_path / "a", hosts=False)
        assert "another process serves" in caught.value.detail
    finally:
        os.rename(tmp_path / "hidden.json", tmp_path / "a" / "server.json")  # noqa: PTH104
        assert control.stop(running.folder)


def test_one_that_cannot_start_names_the_cause_and_the_log_of_the_start_before_is_kept(tmp_path: Path) -> None:
    """What the process dies of is in the error, not only in its log."""
    (tmp_path / "server.lock").mkdir()  # the process cannot take its lock
    for _ in range(2):
        with pytest.raises(RehearsalFailedError) as caught:
            control.start(tmp_path, hosts=False)
        assert caught.value.message.startswith("the embedded cloud did not start: [Errno 21] Is a directory: ")
        assert f"all of it is in {tmp_path / 'server.log'}" in caught.value.hint
    assert "Is a directory" in (tmp_path / "server.log.1").read_text()
