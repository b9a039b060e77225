"""The table of all_reduce_perf is believed where it is of what was asked, and agrees with itself."""

from __future__ import annotations

import pytest

from provision.verify.bench.nccl_tests import read

from .programs import NCCL, nccl


def changed(*pairs: tuple[str, str]) -> str:
    text = NCCL
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def test_the_figure_is_the_average_that_it_tells() -> None:
    figure = read(nccl())
    assert (figure.key, figure.value, figure.unit, figure.gpu) == ("nccl.all_reduce.2", 351.0, "GB/s", 0)
    assert figure.detail == {"right": True, "bytes": 1 << 30, "in_place_gb_s": 350.0, "version": "2.19.6"}


def test_the_words_of_nccl_and_an_older_table_are_no_obstacle() -> None:
    old = changed(
        ("# nccl-tests version 2.19.6 nccl-headers=22707 nccl-library=22707\n", "train-1:4711:4711 [0] NCCL INFO Bootstrap : Using eth0\n"),
        ("#  Rank  0 Group  0 Pid", "#   Rank  0 Pid"),
        ("#  Rank  1 Group  0 Pid", "#   Rank  1 Pid"),
        ("352.00       0 ", "352.00   4e-07 "),
    )
    figure = read(nccl(old))
    assert (figure.value, figure.detail["right"], figure.detail["version"]) == (351.0, True, "")


def test_a_wrong_sum_is_a_figure_that_is_wrong() -> None:
    wrong = changed(("350.00       0", "350.00      12"), ("values : 0 OK", "values : 1 FAILED"))
    assert read(nccl(wrong, code=1)).detail["right"] is False


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("", 0, "occurs 0 times"),
        (NCCL + NCCL, 0, "occurs 2 times"),
        (changed(("350.00       0", "350.00     N/A")), 0, "occurs 0 times"),
        (changed(("350.00       0", "nan       0")), 0, "occurs 0 times"),
        (changed(("#  Rank  1 Group", "#  Rank  0 Group")), 0, "2 of 2 GPUs"),
        (NCCL.replace(NCCL.splitlines(keepends=True)[6], ""), 0, "1 of 2 GPUs"),
        (changed(("1073741824     268435456", "  33554432       8388608")), 0, "it added up 33554432 bytes"),
        (changed(("bandwidth    : 351", "bandwidth    : 460")), 0, "contradict each other: 351 and 460"),
        (changed(("352.00  352.00", "352.00  616.00"), (": 351", ": 483")), 0, "contradict each other: 616 and 352"),
        (changed(("352.00  352.00", "  0.00    0.00"), ("350.00  350.00", "  0.00    0.00"), (": 351", ": 0")), 0, "contradict"),
        (NCCL, 3, "it ended with 3 and says 0 OK"),
        (changed(("values : 0 OK", "values : 1 FAILED")), 0, "it ended with 0 and says 1 FAILED"),
        (changed(("352.00       0 ", "352.00       7 ")), 0, "it ended with 0 and says 0 OK"),
    ],
)
def test_a_table_of_something_else_or_that_contradicts_itself_is_refused(text: str, code: int, said: str) -> None:
    with pytest.raises(ValueError, match=r"its|it ") as refused:
        read(nccl(text, code=code))
    assert said in str(refused.value)


def test_a_tool_that_was_asked_for_no_gpu_has_no_rate() -> None:
    none = "\n".join(line for line in NCCL.splitlines() if "Rank" not in line)
    with pytest.raises(ValueError, match="0 GPUs"):
        read(nccl(none, gpus=0))
