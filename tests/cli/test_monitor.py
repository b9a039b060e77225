"""`gpuprov monitor`: the words, what a pipe gets, and the screen on a real pseudo-terminal."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from provision.cli.screen import View
from provision.errors import HostUnreachableError
from provision.host.ssh import Target
from provision.watch import recording, stream
from provision.watch.recording import Recorder
from provision.watch.rows import ORDERS
from provision.watch.run import replay
from provision.watch.state import Watched, WatchedHost
from provision.watch.stream import Lost
from tests.cli.conftest import Call, Screen, plain
from tests.watch.samples import gpu, play_ssh, sample
from tests.watch.simulator import Simulator, path_with, simulated

SLOW = {"reasons": 0x40, "sm_mhz": 800, "temperature_c": 90}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPROV_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GPUPROV_SSH_CONFIG", str(tmp_path / "ssh_config"))
    monkeypatch.setattr(stream, "_BACK_OFF_S", (0.1,))


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts in the place of ssh, that behave as their name says."""
    monkeypatch.setenv("PATH", f"{play_ssh(tmp_path / 'bin', gpu(), gpu(uuid='GPU-2', **SLOW))}:{os.environ['PATH']}")


@contextlib.contextmanager
def until_idle(folder: Path) -> Iterator[tuple[Simulator, list[str]]]:
    """The words that watch for idleness, with hosts that behave as their name says and send ten samples a second."""
    with simulated(folder / "bin", every_s=0.1) as simulator, pytest.MonkeyPatch.context() as patch:
        simulator.dead = frozenset({"dead"})
        patch.setenv("PATH", path_with(folder / "bin"))
        yield simulator, ["monitor", "--interval", "0.5", "--until", "idle", "--idle-for", "1s"]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "r.jsonl"
    hosts = tuple(WatchedHost(Target(f"train-{number}", "")) for number in range(64))
    with path.open("w") as out:
        recorder = Recorder(out, hosts, 2.0)
        for at in (100.0, 102.0):
            for host in hosts:
                recorder.take(host.target.name, sample(gpu(), gpu(uuid="GPU-2", **SLOW), at=900.0 + at), at)
        for host in hosts[:8]:
            recorder.take(host.target.name, Lost(HostUnreachableError("it does not answer", hint="see it"), 1.0), 110.0)
    return path


@pytest.mark.usefixtures("hosts")
def test_once_prints_a_row_for_each_gpu_and_ends(call: Call) -> None:
    code, out, _ = call("monitor", "good-1", "good-2", "--once")
    assert code == 0
    assert [line.split()[:4] for line in out.splitlines()[1:]] == [
        ["good-1", "0", "sm", "87"],
        ["good-1", "1", "sm", "87"],
        ["good-2", "0", "sm", "87"],
        ["good-2", "1", "sm", "87"],
    ]
    assert out.count("hardware thermal slowdown") == 2


@pytest.mark.usefixtures("hosts")
def test_a_host_that_is_not_heard_is_in_the_table_and_in_the_exit_code(call: Call) -> None:
    code, out, _ = call("monitor", "good", "refused", "--once")
    assert code == 3
    assert "refused  " in out
    assert "good  " in out


@pytest.mark.usefixtures("hosts")
def test_json_is_a_line_for_each_sample_and_csv_a_row_for_each_gpu(call: Call) -> None:
    _, out, _ = call("monitor", "good", "--interval", "0.5", "--for", "1s", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["sample"]["number"] for line in lines] == list(range(len(lines)))
    assert lines[0]["sample"]["gpus"][0]["sm_active"] == 0.87
    _, out, _ = call("monitor", "good", "--once", "--csv")
    assert {row["gpu"] for row in csv.DictReader(out.splitlines())} == {"0", "1"}


