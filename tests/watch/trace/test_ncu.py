"""ncu's table of one kernel, recorded on an H100, and what is read of it where columns are missing or wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.errors import FactsInvalidError
from provision.watch.trace.ncu import measures

TABLE = (Path(__file__).parents[2] / "data" / "traces" / "ncu.csv").read_text()


def test_the_recorded_product_of_matrices_is_at_the_roof_of_the_tensor_cores() -> None:
    (kernel,) = measures(TABLE.splitlines(), "t")
    assert (kernel.gpu, kernel.compute_capability) == ("NVIDIA H100 80GB HBM3", "9.0")
    # 2 x 4096 x 8192 x 8192 operations, as the program had them.
    assert kernel.seconds
    assert kernel.operations_s
    assert kernel.operations_s * kernel.seconds == 2 * 4096 * 8192 * 8192
    assert kernel.peak_operations_s == pytest.approx(756e12, rel=0.01)
    assert kernel.peak_bytes_s == pytest.approx(3.35e12, rel=0.01)
    assert kernel.intensity
    assert kernel.ridge
    assert kernel.intensity > kernel.ridge
    assert kernel.said == "computing is its roof, at 94 % of the peak; tensor cores are active 98 % of the time"


def row(**values: str) -> list[str]:
    columns = {"ID": "0", "Kernel Name": "k", "CC": "7.5", **values}
    return [",".join(f'"{text}"' for text in part) for part in (columns, [""] * len(columns), columns.values())]


def test_what_a_card_does_not_tell_is_unknown() -> None:
    (kernel,) = measures(row(), "t")
    assert (kernel.operations_s, kernel.ridge, kernel.tensor_percent) == (None, None, None)
    assert kernel.said == "ncu did not measure how busy it kept the card"


@pytest.mark.parametrize(
    ("busy", "memory", "said"),
    [
        ("20", "30", "it waits: neither computing"),
        ("20", "80", "memory is its roof"),
        ("61", "60", "computing is its roof"),
        ("x", "1", "did not measure"),
    ],
)
def test_the_nearer_peak_is_the_roof_if_it_is_near(busy: str, memory: str, said: str) -> None:
    names = {"sm__throughput.avg.pct_of_peak_sustained_elapsed": busy, "dram__throughput.avg.pct_of_peak_sustained_elapsed": memory}
    assert said in measures(row(**names), "t")[0].said


def test_a_kernel_without_tensor_operations_is_counted_by_its_other_ones() -> None:
    per_cycle = {f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum.per_cycle_elapsed": "100" for name in ("fadd", "fmul", "ffma")}
    clock = {
        "smsp__cycles_elapsed.avg.per_second": "1,000,000,000",
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": "1,000",
    }
    (kernel,) = measures(row(**per_cycle, **clock, **{"gpu__time_duration.sum": "1,000"}), "t")
    assert kernel.operations_s == pytest.approx(400e9)
    assert kernel.peak_operations_s == pytest.approx(2e12)


@pytest.mark.parametrize("text", ["", "==ERROR== ERR_NVGPUCTRPERM", '"a","b"', '"ID"\n""\n"\0"'])
def test_a_table_without_a_kernel_is_refused(text: str) -> None:
    with pytest.raises(FactsInvalidError) as refused:
        measures(text.splitlines(), "t")
    assert "ERR_NVGPUCTRPERM" in refused.value.hint
