"""Hosts and connections that break off or hang, seen through the real ssh and a real sshd: bounded, and reported as what they are."""

import asyncio
import datetime as dt
import os
import re
import socket
import subprocess
import threading
from pathlib import Path

import pytest

import provision.verify.observe as observing
from provision.errors import GpuprovError, HostUnreachableError
from provision.host import python
from provision.host.ssh import Completed, Target, execute
from provision.profile import load
from provision.verify.ahead import EarlyObservations
from provision.verify.facts.system import KernelFacts, Python3Facts, tool
from provision.verify.judge import judge
from provision.verify.observe import Asked, observe
from provision.verify.probe import run as probe
from tests.waiting import until

from .sshd import LIAR, Endpoint, Relay, executable, honest, needed

pytestmark = needed


@pytest.mark.parametrize("after", [0, 20, 1500, 2500, 3500, 5000])
def test_a_connection_that_dies_half_way_is_unreachable(host: Endpoint, after: int) -> None:
    def cut(to: socket.socket, data: bytes, seen: int) -> bool:
        to.sendall(data[: max(0, after - seen)])
        return seen + len(data) < after

    relay = Relay(host.port, cut)
    host.reach(relay.port)
    host.program("python3", f"{LIAR}GOOD['facts']['x'] = os.urandom(9000).hex(); frame(packed(GOOD))\n")
    try:
        with pytest.raises(HostUnreachableError) as caught:
            host.look()
    finally:
        relay.close()
    assert caught.value.exit_code == 3
    assert caught.value.hint


SENT_AHEAD = f"""{LIAR}
def part(number, answer, length=None):
    data = packed(answer)
    kind = "part %d %d" % (number, len(data) if length is None else length)
    sys.stdout.write("\\n<<gpuprov %s %s>>%s<<end>>\\n" % (nonce, kind, data.decode()))
    sys.stdout.flush()
PYTHON = {{"python3": {{"value": {{"version": "3.12.3", "path": "/usr/bin/python3"}}}}}}
part(1, dict(GOOD, promised=["kernel", "python3", "os"]))
"""


def test_what_came_before_a_connection_died_is_kept_and_judged(host: Endpoint) -> None:
    marker = host.folder / "cut"

    def cut(to: socket.socket, data: bytes, _seen: int) -> bool:
        if not marker.exists():
            to.sendall(data)
        return not marker.exists()

    relay = Relay(host.port, cut)
    host.reach(relay.port)
    rest = f"part(2, dict(GOOD, facts=PYTHON)); time.sleep(1.5); open({str(marker)!r}, 'w').close(); frame(packed(GOOD))"
    host.program("python3", f"{SENT_AHEAD}{rest}\n")
    try:
        facts = host.look()
    finally:
        relay.close()
    assert facts.read(KernelFacts).release == "6.1"
    assert facts.read(Python3Facts).version == "3.12.3"
    assert facts.raw["os"]["unknown"].startswith("the connection ended before it came: ")
    assert facts.clock_ahead_s is None
    findings = {f.check: f for f in judge(facts, load.load(load.find("t4-train"))).findings}
    assert (findings["python3"].outcome, findings["os"].outcome) == ("pass", "unknown")
    assert "the connection ended before it came" in findings["os"].observed


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "the connection ended before it came: lying ended the session"),
        ("sys.exit(7)", "the probe ended before it came: exit code 7"),
        ("time.sleep(60)", "the connection ended before it came: lying did not finish within 4 s"),
        ("frame(packed(GOOD), length=7)", "the probe ended before it came: its answer is broken"),
    ],
    ids=["killed", "ended", "hangs", "broken"],
)
def test_a_probe_that_ends_before_its_last_word_has_lost_only_the_rest(host: Endpoint, rest: str, reason: str) -> None:
    host.program("python3", f"{SENT_AHEAD}{rest}\n")
    facts = host.look(timeout_s=4)
    assert facts.read(KernelFacts).release == "6.1"
    assert facts.raw["os"]["unknown"].startswith(reason)


@pytest.mark.parametrize(
    ("parts", "known"),
    [
        ("part(2, dict(GOOD, facts=PYTHON))", {"kernel", "python3"}),
        ("part(2, dict(GOOD, facts=PYTHON), length=3)", {"kernel"}),
        ("part(1, dict(GOOD, facts=PYTHON))", {"kernel"}),
        ("part(2, [1]); part(3, b'{'); part(4, dict(GOOD, facts=7)); part(5, b'x' * 3000000)", {"kernel"}),
        ("part(0, dict(GOOD, promised={})); part(2, dict(GOOD, promised=[7, None, []], facts=PYTHON))", {"kernel", "python3"}),
    ],
    ids=["whole", "cut", "twice", "nonsense", "odd"],
)
def test_the_last_frame_completes_the_parts_and_a_part_that_is_broken_is_unknown(host: Endpoint, parts: str, known: set[str]) -> None:
    host.program("python3", f"{SENT_AHEAD}{parts}\nframe(packed(dict(GOOD, facts={{}})))\n")
    facts = host.look()
    assert {name for name, said in facts.raw.items() if "value" in said and name != "clock_ahead"} == known
    assert {facts.raw[name]["unknown"] for name in {"kernel", "python3", "os"} - known} == {"a part of the answer did not arrive whole"}
    assert facts.clock_ahead_s is not None


