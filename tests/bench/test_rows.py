"""What `make bench` keeps of its rows, and what it calls a regression."""

import csv
from pathlib import Path

import pytest

from tests.bench import rows
from tests.bench.row import Row

ROW = "10 judge / parsing"


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
    assert shown(measured(9.0, "9 verify / ssh"), capsys) == []
    monkeypatch.setattr(rows, "machine", lambda: "elsewhere/64c")
    assert shown(measured(9.0), capsys) == []


def test_the_history_can_be_read(history: Path) -> None:
    rows.keep([measured(2.0)])
    [line] = csv.DictReader(history.read_text().splitlines())
    assert (line["row"], line["ratio"], line["machine"]) == (ROW, "2.00", rows.machine())
    assert line["commit"]
