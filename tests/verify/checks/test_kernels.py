"""A product of CUTLASS's and a kernel of OpenCL's: what passes, and each way in which it does not."""

from typing import Any

from provision.verify.checks import kernels

from .. import good  # noqa: TID252 - the tests have no root package
from .table import Case, Text, table, texts

CUTLASS = {"stack__extras": ["cutlass"]}
OPENCL = {"stack__extras": ["opencl"]}
RAN = good.GOOD["cutlass"]["found"]["devices"][0]
DEVICE = good.GOOD["opencl"]["run"]["devices"][0]
NOT_RUN: dict[str, Any] = {"gpu": good.NO_GPU, "cutlass__found__step": "compile", "cutlass__found__gpus": [], "cutlass__found__devices": []}
NO_LOADER = {"loader": False, "platforms": [], "devices": [], "error": "libOpenCL.so.1: cannot open"}
PRODUCT = "nvcc compiles a product of CUTLASS's for sm_75, and it is right on every GPU"
KERNEL = "/etc/OpenCL/vendors/nvidia.icd names NVIDIA's library, and a kernel that OpenCL compiles computes on every GPU"


def stopped(step: str, code: int, said: str, **more: Any) -> dict[str, Any]:
    """A product that got no further than a step."""
    trial = {**good.GOOD["cutlass"]["found"], "release": "", "step": step, "code": code, "said": said, "built": [], "devices": []}
    return {"cutlass__found": {**trial, **more}}