def test_the_probe_sends_ahead_what_it_knows_while_it_waits_and_nothing_twice(host: Endpoint) -> None:
    """A tool that takes six seconds; then the same with the host dead after two."""
    host.program("git", "#!/bin/sh\nsleep 6; echo git version 2.39.2\n")
    parcel = observing._parcel("n0nce", 60, Asked("quick"))
    output = asyncio.run(execute(host.target, python.command("n0nce"), stdin=parcel, timeout_s=60)).stdout
    *frames, last = re.findall(rb"<<gpuprov n0nce (part \d+ )?\d+>>", output)
    assert frames == [b"part %d " % number for number in range(1, len(frames) + 1)]
    assert frames
    assert last == b""
    facts = observing._unframe(host.target, Completed(0, output, b""), "n0nce", dt.datetime.now(dt.UTC))
    assert tool(facts, "git") is not None
    assert honest(facts)
    first, *more = observing._parts(output, "n0nce")
    ahead = [name for part in (first, *more) for name in part["facts"]]
    assert "tool_git" not in first["facts"]
    assert len(ahead) == len(set(ahead))
    assert set(first["promised"]) == set(facts.raw) - {"clock_ahead"}
    frame = re.findall(rb">>([^<]*)<<end>>", output)[-1]
    rest, _ = observing._unpack(frame, len(frame))
    assert not set(rest["facts"]) & set(ahead)
    host.program("git", "#!/bin/sh\nsleep 1.6; kill -9 $(ps -o ppid= $PPID) $PPID; sleep 5\n")
    early = host.look()
    assert honest(early)
    assert "ended" in early.raw["tool_git"]["unknown"]


@pytest.mark.parametrize("at", [10, 2500, 4500])
def test_a_byte_changed_on_the_way_is_noticed(host: Endpoint, at: int) -> None:
    def change(to: socket.socket, data: bytes, seen: int) -> bool:
        changed = bytearray(data)
        if seen <= at < seen + len(data):
            changed[at - seen] ^= 1
        to.sendall(changed)
        return True

    relay = Relay(host.port, change)
    host.reach(relay.port)
    host.program("python3", f"{LIAR}GOOD['facts']['x'] = os.urandom(9000).hex(); frame(packed(GOOD))\n")
    try:
        with pytest.raises(GpuprovError) as caught:
            host.look(timeout_s=10)
    finally:
        relay.close()
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("how", ["exec sleep 60", "kill -9 $PPID; sleep 60", 'setsid sleep 8 & echo "left one behind"', "kill -9 $$"])
def test_a_login_that_hangs_or_dies_is_bounded(host: Endpoint, how: str) -> None:
    host.login(how)
    with pytest.raises(GpuprovError) as caught:
        host.look(timeout_s=3)
    assert caught.value.exit_code == 3


def test_an_ssh_that_is_killed_and_one_that_leaves_a_child_with_its_pipes_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for text in ("kill -9 $$", "setsid sleep 8 & exit 0", "exit 255"):
        executable(tmp_path / "ssh", f"#!/bin/sh\n{text}\n")
        with pytest.raises(GpuprovError) as caught:
            asyncio.run(observe(Target("gone", "gone"), timeout_s=3))
        assert caught.value.exit_code == 3


def test_a_tool_that_hangs_or_floods_costs_its_own_fact(host: Endpoint) -> None:
    sleeping = f"sleep 61.{host.port}"
    host.program("gcc", f"#!/bin/sh\nsetsid {sleeping} & exec {sleeping}\n")
    host.program("make", "#!/bin/sh\nexec yes\n")
    host.program("git", "#!/bin/sh\nsleep 7 & echo git version 2.39.2\n")
    facts = host.look(timeout_s=15)
    late = re.fullmatch(r"not observed within (\d+) s", facts.raw["tool_gcc"]["unknown"])
    assert late  # of the 15 s, three are for the way back and some for the way there
    assert 5 < int(late[1]) <= 12
    assert "printed more than" in facts.raw["tool_make"]["unknown"]
    assert tool(facts, "git") is not None  # what a child left behind holds open is not waited for
    assert honest(facts)
    pids = subprocess.run(["pgrep", "-fx", sleeping], capture_output=True, text=True, check=False).stdout.split()
    assert len(pids) <= 1  # the one that left its session on purpose


def test_nothing_that_a_host_began_outlives_a_client_that_asks_for_nothing(host: Endpoint) -> None:
    pid = host.folder / "pid"
    host.program("git", f"#!/bin/sh\necho $$ >{pid}\nexec sleep 600\n")
    with EarlyObservations([host.target], timeout_s=30):
        until(lambda: pid.exists() and pid.read_text())
    until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists())


def test_a_fact_that_hangs_where_nothing_can_end_it_is_late_by_its_own_deadline_alone() -> None:
    release = threading.Event()

    def stuck() -> None:
        release.wait()

    vars(stuck)["deadline_s"] = 0.3
    facts = probe.gather({"stuck": stuck, "fine": lambda: 1}, 30)  # type: ignore[no-untyped-call]
    release.set()
    assert facts["fine"] == {"value": 1}
    assert "not observed within" in facts["stuck"]["unknown"]
