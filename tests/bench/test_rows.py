"""What `make bench` keeps of its rows, what it calls a regression, what it says of aims, and how it counts phases."""

import argparse
import csv
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.bench import aims, beside, cost, phases, picture, rows
from tests.bench.phases import Event
from tests.bench.row import Row

ROW = "10 judge / parsing"
NAMES = (
    *("1 verify of one host, 80 ms / ssh true", "2 verify of one host, 0 ms / ssh true", "3 command to accepted, AWS / one signed call"),
    *("4 command to accepted, GCP / AWS", "5 ls of all regions, 80 ms / of one", "6 64 machines accepted, 100 ms / one"),
    *("7 first converge less apt and pip / one Ansible", "8 apply where all holds, 0 ms / ssh true"),
    *("8 apply where all holds, 40 ms / ssh true", "9 verify of 64 hosts, a host / its ssh", "9 verify of 64 hosts, all / one", ROW),
)


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A history of this machine's that begins with its header alone."""
    file = tmp_path / "history.csv"
    file.write_text(rows.HISTORY.read_text().splitlines()[0] + "\n")
    monkeypatch.setattr(rows, "HISTORY", file)
    return file


def measured(ratio: float, name: str = ROW) -> Row:
    return Row(name, ratio, 1.0, ratio)


def shown(row: Row, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    rows.show([row])
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("REGRESSION")]


@pytest.mark.usefixtures("history")
def test_a_ratio_that_grew_by_more_than_15_per_cent_is_a_regression(capsys: pytest.CaptureFixture[str]) -> None:
    rows.keep([measured(2.0)])
    assert shown(measured(2.28), capsys) == []
    assert shown(measured(2.32), capsys) == [f"REGRESSION {ROW}: 2.00 -> 2.32 x the floor"]


@pytest.mark.usefixtures("history")
def test_a_slower_machine_is_not_a_regression(capsys: pytest.CaptureFixture[str]) -> None:
    rows.keep([measured(2.0)])
    assert shown(Row(ROW, 20.0, 10.0, 2.0), capsys) == []


@pytest.mark.usefixtures("history")
def test_the_last_line_of_a_row_counts(capsys: pytest.CaptureFixture[str]) -> None:
    rows.keep([measured(2.0)])
    rows.keep([measured(1.0)])
    assert shown(measured(1.2), capsys) == [f"REGRESSION {ROW}: 1.00 -> 1.20 x the floor"]


