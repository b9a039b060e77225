"""A recording: what was written is read again; what is none, or was made to hurt, is an error with its line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from provision.errors import FactsInvalidError, HostUnreachableError
from provision.host.ssh import Target
from provision.watch import recording
from provision.watch.recording import Recorder
from provision.watch.run import replay
from provision.watch.state import Watched, WatchedHost
from provision.watch.stream import Lost

from .samples import gpu, sample

HOSTS = (WatchedHost(Target("a", "a"), usd_per_hour=1.5, launched_at=10.0, ends_at=20.0, clocks_mhz=1590), WatchedHost(Target("b", "b")))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "r.jsonl"
    with path.open("w") as out:
        recorder = Recorder(out, HOSTS, 2.0)
        recorder.take("a", sample(gpu()), 100.0)
        recorder.take("b", Lost(HostUnreachableError("b is gone", hint="see it"), 5.0), 101.0)
        recorder.take("a", sample(gpu(sm_active=0.1), at=1002.0, processes=[{"gpu": 0, "pid": 7, "user": "ada"}]), 102.0)
    return path


def test_what_was_recorded_is_replayed_as_it_came(file: Path) -> None:
    read = recording.read(file)
    assert (read.interval_s, read.cut) == (2.0, False)
    assert [(host.target.name, host.usd_per_hour, host.ends_at, host.clocks_mhz) for host in read.hosts] == [
        ("a", 1.5, 20.0, 1590),
        ("b", None, None, None),
    ]
    watched = Watched(read.hosts)
    assert replay(read, watched.take) == 102.0
    state = watched.hosts["a"]
    assert (state.sample, state.received_at) == (
        sample(gpu(sm_active=0.1), at=1002.0, processes=[{"gpu": 0, "pid": 7, "user": "ada"}]),
        102.0,
    )
    lost = watched.hosts["b"].lost
    assert lost is not None
    assert lost.error.message == "b is gone"


def test_a_line_that_a_kill_cut_off_is_left_out(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])
    read = recording.read(file)
    assert (len(read.moments), read.cut) == (2, True)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[", "not a line"),
        (json.dumps({"at": 1, "host": "c"}), "does not have"),
        (json.dumps({"at": "x", "host": "a"}), "not a line"),
        (json.dumps({"at": 1, "host": "a", "sample": {"number": 0, "at": 0, "host": {"cores": -1}}}), "not a line"),
    ],
)
def test_a_line_that_is_none_is_named_by_its_number(file: Path, line: str, problem: str) -> None:
    with file.open("a") as out:
        out.write(line + "\n")
    with pytest.raises(FactsInvalidError, match=problem) as caught:
        recording.read(file)
    assert f"{file}:5:" in caught.value.message


@pytest.mark.parametrize("head", ["", "{}", "[" * 10_000, '{"schema": "gpuprov-recording/2", "interval_s": 1, "hosts": []}'])
def test_what_is_no_recording_is_an_error(tmp_path: Path, head: str) -> None:
    path = tmp_path / "r"
    path.write_text(head + "\n")
    with pytest.raises(FactsInvalidError):
        recording.read(path)


def test_a_pipe_and_a_file_without_end_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path / "nothing"):
        with pytest.raises(FactsInvalidError, match="cannot read"):
            recording.read(path)


@pytest.mark.parametrize("name", ["\x1b]0;pwn\x07host", "\x9b2Jhost", "host\u202e", "a\nb"])
def test_a_host_whose_name_speaks_to_the_terminal_is_refused(file: Path, name: str) -> None:
    file.write_text(file.read_text().replace('"a"', json.dumps(name)))
    with pytest.raises(FactsInvalidError, match="which is no name") as refused:
        recording.read(file)
    assert refused.value.message.isprintable()
