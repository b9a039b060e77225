"""Tables: aligned for people, whole when piped, and CSV that another program reads back."""

import csv
import io

from provision.report.table import as_csv, as_text

COLUMNS = ["gpu", "tflops", "note"]
ROWS: list[list[object]] = [["t4", 65.0, 'a, "b"'], ["v100", "~125", None], ["[bold]x[/]", None, "y" * 100]]


def test_numbers_stand_to_the_right_and_nothing_is_shortened_or_taken_for_markup() -> None:
    _, head, _, *rows = as_text(COLUMNS, ROWS).splitlines()
    ends = {row.index(value) + len(value) for row, value in zip(rows, ("65", "~125", "?"), strict=True)}
    assert ends == {head.index("tflops") + len("tflops")}
    assert rows[2].startswith(" [bold]x[/]")
    assert rows[2].endswith("y" * 100)


def test_csv_is_read_back_and_an_unknown_value_is_empty() -> None:
    text = as_csv(COLUMNS, ROWS)
    assert text.endswith("\n")
    assert list(csv.reader(io.StringIO(text))) == [COLUMNS, ["t4", "65.0", 'a, "b"'], ["v100", "~125", ""], ["[bold]x[/]", "", "y" * 100]]