CASES: list[Case] = [
    ("cutlass", {}, {}, "not-applicable", "does not ask for CUTLASS"),
    ("cutlass", {}, CUTLASS, "pass", "=CUTLASS 4.2.0: compiled for sm_75, right on every GPU (1)"),
    ("cutlass", {"cutlass__found": None}, CUTLASS, "fail", "=no headers of CUTLASS in any environment"),
    ("cutlass", {"cutlass": None}, CUTLASS, "unknown", "sent no fact"),
    ("cutlass", {"cutlass__found__devices": [{**RAN, "wrong": 1}]}, CUTLASS, "fail", "GPU 0: 1 of 32768 sums are wrong"),
    ("cutlass", {"cutlass__found__devices": [{**RAN, "sums": 0}]}, CUTLASS, "fail", "0 of 0 sums"),
    ("cutlass", {"cutlass__found__devices": [RAN, {**RAN, "error": "Error Internal"}]}, CUTLASS, "fail", "GPU 1: Error Internal"),
    ("cutlass", {"cutlass__found__devices": [{**RAN, "code": "sm_70"}]}, CUTLASS, "fail", "GPU 0 is sm_75, and code for sm_70 ran"),
    ("cutlass", {"cutlass__found__devices": []}, CUTLASS, "fail", "right on 0 of 1 GPUs"),
    ("cutlass", {"gpu__nodes": ["/dev/nvidia0", "/dev/nvidia1"]}, CUTLASS, "fail", "right on 1 of 2 GPUs"),
    ("cutlass", stopped("find", 0, ""), CUTLASS, "fail", "=no nvcc on PATH or in /usr/local/cuda/bin"),
    ("cutlass", stopped("list", 0, "", lists=["sm_80"]), CUTLASS, "fail", "=nvcc has no sm_75, only sm_80"),
    ("cutlass", stopped("compile", 1, "no cute.hpp"), CUTLASS, "fail", "=compile ended with 1: no cute.hpp"),
    ("cutlass", stopped("run", 126, "noexec", built=["sm_75"]), CUTLASS, "unknown", "=compiled, not run: run ended with 126: noexec"),
    ("cutlass", {"cutlass__found__error": "cudaErrorInsufficientDriver"}, CUTLASS, "fail", "got cudaErrorInsufficientDriver"),
    ("cutlass", NOT_RUN, CUTLASS, "unknown", "=compiled for sm_75, not run: no NVIDIA GPU"),
    ("opencl", {}, {}, "not-applicable", "does not ask for OpenCL"),
    ("opencl", {}, OPENCL, "pass", "=right on every GPU (1), Tesla T4"),
    ("opencl", {"opencl": None}, OPENCL, "unknown", "sent no fact"),
    ("opencl", {"opencl__named": {}}, OPENCL, "fail", "=no file in /etc/OpenCL/vendors names libnvidia-opencl.so"),
    (
        "opencl",
        {"opencl__named": {"/etc/OpenCL/vendors/mesa.icd": "libMesaOpenCL.so.1"}},
        OPENCL,
        "fail",
        "only /etc/OpenCL/vendors/mesa.icd",
    ),
    (
        "opencl",
        {"opencl__named": {"/etc/OpenCL/vendors/nvidia.icd": "/usr/lib/libnvidia-opencl.so.1"}},
        OPENCL,
        "pass",
        "right on every GPU (1)",
    ),
    ("opencl", {"opencl__named": {"/etc/OpenCL/vendors/nvidia.icd": ""}, "gpu": good.NO_GPU}, OPENCL, "fail", "no file in"),
    ("opencl", {"opencl__run": NO_LOADER}, OPENCL, "fail", "=no loader: libOpenCL.so.1: cannot open"),
    ("opencl", {"opencl__run": NO_LOADER, "gpu": good.NO_GPU}, OPENCL, "fail", "no loader"),
    ("opencl", {"gpu": good.NO_GPU, "opencl__libraries": []}, OPENCL, "unknown", "no NVIDIA GPU"),
    ("opencl", {"opencl__libraries": []}, OPENCL, "fail", "finds no libnvidia-opencl"),
    ("opencl", {"opencl__run": None, "opencl__code": -11}, OPENCL, "fail", "=the program ended with -11: without a word"),
    ("opencl", {"opencl__run__error": "clGetDeviceIDs: error -1"}, OPENCL, "fail", "=clGetDeviceIDs: error -1"),
    ("opencl", {"opencl__run__devices": []}, OPENCL, "fail", "the platforms are: NVIDIA CUDA"),
    ("opencl", {"opencl__run__devices": [], "opencl__run__platforms": []}, OPENCL, "fail", "the platforms are: none"),
    ("opencl", {"opencl__run__devices": [DEVICE, {**DEVICE, "wrong": 7}]}, OPENCL, "fail", "=Tesla T4 (1): 7 of 4096 sums are wrong"),
    ("opencl", {"opencl__run__devices": [{**DEVICE, "sums": 0}]}, OPENCL, "fail", "0 of 0 sums"),
    ("opencl", {"opencl__run__devices": [{**DEVICE, "error": "clBuildProgram: x"}]}, OPENCL, "fail", "=Tesla T4 (0): clBuildProgram: x"),
    ("opencl", {"gpu__nodes": ["/dev/nvidia0", "/dev/nvidia1"]}, OPENCL, "fail", "right on 1 of 2 GPUs"),
]
TEXTS: list[Text] = [
    ("cutlass", {"cutlass__found": None}, CUTLASS, PRODUCT, "--role extras"),
    ("cutlass", {"cutlass__found__devices": [{**RAN, "wrong": 1}]}, CUTLASS, PRODUCT, "gpu-health"),
    ("cutlass", NOT_RUN, {**CUTLASS, "gpu__model": "h100"}, PRODUCT.replace("75", "90"), "on a host with the GPU"),
    ("opencl", {"opencl__named": {}}, OPENCL, KERNEL, "--role extras"),
    ("opencl", {"opencl__run": NO_LOADER}, OPENCL, KERNEL, "--role extras"),
    ("opencl", {"opencl__libraries": []}, OPENCL, KERNEL, "in its own version"),
]
test_a_kernel_that_computes_on_every_gpu_passes_and_nothing_else = table(CASES)
test_it_says_what_it_expected_and_what_to_do = texts(TEXTS)


def test_both_need_a_gpu_are_of_tier_standard_and_are_put_right_by_the_optional_components() -> None:
    assert {(check.needs_gpu, check.tier, check.role) for check in kernels.CHECKS} == {(True, "standard", "extras")}