@pytest.mark.usefixtures("history")
def test_another_row_and_another_machine_do_not_count(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rows.keep([measured(1.0)])
    assert shown(measured(9.0, "9 verify of 64 hosts, a host / its ssh"), capsys) == []
    monkeypatch.setattr(rows, "machine", lambda: "elsewhere/64c")
    assert shown(measured(9.0), capsys) == []


def test_the_history_can_be_read(history: Path) -> None:
    rows.keep([Row(ROW, 2.0, 1.0, 2.0, wall_s=2.5, client_cpu_s=1.25)])
    [line] = csv.DictReader(history.read_text().splitlines())
    assert (line["row"], line["ratio"], line["machine"]) == (ROW, "2.00", rows.machine())
    assert (line["wall_s"], line["client_cpu_s"], line["hosts_cpu_s"]) == ("2.500", "1.250", "")
    assert line["commit"]


def test_a_history_of_fewer_columns_can_be_read(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history.write_text(f'date,commit,machine,row,figure,floor,ratio,unit\n2026-11-24,abc,"{rows.machine()}",{ROW},1,1,1.00,s\n')
    assert shown(measured(1.2), capsys) == [f"REGRESSION {ROW}: 1.00 -> 1.20 x the floor"]


def test_each_row_has_one_aim() -> None:
    said = [aims.aim_of(measured(1.0, name)) for name in NAMES]
    assert sorted(aim.row for aim in said) == sorted(aim.row for aim in aims.AIMS)


@pytest.mark.parametrize(
    ("row", "reached"),
    [
        (Row(NAMES[1], 0.50, 0.25, 2.19), True),  # a multiple of the floor: by the ratio
        (Row(NAMES[1], 0.50, 0.25, 2.21), False),
        (Row(NAMES[2], 0.88, 0.10, 8.80), True),  # a figure of the same machine: 0.75 x 1.18 s
        (Row(NAMES[2], 0.89, 0.50, 1.78), False),
        (Row(NAMES[10], 60.0 + 126, 60.0, 3.1, "MB"), True),  # 2 MB for each of 63 more
        (Row(NAMES[10], 60.0 + 127, 60.0, 3.1, "MB"), False),
    ],
)
def test_an_aim_is_a_multiple_of_the_floor_or_a_figure(row: Row, reached: bool) -> None:  # noqa: FBT001 - a case
    assert aims.aim_of(row).reached(row) is reached


@pytest.mark.usefixtures("history")
def test_the_table_says_then_now_aim_costs_and_whose_floor_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    row = Row(NAMES[0], 1.2, 0.9, 1.33, wall_s=1.2, client_cpu_s=0.55, hosts_cpu_s=0.31)
    other = beside.Peer(1, "testinfra", 6.0)
    absent = beside.Peer(1, "ansible", None, "it is not there")
    rows.show([row], [other, absent, beside.Peer(3, "ray up", 3.0)])
    said = capsys.readouterr().out
    assert all(word in said for word in ("1.83 s", "1.200 s", "<= 1.5 x ssh", "reached", "0.55", "0.31", "its floor is in OpenSSH"))
    assert "5.0 x ours" in said
    assert "left out: it is not there" in said
    assert "ray up" not in said
    assert "before the rows were worked on" in said


def test_rows_are_named_by_their_numbers() -> None:
    assert rows.row_numbers("3,1,10,3") == [1, 3, 10]
    for text in ("x", "0", "11", "", "1,", "1-3"):
        with pytest.raises(argparse.ArgumentTypeError, match="1 to 10"):
            rows.row_numbers(text)


@pytest.mark.usefixtures("history")
def test_a_peer_stands_under_the_row_that_it_was_measured_as(capsys: pytest.CaptureFixture[str]) -> None:
    """Its CPU is not shown as megabytes, nor its time near by as that far away."""
    cpu, memory = (Row(name, 90.0, 70.0, 1.28, unit) for name, unit in (("9 verify of 64 hosts, a host", "CPU ms"), (NAMES[10], "MB")))
    assert cpu.number == memory.number
    rows.show([cpu, memory], [beside.Peer(9, "testinfra", 360.0)])
    assert [line.split() for line in capsys.readouterr().out.splitlines() if "testinfra" in line] == [
        ["testinfra", "360.00", "CPU", "ms", "4.0", "x", "ours"]
    ]


def events(*lines: tuple[str, str, int, float, float]) -> list[Event]:
    return [Event(phase, sign == "+", thread, at, cpu_s) for phase, sign, thread, at, cpu_s in lines]


def test_waiting_is_what_is_left_when_no_thread_computes() -> None:
    seen = events(
        ("begin", "+", 1, 10.1, 0.05),
        ("wait", "+", 2, 10.1, 0.0),  # another thread waits all the time
        ("import", "+", 1, 10.2, 0.1),
        ("import", "-", 1, 10.5, 0.4),
        ("wait", "-", 2, 10.9, 0.0),
        ("end", "+", 1, 10.95, 0.5),
    )
    took = phases.by_wall(seen, [], 10.0, 11.0)
    assert took == pytest.approx({"python": 0.15, "import": 0.3, "wait": 0.5, "rest": 0.05})


def test_connect_lasts_from_the_start_of_ssh_until_ssh_says_that_it_is_in() -> None:
    seen = events(
        ("begin", "+", 1, 0.0, 0.0),
        ("ssh", "+", 1, 0.1, 0.0),
        ("parse", "+", 1, 0.1, 0.0),
        ("parse", "-", 1, 0.2, 0.1),
        ("wait", "+", 1, 0.2, 0.1),
        ("wait", "-", 1, 1.0, 0.1),
    )
    assert phases.by_wall(seen, [0.6], 0.0, 1.0) == pytest.approx({"parse": 0.1, "connect": 0.4, "wait": 0.4, "rest": 0.1})


def test_what_was_cut_off_lasts_to_the_end_of_the_run() -> None:
    seen = events(("begin", "+", 1, 0.0, 0.0), ("sdk", "+", 1, 0.25, 0.2), ("wait", "+", 1, 0.5, 0.4))
    assert phases.by_wall(seen, [], 0.0, 1.0) == pytest.approx({"sdk": 0.25, "wait": 0.5, "rest": 0.25})


def test_cpu_belongs_to_the_innermost_phase_and_the_rest_to_ssh() -> None:
    seen = events(
        ("begin", "+", 1, 0.0, 0.02),
        ("parse", "+", 1, 0.1, 0.1),
        ("import", "+", 1, 0.2, 0.2),
        ("import", "-", 1, 0.5, 0.5),
        ("parse", "-", 1, 0.6, 0.6),
        ("end", "+", 1, 0.7, 0.7),
    )
    took = phases.by_cpu(seen, cost.Cost(1.0, 1.0))
    assert took == pytest.approx({"python": 0.02, "parse": 0.2, "import": 0.3, "rest": 0.18, "ssh": 0.3})


def test_a_watched_command_is_the_same_command(tmp_path: Path) -> None:
    """Its output and its code are those of `python -m provision`, and its phases are the run."""
    facts = Path(__file__).parents[1] / "data/facts/h100-root.json"
    words = ["verify", "--facts", str(facts), "--profile", "t4-train", "--tier", "quick", "--all"]  # a short report takes no time to print
    watch = phases.Watched(tmp_path, os.environ)
    plain = subprocess.run([sys.executable, "-m", "provision", *words], capture_output=True, text=True, check=False)
    done: list[subprocess.CompletedProcess[str]] = []
    began, ended = phases.timed(
        lambda: done.append(subprocess.run([*watch.prefix, *words], env=watch.environment, capture_output=True, text=True, check=False))
    )
    assert (done[0].returncode, done[0].stdout) == (plain.returncode, plain.stdout)
    took = phases.by_wall(watch.events(), watch.connections(), began, ended)
    assert set(took) >= {"python", "import", "parse", "judge", "print"}
    assert sum(took.values()) == pytest.approx(ended - began, abs=0.01)  # what is too short to draw is left out


def test_every_boundary_is_there(tmp_path: Path) -> None:
    """A function that was renamed would leave its phase empty, and nobody would see it."""
    code = "import importlib; from tests.bench import traced\n"
    code += "for name in traced.BOUNDARIES: importlib.import_module(name); traced.replace(name)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2], env={**os.environ, "TMPDIR": str(tmp_path)})


def test_the_picture_has_a_bar_for_each_row_and_says_whose_floor_it_is(tmp_path: Path) -> None:
    drawn = [
        Row(name, 2.0, 1.0, 2.0, phases={"import": 1.0, "wait": 1.0}) if name != NAMES[10] else Row(name, 80.0, 60.0, 1.3, "MB")
        for name in NAMES
    ]
    picture.draw(drawn, tmp_path / "rows.svg")
    svg = ET.parse(tmp_path / "rows.svg")  # noqa: S314 - ours
    words = ["".join(text.itertext()) for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    for name in NAMES:
        assert any(word.startswith(name.partition(" / ")[0]) for word in words) is (name != NAMES[10])
    assert sum("in OpenSSH, not in gpuprov" in word for word in words) == 5
    assert sum("in Ansible, not in gpuprov" in word for word in words) == 1


def test_a_peer_that_is_not_there_is_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TESTINFRA", raising=False)

    def broken() -> None:
        raise FileNotFoundError(2, "No such file", "ray")

    [good, bad, absent] = beside.measured(1, {"good": lambda: None, "bad": broken}, lambda took: took.wall_s, runs=1)
    assert good.figure is not None
    assert (bad.figure, "No such file" in bad.note) == (None, True)
    assert (absent.who, absent.figure) == ("testinfra", None)
