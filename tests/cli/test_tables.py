"""Tables: aligned for people, as wide as there is room, and CSV that another program reads back."""

from __future__ import annotations

import csv
import io

import pytest

from provision.cli import catalog, tables
from provision.cli.tables import as_csv, table
from provision.workflow.catalog import CatalogTable, FromMemory
from tests.cli.conftest import Call

COLUMNS = ["gpu", "tflops", "note"]
ROWS: list[list[object]] = [["t4", 65.0, 'a, "b"'], ["v100", FromMemory(125.0), None], ["[bold]x[/]", None, "y" * 100]]


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int, made: CatalogTable) -> tuple[list[str], str]:
    monkeypatch.setattr(tables, "width_of", lambda _: width)
    catalog._print(made, as_json=False, as_csv=False)
    said = capsys.readouterr()
    return said.out.splitlines(), said.err


def test_numbers_stand_to_the_right_and_nothing_is_shortened_or_taken_for_markup(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (head, *rows), err = printed(monkeypatch, capsys, 400, CatalogTable(COLUMNS, ROWS, []))
    ends = {row.index(value) + len(value) for row, value in zip(rows, ("65", "~125", "?"), strict=True)}
    assert ends == {head.index("tflops") + len("tflops")}
    assert rows[2].startswith("[bold]x[/]")
    assert rows[2].endswith("y" * 100)
    assert err == ""


def test_what_has_no_room_is_left_out_by_name_and_the_first_column_never(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row: list[object] = ["gpu-with-a-name", "", 1.25, "us-east-1", 0.5264, "sentences that go on for a while"]
    made = CatalogTable(["type", "empty", "cores", "where", "USD/h", "note"], [row], [], spare=("where",))
    for width, titles in (
        (400, ["type", "empty", "cores", "where", "USD/h", "note"]),
        (72, ["type", "cores", "where", "USD/h", "note"]),
        (60, ["type", "cores", "USD/h", "note"]),
        (30, ["type", "cores", "USD/h"]),
        (20, ["type"]),
    ):
        (head, first, *_), err = printed(monkeypatch, capsys, width, made)
        assert head.split() == titles
        assert first.startswith("gpu-with-a-name")
        assert ("0.526 " in f"{first} ", len(first) <= width) == ("USD/h" in titles, True)
        left = [title for title in made.columns if title not in titles]
        assert err == (f"not shown for want of room: {', '.join(left)}; --csv and --json have all\n" if left else "")


@pytest.mark.parametrize("words", [("gpus",), ("instances", "--gpu", "t4"), ("precision",), ("systems",), ("stacks", "--gpu", "t4")])
def test_no_table_of_the_catalog_cuts_a_cell_on_80_columns(call: Call, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    monkeypatch.setattr(tables, "width_of", lambda _: 80)
    code, out, _ = call("catalog", *words)
    assert (code, "…" in out) == (0, False)
    assert max(map(len, out.splitlines())) <= 80


def test_csv_is_read_back_and_an_unknown_value_is_empty() -> None:
    text = as_csv(COLUMNS, [["t4", 65.0, 'a, "b"'], ["v100", None, "y"]])
    assert text.endswith("\n")
    assert list(csv.reader(io.StringIO(text))) == [COLUMNS, ["t4", "65.0", 'a, "b"'], ["v100", "", "y"]]


def test_a_table_without_rows_has_its_titles() -> None:
    assert table(COLUMNS, []) == "gpu  tflops  note"
