"""What the checks of mig say to which facts: a case for each outcome that each can have; and what they leave to whole GPUs."""

from typing import Any

import pytest

from provision.verify.checks import CHECKS

from .. import good  # noqa: TID252 - the tests have no root package
from .table import Case, Text, gpu, table, texts, two

ASKED: dict[str, Any] = {
    "gpu__model": "h100",
    "gpu__application_clocks": "default",
    "gpu__mig": [{"slice": "3g.40gb", "count": 1}, {"slice": "1g.10gb", "count": 2}],
}
SPLIT = gpu(name="NVIDIA H100 80GB HBM3", mig=1, mig_pending=1, mig_slices="1g.10gb 1g.10gb 3g.40gb")
OTHER = {"mig": 1, "mig_pending": 1, "mig_slices": "7g.80gb"}
RIGHT = {"mig": 1, "mig_pending": 1, "mig_slices": "1g.10gb 1g.10gb 3g.40gb"}
UNIT = {"exists": True, "enabled": True, "active": True, "command": "/usr/local/lib/gpuprov/mig start"}
CASES: list[Case] = [
    ("mig-at-boot", {}, {}, "not-applicable", "whole GPUs"),
    ("mig-at-boot", {"mig_unit": UNIT}, ASKED, "pass", "enabled"),
    ("mig-at-boot", {"mig_unit": {**UNIT, "enabled": False}}, ASKED, "fail", "not enabled"),
    ("mig-at-boot", {}, ASKED, "fail", "there is no such unit"),
    ("mig-at-boot", {"mig_unit": None}, ASKED, "unknown", "no fact"),
    ("mig", {}, {}, "not-applicable", "whole GPUs"),
    ("mig", {"nvml": None}, {}, "not-applicable", "whole GPUs"),
    ("mig", gpu(mig=1, mig_slices="7g.80gb"), {}, "fail", "MIG is on on GPU 0"),
    ("mig", gpu(mig=0, mig_pending=1), {}, "fail", "=MIG is pending on GPU 0: the next reset or reboot splits it"),
    ("mig", gpu(mig=0, mig_pending=0), {}, "not-applicable", "whole GPUs"),
    (
        "mig",
        two(good.GOOD, {"mig": 1}, {"mig": 0, "mig_pending": 1}),
        {},
        "fail",
        "=MIG is on on GPU 0; MIG is pending on GPU 1: the next reset or reboot splits it",
    ),
    ("mig", SPLIT, ASKED, "pass", "=GPU 0: 2 x 1g.10gb, 1 x 3g.40gb; the unit did not run at this boot"),
    ("mig", SPLIT | {"mig_report": {"lines": ["0 ready"]}}, ASKED, "pass", "the unit reached: 0 ready"),
    ("mig", SPLIT | {"mig_report": None}, ASKED, "pass", "=GPU 0: 2 x 1g.10gb, 1 x 3g.40gb"),
    ("mig", SPLIT | gpu(mig_slices="1g.10gb 3g.40gb"), ASKED, "fail", "GPU 0: 1 x 1g.10gb, 1 x 3g.40gb"),
    ("mig", SPLIT | gpu(mig_slices=""), ASKED, "fail", "GPU 0: no slice"),
    ("mig", two(good.GOOD, RIGHT, OTHER), ASKED, "fail", "GPU 1: 1 x 7g.80gb"),
    ("mig", gpu(mig=0, mig_pending=1), ASKED, "fail", "MIG is off; it is pending, and takes a reboot"),
    ("mig", gpu(mig=0, mig_pending=0), ASKED, "fail", "GPU 0: MIG is off;"),
    ("mig", {}, ASKED, "fail", "this card or machine has no MIG"),
    ("mig", SPLIT | gpu(mig_slices={"unknown": "Insufficient Permissions"}), ASKED, "unknown", "Insufficient Permissions"),
    ("mig", gpu(mig={"unknown": "not read"}), ASKED, "unknown", "not read"),
    ("mig", {"gpu": good.NO_GPU}, ASKED, "unknown", "no NVIDIA GPU on this host"),
]
TEXTS: list[Text] = [
    ("mig", gpu(mig=0), ASKED, "each GPU split into 2 x 1g.10gb, 1 x 3g.40gb", "`gpuprov apply HOST --role mig`"),
    ("mig", gpu(mig=1), {}, "whole GPUs", "`gpuprov undo HOST --role mig`"),
    ("mig", two(good.GOOD, {"mig": 1}, {"mig": 1}), {}, "whole GPUs", "else `sudo nvidia-smi -i 0,1 -mig 0` while no program uses them"),
]
test_table = table(CASES)
test_texts = texts(TEXTS)
WHOLE = ("gemm", "memory-bandwidth", "host-copies", "all-reduce", "data-parallel", "amp", "triton", "nvlink")


@pytest.mark.parametrize("check", WHOLE)
def test_what_is_about_whole_gpus_says_nothing_of_split_ones_whatever_was_measured(check: str) -> None:
    found = good.finding(check, good.under_load(1, gemm__tflops=1), good.profile(**ASKED, verify__tier="perf"))
    assert (found.outcome, "split with MIG" in found.observed) == ("not-applicable", True)
    assert {each.id for each in CHECKS if each.whole_gpus} == set(WHOLE)


def test_a_process_sees_one_mig_device_of_two_gpus() -> None:
    nodes = {"gpu__nodes": ["/dev/nvidia0", "/dev/nvidia1"]}
    for check in ("pytorch", "nvcc-runs"):
        whole, split = (good.finding(check, good.facts(**nodes), good.profile(**asked)) for asked in ({}, ASKED | {"gpu__model": "t4"}))
        assert (whole.outcome, split.outcome) == ("fail", "pass"), split
    hidden = good.facts(variables__login={"CUDA_VISIBLE_DEVICES": "MIG-1"})
    assert good.finding("environment", hidden, good.profile(gpu__count=2)).outcome == "fail"
    assert good.finding("environment", hidden, good.profile(**ASKED, gpu__count=2)).outcome == "warn"
