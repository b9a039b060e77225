"""The roofline: peak over bandwidth, for what is known and nothing else."""

import math

import pytest
from msgspec.structs import replace

from provision.catalog import read, roofline


@pytest.mark.parametrize(("model", "precision", "threshold"), [("t4", "fp16", 203.1), ("h100", "bf16", 295.4), ("v100", "fp16", 138.9)])
def test_the_threshold_is_the_peak_over_the_bandwidth(model: str, precision: str, threshold: float) -> None:
    roof = next(r for r in roofline.roofs(read.gpu(model)) if r.precision == precision)
    assert roof.threshold == threshold


def test_memory_limits_below_the_threshold_and_arithmetic_above() -> None:
    for gpu in read.gpus().gpus:
        for roof in roofline.roofs(gpu):
            exact = 1000 * roof.peak_tflops / roof.bandwidth_gb_s
            assert math.isclose(roof.attainable_tflops(exact / 2), roof.peak_tflops / 2)
            assert roof.attainable_tflops(exact * 2) == roof.peak_tflops


def test_a_gpu_whose_bandwidth_is_not_known_has_no_roof() -> None:
    assert roofline.roofs(replace(read.gpu("p4"), bandwidth_gb_s=None)) == []


def test_a_short_name_means_all_of_its_kind() -> None:
    assert [g.model for g in roofline.models("a100")] == ["a100-40gb", "a100-80gb"]
    with pytest.raises(KeyError):
        roofline.models("a1")


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("Tesla T4", "t4"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 NVL", None),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA L4-12Q", None),
        ("NVIDIA RTX 4000 SFF Ada Generation", None),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
    ],
)
def test_nvmls_name_means_a_card_in_the_variant_of_the_catalog_alone(name: str, model: str | None) -> None:
    gpu = roofline.gpu_by_nvml_name(name)
    assert (gpu.model if gpu else None) == model


def test_a_point_is_under_the_roof_of_its_precision() -> None:
    roofs = roofline.roofs(read.gpu("t4"))
    assert roofline.attainable_tflops(roofs, roofline.Point("a sum", 1e6, 60.0, "fp16")) == read.gpu("t4").peaks["fp16"]
    assert roofline.attainable_tflops(roofs, roofline.Point("a copy", 1.0, 0.2)) == pytest.approx(0.32)
    assert roofline.attainable_tflops(roofs, roofline.Point("a sum", 1e6, 60.0, "fp8")) is None