@pytest.mark.usefixtures("hosts")
def test_what_was_recorded_is_replayed_and_becomes_a_page(call: Call, tmp_path: Path) -> None:
    file, html = tmp_path / "r", tmp_path / "r.html"
    _, live, _ = call("monitor", "good", "--once", "--record", str(file))
    code, again, _ = call("monitor", "--replay", str(file), "--html", str(html))
    # The power of the last moment is an average since the one before, in both.
    assert (code, again) == (0, live)
    assert "<h2><bdi>good</bdi>, GPU 0" in html.read_text()
    code, _, err = call("monitor", "good", "--once", "--record", str(file))
    assert (code, "--record writes a new file" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--once"], "no machine was launched from here"),
        (["h", "-p", "t4-train"], "give either hosts or --profile"),
        (["h", "--html", "x.html"], "--html needs a recording"),
        (["h", "--csv", "--json"], "two forms of the same"),
        (["h", "--prometheus", "nowhere"], "is not an address and port"),
        (["h", "--prometheus", "99999"], "is not an address and port"),
        (["h", "--for", "soon"], "is not a time"),
        (["--replay", "nothing"], "cannot read nothing"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_watched(call: Call, words: list[str], said: str) -> None:
    code, _, err = call("monitor", *words)
    assert (code, said in err, "hint: " in err) == (2, True, True), err


@pytest.mark.usefixtures("hosts")
@pytest.mark.parametrize("columns", [80, 160])
def test_the_screen_fits_shows_all_and_leaves_the_terminal_as_it_was(on_terminal: Screen, columns: int) -> None:
    code, screen = on_terminal(columns, "monitor", "good", "dies", "--interval", "0.5", "--for", "2s")
    assert code == 0
    assert "\x1b[?1049h" in screen
    assert "\x1b[?1049l" in screen  # the alternate screen is left
    text = plain(screen)
    assert "q quit" in text
    assert "sm 87 %" in text
    assert ("NVIDIA H100" in text) is (columns == 160)


# What each host shows, and what speaks against its idleness; `parked` only holds memory, which is not idle either.
SIGNS = {
    "idle": "",
    "kernels": "kernels",
    "thread": "kernels",
    "power": "power",
    "bus": "bus",
    "newcomer": "new-process",
    "untold": "missing",
    "vanished": "missing",
    "stalls": "missing",
    "dead": "missing",
    "cpu": "no-gpu",
    "parked": "",
}


def test_until_idle_does_not_end_while_one_sign_of_one_host_or_missing_data_speaks_against_it(call: Call, tmp_path: Path) -> None:
    with until_idle(tmp_path) as (_, words):
        code, _, err = call(*words, *SIGNS, "--for", "2.5s")
        verdicts = dict(line.split(": ", 1) for line in err.splitlines())
        said = {name: f"busy ({sign})" if sign else name for name, sign in SIGNS.items()}
        assert (code, verdicts) == (3, {**said, "parked": "parked: nothing runs, and memory is held by ada 7"})


def test_until_idle_ends_by_itself_when_the_last_host_has_become_idle(call: Call, tmp_path: Path) -> None:
    with until_idle(tmp_path) as (simulator, words):
        code, _, err = call(*words, "idle", "tires")
        assert (code, err.splitlines()) == (0, ["idle: idle", "tires: idle"])
        assert simulator.sent["tires"] > 15


def view_of(recorded: Path) -> tuple[Watched, float]:
    read = recording.read(recorded)
    watched = Watched(read.hosts)
    return watched, replay(read, watched.take)


@pytest.mark.parametrize("columns", [80, 160])
def test_64_hosts_fill_a_screen_and_no_line_is_too_long(recorded: Path, columns: int) -> None:
    watched, now = view_of(recorded)
    view = View()
    lines = view.draw(watched, now, columns, 40).plain.splitlines()
    assert len(lines) == 40
    assert max(map(cell_len, lines)) <= columns
    assert lines[0].startswith("gpuprov monitor: 64 hosts")
    assert re.match(r"train-0\s+0\s+sm 87 %", lines[2])
    assert "no sample for 8 s" in lines[2]


def test_keys_sort_filter_choose_and_show_one_host(recorded: Path) -> None:
    watched, now = view_of(recorded)
    view = View()

    def press(*keys: str) -> list[str]:
        for key in keys:
            view.press(key, view.names(watched, now))
        return view.draw(watched, now, 100, 40).plain.splitlines()

    press("s")
    assert ORDERS[view.order] == "activity"
    lines = press("/", "t", "r", "a", "i", "n", "-", "6", "3", "x", "\x7f", "\r")
    assert [line.split()[0] for line in lines[2:4]] == ["train-63", "train-63"]
    assert lines[4] == ""
    lines = press("\x1b[B", "\r")
    assert [line.split()[:2] for line in lines[2:4]] == [["train-63", "0"], ["train-63", "1"]]
    assert lines[5].startswith("train-63: processor")
    assert "GPU 0 ▇▇" in "\n".join(lines)
    press("\x1b")
    assert (view.depth, view.only, view.ended) == ("", "", False)
    press("q")
    assert view.ended


def test_rows_further_down_are_reached(recorded: Path) -> None:
    watched, now = view_of(recorded)
    view = View()
    for _ in range(200):
        view.press("j", view.names(watched, now))
    text = view.draw(watched, now, 100, 20)
    assert view.chosen == 127
    assert "train-63" in text.plain.splitlines()[-4]
