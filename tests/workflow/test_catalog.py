"""The tables of the catalog as data; as text, JSON and CSV: tests/cli/test_catalog.py."""

from __future__ import annotations

import pytest

from provision.catalog import read
from provision.errors import UsageError
from provision.workflow import catalog
from provision.workflow.catalog import FromMemory


def test_a_figure_without_a_source_is_marked_where_people_see_it_and_nowhere_else() -> None:
    table = catalog.instance_table(catalog.find_gpus("t4"), cloud="aws", region="us-east-1", max_price=None, sort="price")
    marks = [row[table.columns.index("USD/h")] for row in table.rows]
    assert any(isinstance(mark, FromMemory) for mark in marks)
    assert not any(isinstance(mark, FromMemory) for mark in marks[:1])
    assert "FromMemory" not in repr(table.data)


def test_rows_have_a_cell_for_each_column() -> None:
    tables = [catalog.gpu_table(), catalog.precision_table(), catalog.roofline_of(["t4"], [], None).table]
    for table in tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_every_card_has_a_line_of_its_tensor_cores_and_one_of_its_cuda_cores() -> None:
    table = catalog.precision_table()
    at = {title: number for number, title in enumerate(table.columns)}
    for model in (gpu.model for gpu in read.gpus().gpus):
        lines = [row for row in table.rows if model in str(row[at["GPUs"]]).split(", ")]
        assert [row[at["cores"]] for row in lines] == ["tensor", "CUDA"]
        tensor, cuda = lines
        assert (tensor[at["fp32"]], cuda[at["fp32"]]) == ("-", "1")
        assert all(cell not in {"", None} for row in lines for cell in row)
    t4 = next(row for row in table.rows if row[at["GPUs"]] == "t4, t4g" and row[at["cores"]] == "CUDA")
    assert [t4[at[name]] for name in ("fp16", "int8", "tf32")] == ["2", "yes", "-"]
    assert "TF32" in table.note


def test_a_word_means_a_model_or_all_that_begin_with_it() -> None:
    assert [gpu.model for gpu in catalog.find_gpus("t4")] == ["t4"]
    assert len(catalog.find_gpus("a100")) > 1
    with pytest.raises(UsageError, match="no GPU called") as caught:
        catalog.find_gpus("h1000")
    assert "did you mean h100" in caught.value.hint
