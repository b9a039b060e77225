"""The log of what was changed: its lines, who is in them, and what becomes of a command whose line cannot be written."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provision.clouds import changes
from provision.clouds.changes import ChangingCall
from provision.errors import CapacityError, CloudError, NameTakenError, ProfileNotFoundError
from provision.launch.audit import AuditLog, Safe, Undertaking
from provision.launch.chain import AuditUnwritableError

UP = Undertaking("up", "train")
RUN = ChangingCall("aws", "us-east-1", "ec2:RunInstances", "accepted", "req-1", "op-1", "arn:aws:sts::1:user/a")
SECRET = "hunter2-s3cr3t"
FRAME = {"seq", "prev", "at", "event", "run", "user", "client"}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AuditLog:
    monkeypatch.delenv("SUDO_USER", raising=False)
    return AuditLog(tmp_path / "home" / "audit.jsonl")


def told(log: AuditLog) -> list[dict[str, Any]]:
    reading = log.read()
    assert reading.line == 0, reading.why
    return reading.entries


def said(entry: dict[str, Any]) -> dict[str, Any]:
    """What a line has besides what every line has."""
    return {key: value for key, value in entry.items() if key not in FRAME}


def undertake(
    log: AuditLog,
    undertaking: Undertaking = UP,
    *,
    calls: Iterable[ChangingCall] = (),
    results: dict[str, Safe] | None = None,
    code: int = 0,
) -> list[dict[str, Any]]:
    """Run a command that makes these calls and ends so; returns its lines."""
    with log.undertaken(undertaking) as ending:
        for call in calls:
            changes.tell(call)
        ending.code = code
        ending.results.update(results or {})
    run = told(log)[-1]["run"]
    return [entry for entry in told(log) if entry["run"] == run]


def spoil(log: AuditLog) -> None:
    """Let nobody write the log, not even root."""
    log.path.unlink(missing_ok=True)
    log.path.mkdir(parents=True)


# --- lines -------------------------------------------------------------------------------------------------------------


def test_each_line_is_written_when_it_happens(log: AuditLog) -> None:
    assert told(log) == []
    with log.undertaken(UP):
        assert [entry["event"] for entry in told(log)] == ["intent"]
        changes.tell(RUN)
        assert [entry["event"] for entry in told(log)] == ["intent", "call"]
    assert [entry["event"] for entry in told(log)] == ["intent", "call", "outcome"]
    assert log.path.read_bytes().count(b"\n") == 3


def test_the_lines_of_one_command_have_one_name_and_those_of_the_next_another(log: AuditLog) -> None:
    for _ in range(2):
        undertake(log, calls=[RUN, RUN])
    runs = [entry["run"] for entry in told(log)]
    assert runs == [runs[0]] * 4 + [runs[4]] * 4
    assert runs[0] != runs[4]
    assert re.fullmatch(r"[0-9a-f]{16}", runs[0])


def test_a_line_has_its_moment_in_utc_to_the_millisecond(log: AuditLog) -> None:
    for entry in undertake(log, calls=[RUN]):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", entry["at"])


@pytest.mark.parametrize(
    ("undertaking", "intent"),
    [
        (UP, {"command": "up", "name": "train", "rehearsal": False, "arguments": {}}),
        (
            Undertaking("apply", "a b", rehearsal=True, arguments={"hours": 12, "open_to": ["192.0.2.0/24", "a b"]}, lock="l" * 64),
            {
                "command": "apply",
                "name": "a_b",
                "rehearsal": True,
                "arguments": {"hours": 12, "open_to": ["192.0.2.0/24", "a_b"]},
                "lock": "l" * 64,
            },
        ),
        (
            Undertaking("up", "x", profile="p", statement="s", approvals=(("alice@example.com", "valid"), ("bob b", "lapsed"))),
            {
                "command": "up",
                "name": "x",
                "rehearsal": False,
                "arguments": {},
                "profile": "p",
                "statement": "s",
                "approvals": [{"name": "alice@example.com", "signature": "valid"}, {"name": "bob_b", "signature": "lapsed"}],
            },
        ),
    ],
    ids=["nothing given", "arguments", "approvals"],
)
def test_an_intent_says_what_is_known_and_leaves_out_what_is_not(log: AuditLog, undertaking: Undertaking, intent: dict[str, Any]) -> None:
    assert said(undertake(log, undertaking)[0]) == intent


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            RUN,
            {
                "cloud": "aws",
                "where": "us-east-1",
                "call": "ec2:RunInstances",
                "answer": "accepted",
                "request_id": "req-1",
                "operation": "op-1",
                "principal": "arn:aws:sts::1:user/a",
            },
        ),
        (ChangingCall("gcp", "", "insert", changes.UNANSWERED), {"cloud": "gcp", "call": "insert", "answer": "unanswered"}),
        (
            ChangingCall("gcp", "z", "insert", "quota: none\nleft", principal="<a>"),
            {"cloud": "gcp", "where": "z", "call": "insert", "answer": "quota:_none_left", "principal": "_a_"},
        ),
    ],
    ids=["whole", "without an answer", "with what is in no name"],
)
def test_a_call_says_what_the_cloud_s_own_trail_has(log: AuditLog, call: ChangingCall, line: dict[str, Any]) -> None:
    (_, entry, _) = undertake(log, calls=[call])
    assert said(entry) == line


def test_calls_are_told_in_their_order_and_none_after_the_end(log: AuditLog) -> None:
    calls = [ChangingCall("aws", "r", f"call-{n}", "accepted") for n in range(3)]
    entries = undertake(log, calls=calls)
    assert [entry["call"] for entry in entries[1:-1]] == ["call-0", "call-1", "call-2"]
    changes.tell(RUN)
    assert told(log) == entries
    assert not changes.is_heard()


@pytest.mark.parametrize("code", [0, 1, 3])
def test_an_outcome_has_the_exit_code_and_the_results(log: AuditLog, code: int) -> None:
    entry = undertake(log, code=code, results={"machines": ["i-1", "i 2"], "agreed": True})[-1]
    assert said(entry) == {"exit": code, "machines": ["i-1", "i_2"], "agreed": True}


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (NameTakenError(SECRET, hint=SECRET, detail=SECRET), {"exit": NameTakenError.exit_code, "error": "name-taken"}),
        (
            CapacityError("no room", hint=SECRET, detail="InsufficientInstanceCapacity:\n no \x1b[31mroom  left"),
            {"exit": 4, "error": "no-capacity", "said": "InsufficientInstanceCapacity: no �[31mroom left"},
        ),
        (CloudError("it said no", hint=SECRET), {"exit": 4, "error": "cloud-failed", "said": "it said no"}),
        (CloudError("no", hint=SECRET, detail="x " * 9_000), {"exit": 4, "error": "cloud-failed", "said": ("x " * 1_000)}),
        (ProfileNotFoundError(SECRET, hint=SECRET), {"exit": 2, "error": "profile-not-found"}),
        (KeyboardInterrupt(SECRET), {"exit": 130, "error": "interrupted"}),
        (ValueError(SECRET), {"exit": 70, "error": "ValueError"}),
        (SystemExit(SECRET), {"exit": 70, "error": "SystemExit"}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_a_command_that_fails_has_its_code_in_the_log_and_not_its_words(log: AuditLog, error: BaseException, line: dict[str, Any]) -> None:
    def fail() -> None:
        with log.undertaken(UP) as ending:
            changes.tell(RUN)
            ending.results["machines"] = ["i-1", "i 2"]
            raise error

    with pytest.raises(type(error)) as caught:
        fail()
    assert caught.value is error
    assert [entry["event"] for entry in told(log)] == ["intent", "call", "outcome"]
    assert said(told(log)[-1]) == line | {"machines": ["i-1", "i_2"]}
    assert SECRET not in log.path.read_text()
    assert not changes.is_heard()


# --- what fits in a line -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "short"),
    [
        ("", ""),
        ("az-AZ_09.:/@+=,", "az-AZ_09.:/@+=,"),
        ("a b\tc\nd", "a_b_c_d"),
        ("--key='x' \"y\" $z;`w`", "--key=_x___y___z__w_"),
        ("é\u202e٣", "___"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 200),
        (7, 7),
        (0.5, 0.5),
        (True, True),
        (False, False),
        ([], []),
        (["a b", "y" * 201], ["a_b", "y" * 200]),
        (("a", "b"), ["a", "b"]),
        ([str(n) for n in range(100)], [str(n) for n in range(100)]),
        ([str(n) for n in range(101)], [*(str(n) for n in range(100)), "and-1-more"]),
        ([str(n) for n in range(350)], [*(str(n) for n in range(100)), "and-250-more"]),
    ],
)
def test_a_value_is_as_much_of_it_as_can_stand_in_a_name(log: AuditLog, value: Safe, short: Any) -> None:
    intent, outcome = undertake(log, Undertaking("up", "x", arguments={"given": value}), results={"made": value})
    assert (intent["arguments"], said(outcome)) == ({"given": short}, {"exit": 0, "made": short})
    assert type(outcome["made"]) is type(short), "a truth is no number"


# --- who ---------------------------------------------------------------------------------------------------------------


def test_the_user_is_the_kernel_s_and_the_machine_has_its_name(log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "mallory")
    monkeypatch.setenv("LOGNAME", "mallory")
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name=f"user-{uid}"))
    monkeypatch.setattr(socket, "gethostname", lambda: "a host")
    for entry in undertake(log, calls=[RUN]):
        assert (entry["user"], entry["client"]) == ("user-4711", "a_host")
        assert "sudo_user" not in entry


def test_a_user_without_a_name_is_a_number(log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.setattr(os, "getuid", lambda: 4711)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert {entry["user"] for entry in undertake(log)} == {"4711"}


@pytest.mark.parametrize(("caller", "written"), [("alice", ["alice", "alice"]), ("a b", ["a_b", "a_b"]), ("", [])])
def test_who_called_sudo_stands_beside_the_user(log: AuditLog, monkeypatch: pytest.MonkeyPatch, caller: str, written: list[str]) -> None:
    monkeypatch.setenv("SUDO_USER", caller)
    entries = undertake(log)
    assert [entry["sudo_user"] for entry in entries if "sudo_user" in entry] == written
    assert {entry["user"] for entry in entries} == {pwd.getpwuid(os.getuid()).pw_name}


# --- a log that cannot be written, and one that was changed ------------------------------------------------------------


def test_nothing_is_begun_whose_intent_cannot_be_written(log: AuditLog) -> None:
    spoil(log)
    begun: list[str] = []
    with pytest.raises(AuditUnwritableError) as caught, log.undertaken(UP):
        begun.append("the block")
    assert begun == []
    assert (caught.value.code, caught.value.exit_code) == ("audit-unwritable", 2)
    assert not changes.is_heard()


def test_a_call_whose_line_cannot_be_written_ends_the_command(log: AuditLog) -> None:
    went_on: list[str] = []

    def act() -> None:
        with log.undertaken(UP):
            spoil(log)
            changes.tell(RUN)
            went_on.append("to the next call")

    with pytest.raises(AuditUnwritableError):
        act()
    assert went_on == []
    assert not changes.is_heard()


def test_an_outcome_that_cannot_be_written_is_an_error_of_a_command_that_went_well(log: AuditLog) -> None:
    with pytest.raises(AuditUnwritableError), log.undertaken(UP):
        spoil(log)


@pytest.mark.parametrize("error", [ProfileNotFoundError("ours", hint="ours"), KeyboardInterrupt(), OSError("ours")])
def test_an_outcome_that_cannot_be_written_does_not_hide_why_a_command_failed(log: AuditLog, error: BaseException) -> None:
    def fail() -> None:
        with log.undertaken(UP):
            spoil(log)
            raise error

    with pytest.raises(type(error)) as caught:
        fail()
    assert caught.value is error


def test_a_folder_that_is_gone_for_good_does_not_hide_why_a_command_failed(log: AuditLog) -> None:
    error = ProfileNotFoundError("ours", hint="ours")

    def fail() -> None:
        with log.undertaken(UP):
            shutil.rmtree(log.path.parent)
            log.path.parent.touch()  # a file, so that no folder can be made there
            raise error

    with pytest.raises(ProfileNotFoundError) as caught:
        fail()
    assert caught.value is error
    with pytest.raises(AuditUnwritableError, match="cannot make"), log.undertaken(UP):
        pass


def test_a_line_that_was_changed_is_named_and_those_before_it_are_read(log: AuditLog) -> None:
    for name in ("one", "two"):
        undertake(log, Undertaking("up", name))
    head = log.read().head
    log.path.write_bytes(log.path.read_bytes().replace(b'"name":"two"', b'"name":"own"'))
    reading = log.read()
    assert (reading.line, len(reading.entries)) == (4, 3)
    assert reading.head != head


def test_the_log_is_the_user_s_alone_and_another_object_goes_on_with_it(log: AuditLog) -> None:
    with contextlib.suppress(ProfileNotFoundError), log.undertaken(UP):
        raise ProfileNotFoundError("ours", hint="ours")  # noqa: EM101 - only its class matters
    undertake(AuditLog(log.path))
    assert [entry["seq"] for entry in told(log)] == [1, 2, 3, 4]
    assert log.path.stat().st_mode & 0o777 == 0o600
