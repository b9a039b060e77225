"""`gpuprov monitor` with 64 hosts, some of which die, lie, flood and stall; its screen at 80 and 160 columns, and the replay of it.

The process, its terminal, its child processes and their connections are real, and so is the sampler of `localhost`. Simulated are the
other 63 hosts and ssh: tests/watch/simulator.py. One run is watched for all tests.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from rich.cells import cell_len

from tests.cli.terminal import Terminal, lines_of
from tests.waiting import until
from tests.watch.simulator import path_with, simulated

DYING = [f"dies-{number}" for number in range(8)]
LYING = ["range", "types", "names"]
CUT = ["floods", "endless"]
ODD = [*DYING, *LYING, *CUT, "stalls", "localhost"]
HOSTS = [*ODD, *[f"good-{number}" for number in range(64 - len(ODD))]]
LINES = 70
DIM = "\x1b[2m"


@dataclass
class Seen:
    """Frames of the run, by what had happened, and what was left of it."""

    frames: dict[str, str] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    code: int = -1
    left: list[str] = field(default_factory=list)
    connected: list[str] = field(default_factory=list)


def row(frame: str, name: str) -> str:
    """The first row of a host, with its colours."""
    return next((line for line in frame.split("\n") if re.match(rf"(\x1b\[[0-9;]*m)*{name} ", line)), "")


def wait(terminal: Terminal, holds: Callable[[str], bool]) -> str:
    """The first whole frame from now on of which something holds."""
    begin = len(terminal.frames)

    def look() -> str:
        assert terminal.process.poll() is None, terminal.sent[-2000:]
        return next((frame for frame in terminal.frames[begin:] if "esc back" in frame and holds(frame)), "")

    return until(look)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fleet")


def environment(folder: Path) -> dict[str, str]:
    own = {"GPUPROV_HOME": str(folder / "home"), "GPUPROV_SSH_CONFIG": str(folder / "ssh_config")}
    return {**os.environ, **own, "PATH": path_with(folder / "bin")}


def gpuprov(*words: str) -> list[str]:
    return [sys.executable, "-m", "provision", "monitor", *words]


@pytest.fixture(scope="module")
def seen(folder: Path) -> Iterator[Seen]:
    seen = Seen()
    words = gpuprov(*HOSTS, "--interval", "0.5", "--record", str(folder / "run.jsonl"))
    with (
        simulated(folder / "bin") as simulator,
        Terminal.running(words, environment(folder), columns=80, lines=LINES) as terminal,
    ):

        def press(keys: str, holds: Callable[[str], bool]) -> str:
            terminal.press(keys)
            return wait(terminal, holds)

        def silent(frame: str, *names: str) -> bool:
            return all("no sample for" in row(frame, name) for name in names)

        wait(terminal, lambda frame: all(" sm " in row(frame, name) for name in HOSTS if name != "localhost"))
        wait(terminal, lambda frame: silent(frame, *CUT, "range", "types", "stalls"))
        simulator.dead = frozenset(DYING)
        seen.frames["dead"] = wait(terminal, lambda frame: silent(frame, *DYING, *CUT, "range", "types", "stalls"))
        terminal.resize(160, LINES)
        seen.frames["wide"] = wait(terminal, lambda frame: "MODEL" in frame and silent(frame, *DYING, *CUT, "range", "types", "stalls"))
        simulator.dead = frozenset()
        seen.frames["sorted"] = press("s", lambda frame: "by activity" in frame)
        seen.frames["filtered"] = press("/floods\r", lambda frame: "only floods" in frame and "_" not in frame.split("\n")[0])
        seen.frames["depth"] = press("\r", lambda frame: "processor" in frame)
        press("\x1bssss", lambda frame: "by host" in frame)
        seen.frames["back"] = wait(terminal, lambda frame: all("no sample for" not in row(frame, name) for name in DYING))
        children = psutil.Process(terminal.process.pid).children(recursive=True)
        terminal.press("q")
        seen.code = terminal.ended()
        seen.frames["last"] = terminal.frames[-1].removesuffix("\x1b[?25h")
        seen.foreign = terminal.foreign
        seen.left = [child.name() for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
        until(lambda: not simulator.open)
        seen.connected = simulator.connections
    yield seen
    for name, frame in seen.frames.items():
        if keep := os.environ.get("GPUPROV_SCREENSHOTS"):
            (Path(keep) / f"fleet-{name}.ansi").write_text(frame)


@pytest.mark.parametrize(("name", "columns"), [("dead", 80), ("wide", 160)])
def test_every_host_has_a_line_and_no_line_is_too_long(seen: Seen, name: str, columns: int) -> None:
    lines = lines_of(seen.frames[name])
    assert len(lines) == LINES
    assert max(map(cell_len, lines)) <= columns
    assert [line.split()[0] for line in lines[2 : 2 + len(HOSTS)]] == sorted(
        HOSTS, key=lambda name: [*name.split("-")[:1], len(name), name]
    )
    assert lines[0] == "gpuprov monitor: 64 hosts, 13 silent, by host"


@pytest.mark.parametrize("name", ["dead", "wide"])
def test_who_is_silent_is_grey_with_the_age_of_its_last_sample_and_nobody_else_is(seen: Seen, name: str) -> None:
    frame = seen.frames[name]
    silent = {host for host in HOSTS if re.search(r"no sample for \d+ s", row(frame, host))}
    assert silent == {*DYING, *CUT, "range", "types", "stalls"}
    chosen = HOSTS[0]  # the row that is marked stands out in another way, too
    assert {host for host in HOSTS if DIM in row(frame, host) or (host == chosen and "\x1b[2;7m" in row(frame, host))} == silent


def test_the_dead_come_back_and_those_that_misbehave_do_not(seen: Seen) -> None:
    frame = seen.frames["back"]
    assert all(" sm " in row(frame, host) and DIM not in row(frame, host) for host in DYING[1:])
    assert all(seen.connected.count(host) >= 2 for host in DYING)
    assert seen.connected.count("good-0") == seen.connected.count("localhost") + 1 == 1


def test_who_lies_is_refused_with_the_reason_or_shown_as_unknown(seen: Seen) -> None:
    frame = seen.frames["wide"]
    assert "sent a sample that is" in row(frame, "range")
    assert "sent a sample that is" in row(frame, "types")
    assert re.search(r" \?/700 W|  \?  ", row(frame, "names"))
    assert "H�[2J�]0;owned��31m��" in row(frame, "names")


def test_nothing_of_a_host_is_obeyed_by_the_terminal(seen: Seen) -> None:
    assert seen.foreign == set()


def test_who_floods_is_cut_with_the_reason(seen: Seen) -> None:
    assert "sends more than sampl" in row(seen.frames["wide"], "floods")
    assert "sent a line of more" in row(seen.frames["wide"], "endless")
    assert "floods" in lines_of(seen.frames["depth"])[2]
    assert re.search(r"no sample for \d+ s: sends more than samples can be", seen.frames["depth"])


def test_keys_answer_while_hosts_flood(seen: Seen) -> None:
    shown = [line for line in seen.frames["sorted"].split("\n") if " sm " in line]
    active = [-1 if "no sample for" in line else int(line.partition(" sm ")[2].split()[0]) for line in shown]
    assert active == sorted(active, reverse=True)
    assert len(set(active)) > 2
    assert [line.split()[0] for line in lines_of(seen.frames["filtered"])[2:4] if line] == ["floods"]


def test_q_ends_it_and_nothing_runs_on(seen: Seen) -> None:
    assert (seen.code, seen.left) == (0, [])


def still(frame: str) -> list[str]:
    """The lines below the head, without what differs by nature: at which moment the age of a last sample was taken."""
    lines = frame[frame.index("gpuprov monitor:") :].split("\n")[1:]
    return [re.sub(r"no sample for \d+ s(: .{1,20})?.*", r"no sample for some time\1", line.rstrip()) for line in lines]


def test_a_replay_shows_the_same_screen_and_obeys_the_same_keys(seen: Seen, folder: Path) -> None:
    words = gpuprov("--replay", str(folder / "run.jsonl"))
    with Terminal.running(words, environment(folder), columns=160, lines=LINES) as terminal:
        first = wait(terminal, lambda frame: "of a recording" in frame)
        assert still(first) == still(seen.frames["last"])
        terminal.press("/floods\r\r")
        wait(terminal, lambda frame: "processor" in frame)
        terminal.press("q")
        assert terminal.ended() == 0


def test_a_reader_that_goes_away_ends_it_without_a_word_and_nothing_runs_on(tmp_path: Path) -> None:
    command = f"{' '.join(gpuprov('good-1', 'good-2', '--csv', '--interval', '0.5'))} | head -1; echo ${{PIPESTATUS[@]}}"
    with simulated(tmp_path / "bin", every_s=0.1) as simulator:
        done = subprocess.run(["bash", "-c", command], env=environment(tmp_path), capture_output=True, text=True, check=False)
        assert (done.stdout.partition(",")[0], done.stdout.splitlines()[1:], done.stderr) == ("at_s", ["141 0"], "")
        until(lambda: not simulator.open)
