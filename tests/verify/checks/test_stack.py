"""What the checks of stack say to which facts: a case for each outcome that each can have."""

from typing import Any

from provision.verify.checks import stack

from .. import good  # noqa: TID252 - the tests have no root package
from .table import Case, Text, table, texts

CV = {"stack__opencv": "cuda"}
NET = {"off": 1e-7, "total": 60228.0, "fell_back": ""}
SEEN: dict[str, Any] = {"sum": 504, "dnn": NET, "decode": {"left": 60.0, "right": 180.0}}
CV_FOUND = {"version": "4.12.0", "sum": 504, "cuda": True, "cudnn": True, "arch_list": ["75"], "devices": []}
CV_EXPECTED = "OpenCV resizes an image, runs a network with cuDNN and decodes a frame correctly on every GPU"
NO_CUDNN = {**CV, "stack__cudnn": "none"}
MIG = {"gpu__model": "h100", "gpu__application_clocks": "default", "gpu__mig": [{"slice": "1g.10gb", "count": 7}]}
# An image with a PyTorch of its own, and a host where it is gone.
IMAGE = {"stack__python": {"prefix": "/opt/x"}}
GONE = {"pytorch": {"found": None, "home": "/opt/x"}}
JAX = {"stack__frameworks": {"jax": "0.12.0.1"}}
FRAMEWORK = good.GOOD["pytorch"]["found"]
SESSIONS = {"code": 187, "said": "[h264_nvenc @ 0x5] OpenEncodeSessionEx failed: out of memory (10): (no details)"}
LOCAL = {"pytorch__found__version": "2.13.0+cu130"}
DEVICE = FRAMEWORK["devices"][0]
RAN = good.GOOD["nvcc_runs"]["devices"][0]
NOT_RUN: dict[str, Any] = {"gpu": good.NO_GPU, "nvcc_runs__step": "compile", "nvcc_runs__gpus": [], "nvcc_runs__devices": []}
COMPILES = "nvcc compiles a kernel for sm_75, and it computes the right sum on every GPU"


def stopped(step: str, code: int, said: str) -> dict[str, Any]:
    """An nvcc that got no further than a step."""
    return {"nvcc_runs": {**good.GOOD["nvcc_runs"], "step": step, "code": code, "said": said, "built": [], "devices": []}}


COMPUTES = "PyTorch in /opt/gpuprov/venvs, computing on every GPU"
TENSORRT = {"extras__environments__pytorch__tensorrt-cu13-bindings": "11.3.0.99", "extras__nvinfer": "11.3.0"}
CASES: list[Case] = [
    ("nvcc", {}, {}, "pass", "13.0"),
    ("nvcc", {"nvcc__found": None}, {}, "fail", "no nvcc"),
    ("nvcc", {}, {"stack__cuda": "12.9"}, "fail", "13.0"),
    ("nvcc", {"nvcc": {"unknown": "broken"}}, {}, "unknown", "broken"),
    ("cudnn", {}, {}, "pass", "9.19.0"),
    ("cudnn", {"cudnn__library": 8907, "cudnn__header": "8.9.7"}, {}, "pass", "8.9.7"),
    ("cudnn", {"cudnn__library": None}, {}, "fail", "header: 9.19.0"),
    ("cudnn", {"cudnn__header": "9.1.0"}, {}, "warn", ""),
    ("cudnn", {}, {"stack__cudnn": "9.1"}, "fail", ""),
    ("cudnn", {}, {"stack__cudnn": "9.19"}, "pass", ""),
    ("cudnn", {"cudnn": None}, {}, "unknown", ""),
    ("cudnn", {}, {"stack__cudnn": "none"}, "not-applicable", ""),
    ("nvcc", {"nvcc__found__link": ""}, {}, "fail", "/usr/local/cuda is not there"),
    ("cupti", {}, {}, "pass", "130001"),
    ("cupti", {"cupti__version": None}, {}, "fail", "files: 1"),
    ("cupti", {"cupti__version": None, "cupti__files": []}, {}, "fail", "files: 0"),
    ("cupti", {"cupti": {"unknown": "timed out"}}, {}, "unknown", ""),
    ("profilers", {}, {}, "pass", "nsys 2025.6.3"),
    ("profilers", {"profilers__nsys": None}, {}, "fail", "nsys not installed"),
    ("profilers", {"profilers__ncu": "unreadable: x"}, {}, "unknown", ""),
    ("profilers", {}, {"stack__profilers": []}, "not-applicable", ""),
    ("pytorch-installed", {"gpu": good.NO_GPU}, {}, "pass", "kernels for sm_75"),
    ("pytorch-installed", {"pytorch__found": None}, {}, "fail", "no environment"),
    ("pytorch-installed", {"pytorch__found": {**FRAMEWORK, "cuda": None}}, {}, "fail", "processors only"),
    ("pytorch-installed", {"pytorch__found": {**FRAMEWORK, "arch_list": ["sm_70"]}}, {}, "pass", ""),
    ("pytorch-installed", {"pytorch__found": {**FRAMEWORK, "arch_list": ["sm_80", "sm_90"]}}, {}, "fail", "kernels for sm_80, sm_90"),
    ("pytorch-installed", {}, {"stack__frameworks": {"pytorch": "2.12.0"}}, "fail", "2.13.0"),
    ("pytorch-installed", {"pytorch": None}, {}, "unknown", ""),
    ("pytorch-installed", {}, {"stack__frameworks": {}}, "not-applicable", ""),
    ("tensorflow-installed", {}, {}, "not-applicable", ""),
    ("tensorflow-installed", {}, {"stack__frameworks": {"tensorflow": "auto"}}, "fail", "no environment"),
    ("pytorch", {}, {}, "pass", "right on every GPU (1)"),
    ("pytorch", {"pytorch__home": "/opt/pytorch"}, {"stack__python": {"prefix": "/opt/pytorch"}}, "pass", "right on every GPU (1)"),
    ("pytorch", {"pytorch__home": ""}, {"stack__python": {"prefix": "/opt/pytorch"}}, "unknown", "the facts are of another environment"),
    ("pytorch", {"pytorch__home": "/opt/conda"}, {"stack__python": {"prefix": "/opt/pytorch"}}, "unknown", "the facts are of /opt/conda"),
    ("pytorch-installed", {"pytorch__home": "/opt/conda"}, IMAGE, "unknown", "the facts are of /opt/conda"),
    ("pytorch-installed", GONE, IMAGE, "fail", "no environment for PyTorch"),
    ("pytorch", {"pytorch__found": None}, {}, "fail", "no environment"),
    ("pytorch", {"pytorch__found": {"error": "ModuleNotFoundError"}}, {}, "fail", "ModuleNotFoundError"),
    ("pytorch", {"pytorch__found": {**FRAMEWORK, "cuda": None}}, {}, "fail", "processors only"),
    ("pytorch", {"pytorch__found": {**FRAMEWORK, "arch_list": ["sm_80"]}}, {}, "fail", "no kernels for sm_75"),
    ("pytorch", {"pytorch__found": {**FRAMEWORK, "devices": [{"capability": "sm_75", "product": 1.0}]}}, {}, "fail", "computed 1.0"),
    ("pytorch", {"pytorch__found": {**FRAMEWORK, "devices": []}}, {}, "fail", "0 of 1"),
    (
        "pytorch",
        {"pytorch__found": {**FRAMEWORK, "devices": [], "said": "Error 804: x"}},
        {},
        "fail",
        "computed on 0 of 1 GPUs: Error 804: x",
    ),
    ("pytorch", {}, {"stack__frameworks": {"pytorch": "2.12.0"}}, "fail", "2.13.0"),
    ("pytorch", {"pytorch": {"unknown": "python did not end within 45 s"}}, {}, "unknown", "45 s"),
    ("pytorch", {}, {"stack__frameworks": {}}, "not-applicable", ""),
    ("tensorflow", {}, {}, "not-applicable", ""),
    ("tensorflow", {}, {"stack__frameworks": {"tensorflow": "auto"}}, "fail", "no environment"),
    (
        "tensorflow",
        {"tensorflow__found": {"version": "2.21.0", "cuda": "12.5", "devices": [{"product": 256.0**3}]}},
        {"stack__frameworks": {"tensorflow": "auto"}},
        "pass",
        "",
    ),
    ("jax-installed", {}, {}, "not-applicable", ""),
    ("jax-installed", {}, {"stack__frameworks": {"jax": "auto"}}, "fail", "no environment"),
    ("jax-installed", {"gpu": good.NO_GPU, "jax__found": {"version": "0.12.0.1", "cuda": "12.9"}}, JAX, "pass", "0.12.0.1"),
    ("jax-installed", {"jax__found": {"version": "0.12.0.1", "cuda": None}}, JAX, "fail", "processors only"),
    ("jax-installed", {"jax": None}, JAX, "unknown", ""),
    ("jax", {}, {}, "not-applicable", ""),
    (
        "jax",
        {"jax__found": {"version": "0.12.0.1", "cuda": "12.9", "devices": [{"product": 256.0**3}]}},
        JAX,
        "pass",
        "right on every GPU (1)",
    ),
    ("jax", {"jax__found": {"version": "0.12.0.1", "cuda": "12.9", "devices": []}}, JAX, "fail", "0 of 1"),
    ("jax", {"gpu": good.NO_GPU}, JAX, "unknown", "no NVIDIA GPU"),
    ("extras", {}, {}, "not-applicable", ""),
    ("extras", {"gpu": good.NO_GPU}, {"stack__extras": ["nvtx", "triton", "dcgm"]}, "pass", "DCGM 4.5.2"),
    ("extras", {}, {"stack__extras": ["dali"]}, "fail", "DALI not installed"),
    ("extras", {"extras__environments__pytorch__nvtx": "0.2.10"}, {"stack__extras": ["nvtx"]}, "fail", "0.2.10"),
    ("extras", {"extras__dcgm": None}, {"stack__extras": ["dcgm"]}, "fail", "DCGM not installed"),
    ("extras", {}, {"stack__extras": ["opencl"]}, "not-applicable", "no optional components"),
    ("extras", {}, {"stack__extras": ["nvtx", "opencl"]}, "pass", "=NVTX for Python 0.2.17"),
    ("extras", {"extras__dcgm": "3.3.6"}, {"stack__extras": ["dcgm"]}, "fail", "3.3.6"),
    ("extras", {"extras__environments": {"opencv": {"nvtx": "0.2.17"}}}, {"stack__extras": ["nvtx"]}, "fail", "not installed"),
    ("extras", {"extras": None}, {"stack__extras": ["nvtx"]}, "unknown", ""),
    ("extras", TENSORRT, {"stack__extras": ["tensorrt"]}, "pass", "TensorRT 11.3.0.99 with the library 11.3.0"),
    (
        "extras",
        {**TENSORRT, "extras__environments__pytorch__tensorrt-cu13-bindings": "11.4.0.106"},
        {"stack__extras": ["tensorrt"]},
        "fail",
        "TensorRT 11.4.0.106",
    ),
    ("extras", {**TENSORRT, "extras__nvinfer": "11.4.0"}, {"stack__extras": ["tensorrt"]}, "fail", "with the library 11.4.0"),
    ("extras", {**TENSORRT, "extras__nvinfer": None}, {"stack__extras": ["tensorrt"]}, "fail", "with the library not installed"),
    ("extras", {"extras__nvinfer": "11.3.0"}, {"stack__extras": ["tensorrt"]}, "fail", "TensorRT not installed"),
    (
        "extras",
        {"extras__environments__pytorch__tensorrt-cu12-bindings": "10.4.0", "extras__nvinfer": "10.4.0"},
        {"stack__extras": ["tensorrt"]},
        "pass",
        "TensorRT 10.4.0",
    ),
    (
        "extras",
        {"extras__environments__pytorch__flash-attn": "2.8.3.post2"},
        {"gpu__model": "h100", "gpu__application_clocks": "max", "stack__extras": ["flash-attn"]},
        "pass",
        "FlashAttention 2.8.3.post2",
    ),
    (
        "extras",
        {},
        {"gpu__model": "h100", "gpu__application_clocks": "max", "stack__extras": ["transformer-engine"]},
        "fail",
        "Transformer Engine not installed",
    ),
    ("tensorflow", {"tensorflow": None}, {"stack__frameworks": {"tensorflow": "auto"}}, "unknown", ""),
    ("nvenc", {}, {}, "pass", "a frame was encoded"),
    ("nvenc", {"encoders__nvenc": []}, {}, "fail", "built without NVENC"),
    ("nvenc", {"encoders__nvenc": None}, {}, "fail", "no ffmpeg"),
    ("nvenc", {"encoders__encode": None}, {}, "unknown", "no encode was tried"),
    ("nvenc", {"encoders__encode": SESSIONS}, {}, "warn", "out of memory (10)"),
    ("nvenc", {"encoders__encode": {"code": 1, "said": "Cannot load libnvidia-encode.so.1"}}, {}, "fail", "libnvidia-encode.so.1"),
    ("nvenc", {"encoders__encode": {"code": 1, "said": "No capable devices found"}}, {}, "fail", "No capable devices"),
    ("nvenc", {"encoders__encode": {"code": 139, "said": ""}}, {}, "fail", "ended with 139"),
    ("nvenc", {"encoders": None}, {}, "unknown", ""),
    ("nvenc", {"gpu": good.NO_GPU}, {}, "unknown", "no NVIDIA GPU"),
    ("nvenc", {}, {"gpu__model": "b300"}, "not-applicable", "B300 has no NVENC"),
    ("nvenc", {}, {"stack__ffmpeg": False}, "not-applicable", "ffmpeg"),
    ("nvenc", {}, {"gpu__model": "h100"}, "not-applicable", "H100 has no NVENC"),
    ("opencv", {}, {}, "pass", "4.12.0, without CUDA"),
    ("opencv", {"opencv__found": None}, {}, "fail", "no such environment"),
    ("opencv", {"opencv__found": {"error": "ImportError: libGL"}}, {}, "fail", "libGL"),
    ("opencv", {"opencv__found__sum": 0}, {}, "fail", "the sum is 0"),
    ("opencv", {}, {"stack__opencv": "none"}, "not-applicable", ""),
    ("opencv", {"opencv": {"unknown": "x"}}, {}, "unknown", ""),
    ("opencv", {}, CV, "fail", "4.12.0, without CUDA"),
    ("opencv", {"gpu": good.NO_GPU, "opencv__found": CV_FOUND}, CV, "pass", "with CUDA and cuDNN for sm_75"),
    ("opencv", {"opencv__found": {**CV_FOUND, "arch_list": ["80"]}}, CV, "fail", "with CUDA and cuDNN for sm_80"),
    ("opencv", {"opencv__found": {**CV_FOUND, "arch_list": []}}, CV, "fail", "with CUDA"),
    ("opencv", {"opencv__found": {**CV_FOUND, "cuda": False, "arch_list": []}}, CV, "fail", "without CUDA"),
    ("opencv", {"opencv__found": CV_FOUND}, {}, "pass", "with CUDA"),
    ("opencv-cuda", {}, {}, "not-applicable", ""),
    ("opencv-cuda", {"opencv__found": {**CV_FOUND, "devices": [SEEN]}}, CV, "pass", "right on every GPU (1)"),
    ("opencv-cuda", {"opencv__found": {**CV_FOUND, "devices": [{"sum": 0}]}}, CV, "fail", "the sum is 0"),
    ("opencv-cuda", {"opencv__found": {**CV_FOUND, "devices": [{"error": "no kernel image"}]}}, CV, "fail", "no kernel image"),
    ("opencv-cuda", {"opencv__found": CV_FOUND}, CV, "fail", "used 0 of 1"),
    *[
        ("opencv-cuda", {"opencv__found": {**CV_FOUND, "devices": [{**SEEN, **changed}]}}, CV, outcome, words)
        for changed, outcome, words in (
            ({}, "pass", "=4.12.0: resize, dnn, decode right on every GPU (1)"),
            ({"dnn": None}, "fail", "=GPU 0: dnn: not tried"),
            ({"dnn": {"error": "dnn lists no target for CUDA"}}, "fail", "=GPU 0: dnn: dnn lists no target for CUDA"),
            ({"dnn": {**NET, "fell_back": "fallback for layer c"}}, "fail", "=GPU 0: dnn: not on the GPU: fallback for layer c"),
            ({"dnn": {**NET, "off": 0.0101}}, "fail", "dnn: WRONG result, off by 0.01"),
            ({"dnn": {**NET, "off": 0.0099}}, "pass", ""),
            ({"dnn": {**NET, "total": 0.0}}, "fail", "the processor's adds up to 0, not 60228"),
            # What is exactly at a bound passes, and one figure without the other proves nothing.
            ({"dnn": {**NET, "off": 0.01}}, "pass", ""),
            ({"dnn": {**NET, "total": 60228.0 + 602}}, "pass", ""),
            ({"dnn": {**NET, "total": 60228.0 - 603}}, "fail", "dnn: WRONG result"),
            ({"dnn": {**NET, "error": "x"}}, "fail", "=GPU 0: dnn: x"),
            ({"dnn": {**NET, "off": None}}, "fail", "=GPU 0: dnn: not tried"),
            ({"dnn": {**NET, "total": None}}, "fail", "=GPU 0: dnn: not tried"),
            ({"decode": {"left": 63.0, "right": 177.0}}, "pass", ""),
            ({"decode": {"left": 60.0, "right": 180.0, "error": "x"}}, "fail", "=GPU 0: decode: x"),
            ({"decode": {"left": None, "right": 180.0}}, "fail", "=GPU 0: decode: not tried"),
            ({"decode": {"left": 60.0, "right": None}}, "fail", "=GPU 0: decode: not tried"),
            ({"decode": None}, "fail", "=GPU 0: decode: not tried"),
            ({"decode": {"error": "No module named 'PyNvVideoCodec'"}}, "fail", "=GPU 0: decode: No module named 'PyNvVideoCodec'"),
            ({"decode": {"left": 60.0, "right": 60.0}}, "fail", "=GPU 0: decode: WRONG frame, 60 and 60, not 60 and 180"),
            ({"decode": {"left": 62.9, "right": 177.1}}, "pass", ""),
            ({"decode": {"left": 60.0, "right": 183.1}}, "fail", "WRONG frame"),
            ({"dnn": {"error": "x"}, "decode": {"error": "y"}}, "fail", "=GPU 0: dnn: x; GPU 0: decode: y"),
            ({"sum": None, "error": "no kernel image"}, "fail", "=GPU 0: resize: no kernel image"),
        )
    ],
    ("opencv-cuda", {"opencv__found": {**CV_FOUND, "cudnn": False, "devices": [SEEN]}}, CV, "fail", "=dnn: it was built without cuDNN"),
    (
        "opencv-cuda",
        {"opencv__found": {**CV_FOUND, "cudnn": False, "devices": [{**SEEN, "dnn": {"error": "x"}}]}},
        NO_CUDNN,
        "pass",
        "=4.12.0: resize, decode right on every GPU (1)",
    ),
    ("opencv", {"opencv__found": {**CV_FOUND, "cudnn": False}}, CV, "fail", "=4.12.0, with CUDA for sm_75"),
    ("opencv", {"opencv__found": {**CV_FOUND, "cudnn": False}}, NO_CUDNN, "pass", "=4.12.0, with CUDA for sm_75"),
    ("opencv-cuda", {}, CV, "fail", "no OpenCV that was built with CUDA"),
    ("opencv-cuda", {"opencv__found": None}, CV, "fail", "no OpenCV"),
    ("opencv-cuda", {"gpu": good.NO_GPU, "opencv__found": CV_FOUND}, CV, "unknown", "no NVIDIA GPU"),
    ("opencv-cuda", {"opencv": None}, CV, "unknown", ""),
    ("nvcc-runs", {}, {}, "pass", "=compiled for sm_75, right on every GPU (1)"),
    ("nvcc-runs", {"nvcc_runs__as_root": True}, {}, "pass", "=compiled for sm_75, right on every GPU (1) as root"),
    ("nvcc-runs", stopped("find", 0, ""), {}, "fail", "=no nvcc on PATH or in /usr/local/cuda/bin"),
    ("nvcc-runs", stopped("list", 1, "unknown option"), {}, "unknown", "=list ended with 1: unknown option"),
    ("nvcc-runs", {**stopped("list", 0, ""), "nvcc_runs__lists": []}, {}, "unknown", "=list ended with 0: without a word"),
    ("nvcc-runs", {**stopped("list", 0, ""), "nvcc_runs__lists": ["sm_80"]}, {}, "fail", "=nvcc has no sm_75, only sm_80"),
    (
        "nvcc-runs",
        stopped("host-compiler", 2, "#error gcc"),
        {},
        "fail",
        "=nvcc cannot use the host's compiler: host-compiler ended with 2: #error gcc",
    ),
    ("nvcc-runs", stopped("compile", 1, "ptxas died"), {}, "fail", "=compile ended with 1: ptxas died"),
    # Not started, for example from a folder that is mounted noexec; and started, and killed.
    (
        "nvcc-runs",
        {**stopped("run", 126, "Permission denied"), "nvcc_runs__built": ["sm_75"]},
        {},
        "unknown",
        "=compiled, not run: run ended with 126: Permission denied",
    ),
    ("nvcc-runs", {**stopped("run", -11, ""), "nvcc_runs__built": ["sm_75"]}, {}, "fail", "=run ended with -11: without a word"),
    (
        "nvcc-runs",
        {"nvcc_runs__error": "cudaErrorInsufficientDriver", "nvcc_runs__devices": []},
        {},
        "fail",
        "=the program ran and got cudaErrorInsufficientDriver",
    ),
    ("nvcc-runs", {"nvcc_runs__devices": [{**RAN, "sum": 0}]}, {}, "fail", "=GPU 0: the sum is 0, not 2147450880"),
    ("nvcc-runs", {"nvcc_runs__devices": [RAN, {**RAN, "error": "cudaErrorLaunchFailure"}]}, {}, "fail", "=GPU 1: cudaErrorLaunchFailure"),
    ("nvcc-runs", {"nvcc_runs__devices": [{**RAN, "code": "sm_70"}]}, {}, "fail", "=GPU 0 is sm_75, and code for sm_70 ran"),
    ("nvcc-runs", {"nvcc_runs__devices": []}, {}, "fail", "=right on 0 of 1 GPUs"),
    ("nvcc-runs", {"gpu__nodes": []}, {}, "pass", "right on every GPU (1)"),
    ("nvcc-runs", {"gpu__nodes": ["/dev/nvidia0", "/dev/nvidia1"]}, {}, "fail", "=right on 1 of 2 GPUs"),
    # Where GPUs are split with MIG, a program sees one of them.
    ("nvcc-runs", {"gpu__nodes": ["/dev/nvidia0", "/dev/nvidia1"]}, MIG, "pass", "=compiled for sm_75, right on every GPU (1)"),
    ("nvcc-runs", {"nvcc_runs": {"unknown": "timed out"}}, {}, "unknown", "timed out"),
    ("nvcc-runs", NOT_RUN, {}, "unknown", "=compiled for sm_75, not run: no NVIDIA GPU"),
    ("nvcc-runs", NOT_RUN, {"gpu__model": "h100"}, "unknown", "=compiled for sm_75 (it has sm_90 as well), not run: no NVIDIA GPU"),
    ("nvcc-runs", NOT_RUN, {"gpu__model": "v100"}, "fail", "=nvcc has no sm_70, only sm_75, sm_80, sm_90"),
    ("nvcc", {}, {}, "pass", "=13.0 at /usr/local/cuda/bin/nvcc, /usr/local/cuda is /usr/local/cuda-13.0"),
    ("nvcc", {}, {"stack__cuda": "13.0"}, "pass", "13.0"),
    ("cudnn", {"cudnn__header": None}, {}, "pass", "=library 9.19.0, header none"),
    ("cudnn", {}, {}, "pass", "=library 9.19.0, header 9.19.0"),
    ("cudnn", {"cudnn__library": None, "cudnn__header": None}, {}, "fail", "(header: none)"),
    ("cudnn", {}, {"stack__cudnn": "9.1"}, "fail", "library 9.19.0"),
    ("cupti", {"cupti__version": None}, {}, "fail", "=files: 1, in the loader's cache: 1, version none"),
    ("profilers", {"profilers__ncu": None}, {}, "fail", "=nsys 2025.6.3, ncu not installed"),
    # A local part (after the plus) matters only where the profile names it.
    (
        "pytorch-installed",
        {},
        {"stack__frameworks": {"pytorch": "2.13.0"}},
        "pass",
        "=2.13.0, built for CUDA 13.0, kernels for sm_75, sm_80",
    ),
    ("pytorch-installed", LOCAL, {"stack__frameworks": {"pytorch": "2.13.0"}}, "pass", "2.13.0+cu130"),
    ("pytorch-installed", LOCAL, {"stack__frameworks": {"pytorch": "2.13.0+cu130"}}, "pass", "2.13.0+cu130"),
    ("pytorch-installed", LOCAL, {"stack__frameworks": {"pytorch": "2.13.0+cu126"}}, "fail", "2.13.0+cu130"),
    ("pytorch-installed", {"pytorch__found": {**FRAMEWORK, "cuda": None}}, {}, "fail", "built for CUDA none: a build for processors only"),
    # Kernels of the same major and a lower minor run too, of nothing else.
    ("pytorch-installed", {"pytorch__found": {**FRAMEWORK, "arch_list": ["sm_76"]}}, {}, "fail", "kernels for sm_76"),
    ("pytorch-installed", {"pytorch__found": {**FRAMEWORK, "arch_list": ["compute_75"]}}, {}, "fail", "kernels for compute_75"),
    ("pytorch-installed", {"pytorch__found": {**FRAMEWORK, "arch_list": ["gfx75"]}}, {}, "fail", "kernels for gfx75"),
    ("pytorch-installed", {"pytorch__found": {**FRAMEWORK, "arch_list": ["sm_86"]}}, {"gpu__model": "a100-40gb"}, "fail", "for sm_86"),
    ("pytorch-installed", {"pytorch__found": {**FRAMEWORK, "arch_list": ["sm_86"]}}, {"gpu__model": "l4"}, "pass", "for sm_86"),
    ("pytorch-installed", {"pytorch__found": {**FRAMEWORK, "arch_list": ["sm_100"]}}, {"gpu__model": "b300"}, "pass", "for sm_100"),
    ("pytorch", {"gpu__nodes": ["/dev/nvidia0", "/dev/nvidia1"]}, {}, "fail", "computed on 1 of 2 GPUs"),
    (
        "pytorch",
        {"pytorch__found__devices": [DEVICE, {**DEVICE, "product": 1.0}]},
        {},
        "fail",
        "=2.13.0, built for CUDA 13.0: computed 1.0",
    ),
    ("pytorch", {"pytorch__found__devices": [{**DEVICE, "product": None, "error": "no image"}]}, {}, "fail", ": no image"),
    ("pytorch", {"pytorch__found__devices": [{**DEVICE, "capability": ""}]}, {}, "pass", "right on every GPU (1)"),
    ("pytorch", {"pytorch__found__arch_list": []}, {}, "pass", "right on every GPU (1)"),
    ("pytorch", {"pytorch__found__devices": [DEVICE, {**DEVICE, "capability": "sm_90"}]}, {}, "fail", "no kernels for sm_90"),
    ("extras", {}, {"stack__extras": ["nvtx"]}, "pass", "0.2.17"),
    # Half a grey level for each of the sixteen pixels, in either direction.
    *[("opencv", {"opencv__found__sum": total}, {}, "pass", "=4.12.0, without CUDA") for total in (488, 520)],
    *[("opencv", {"opencv__found__sum": total}, {}, "fail", f"=4.12.0: the sum is {total}, not 504") for total in (487, 521)],
    ("opencv", {"opencv__found__sum": None}, {}, "fail", "the sum is None"),
    ("opencv", {"opencv__found": {**CV_FOUND, "cuda": False}}, CV, "fail", "without CUDA and cuDNN for sm_75"),
    ("opencv-cuda", {"opencv__found": {**CV_FOUND, "error": "x", "devices": [SEEN]}}, CV, "fail", "no OpenCV"),
    ("opencv-cuda", {"opencv__found": {**CV_FOUND, "cuda": False, "devices": [SEEN]}}, CV, "fail", "no OpenCV"),
    (
        "opencv-cuda",
        {"opencv__found": {**CV_FOUND, "devices": [SEEN]}, "gpu__nodes": ["/dev/nvidia0", "/dev/nvidia1"]},
        CV,
        "fail",
        "used 1 of 2 GPUs",
    ),
    ("opencv-cuda", {"opencv__found": {**CV_FOUND, "devices": [SEEN, {"sum": 5}]}}, CV, "fail", "=GPU 1: resize: the sum is 5, not 504"),
    ("nvenc", {}, {}, "pass", "=a frame was encoded"),
    ("nvenc", {"encoders__encode": {"code": 0, "said": "slow"}}, {}, "pass", "=a frame was encoded (slow)"),
    ("nvenc", {"encoders__encode": {"code": 139, "said": ""}}, {}, "fail", "=ffmpeg ended with 139: without a word"),
    ("nvenc", {"encoders__nvenc": []}, {}, "fail", "=built without NVENC for H.264: none"),
    ("nvenc", {"encoders__nvenc": ["hevc_nvenc"]}, {}, "fail", "=built without NVENC for H.264: hevc_nvenc"),
    # The catalogue does not say whether a P100 has an encoder: only an encode can tell.
    ("nvenc", {}, {"gpu__model": "p100"}, "pass", "=a frame was encoded"),
    (
        "nvenc",
        {"encoders__encode": {"code": 1, "said": "No capable devices found"}},
        {"gpu__model": "p100"},
        "unknown",
        "the catalog does not say whether P100 has one",
    ),
]
BLIND: dict[str, Any] = {"pytorch__found__devices": []}
SAID = {
    "Error 804: forward compatibility was attempted on non supported HW": "a libcuda of CUDA's folder compat",
    "Error 803: system has unsupported display driver / cuda driver combination": "`ldconfig -p | grep libcuda.so`",
    "Error 802: system not yet initialized": "the checks fabric",
    "CUDA initialization: CUDA unknown error - this may be due to an incorrectly set up environment": "`nvidia-modprobe -u -c 0`",
    "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).": "the driver is older",
    "CUDA error: CUDA-capable device(s) is/are busy or unavailable": "`sudo nvidia-smi -c DEFAULT`",
    "CUDA initialization: Found no NVIDIA driver on your system.": "CUDA sees no GPU",
    "": "see CUDA_VISIBLE_DEVICES and the driver",
}
ERRORS = {
    "cudaErrorInsufficientDriver": "the driver is older",
    "cudaErrorDevicesUnavailable": "`sudo nvidia-smi -c DEFAULT`",
    "cudaErrorNoDevice": "CUDA sees no GPU",
    "cudaErrorSystemNotReady": "the checks fabric",
    "cudaErrorSystemDriverMismatch": "`ldconfig -p | grep libcuda.so`",
    "cudaErrorCompatNotSupportedOnDevice": "a libcuda of CUDA's folder compat",
    "cudaErrorUnknown": "after a suspend `modprobe -r nvidia_uvm",  # pytorch, issue 88639
    "cudaErrorLaunchFailure": "the checks driver, gpu-health and skew",
}
JUST_BLIND = {
    "found": {
        "version": "2.21.0",
        "cuda": "12.5",
        "devices": [],
        "said": "failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: CUDA_ERROR_SYSTEM_NOT_READY",
    }
}
TENSORFLOW = {"stack__frameworks": {"tensorflow": "auto"}}
ADDED = good.GOOD["nvcc_runs"]["devices"][0]
NVCC_RUNS = "nvcc compiles a kernel for sm_75, and it computes the right sum on every GPU"
TEXTS: list[Text] = [
    ("nvcc", {"nvcc__found": None}, {}, "nvcc", "--role cuda_toolkit"),
    ("nvcc", {}, {"stack__cuda": "12.9"}, "nvcc 12.9", "install toolkit 12.9"),
    ("nvcc", {"nvcc__found__link": ""}, {}, "nvcc", "--role cuda_toolkit"),
    ("nvcc-runs", stopped("find", 0, ""), {}, COMPILES, "--role cuda_toolkit"),
    ("nvcc-runs", stopped("compile", 1, "ptxas died"), {}, COMPILES, "--role cuda_toolkit"),
    ("nvcc-runs", stopped("host-compiler", 2, "x"), {}, COMPILES, "install a gcc that this toolkit supports"),
    ("nvcc-runs", {**stopped("list", 0, ""), "nvcc_runs__lists": ["sm_80"]}, {}, COMPILES, "choose a release in stack.cuda"),
    ("nvcc-runs", {**stopped("run", 126, "x"), "nvcc_runs__built": ["sm_75"]}, {}, COMPILES, "TMPDIR"),
    ("nvcc-runs", NOT_RUN, {"gpu__model": "h100"}, COMPILES.replace("75", "90"), "on a host with the GPU"),
    ("cudnn", {"cudnn__library": None}, {}, "cuDNN that the loader finds", "--role cudnn"),
    ("cudnn", {}, {"stack__cudnn": "9.1"}, "cuDNN that the loader finds, 9.1", "install cuDNN 9.1"),
    ("cupti", {"cupti__version": None}, {}, "CUPTI: a file, known to the loader, and it loads", "--role cupti"),
    ("cupti", {"cupti__version": None, "cupti__files": []}, {}, "CUPTI: a file, known to the loader, and it loads", "--role cuda_toolkit"),
    ("profilers", {"profilers__nsys": None}, {}, "nsys and ncu", "--role nsight"),
    ("pytorch-installed", {"pytorch__found": None}, {}, "PyTorch imports, is built for CUDA and has kernels for T4", "--role pytorch"),
    ("pytorch", {}, {"stack__frameworks": {"pytorch": "2.12.0"}}, COMPUTES + ", version 2.12.0", "--role pytorch"),
    ("pytorch", {"pytorch__found__devices": []}, {}, COMPUTES, "CUDA_VISIBLE_DEVICES"),
    ("pytorch", {"pytorch__found__devices": [{**DEVICE, "product": 1.0}]}, {}, COMPUTES, "the checks driver, skew and gpu-health"),
    # What CUDA says of the whole GPU or host has advice of its own (pytorch/pytorch, issue 49081; gpustack, issue 1540).
    *[("pytorch", {**BLIND, "pytorch__found__said": said}, {}, COMPUTES, hint) for said, hint in SAID.items()],
    *[
        ("pytorch", {"pytorch__found__devices": [{**DEVICE, "product": None, "error": said}]}, {}, COMPUTES, SAID[said])
        for said in SAID
        if said
    ],
    ("tensorflow", {"tensorflow": JUST_BLIND}, TENSORFLOW, "TensorFlow in /opt/gpuprov/venvs, computing on every GPU", "the checks fabric"),
    *[("nvcc-runs", {"nvcc_runs__error": name}, {}, NVCC_RUNS, hint) for name, hint in ERRORS.items()],
    ("nvcc-runs", {"nvcc_runs__devices": [{**ADDED, "sum": 0, "error": "cudaErrorUnknown"}]}, {}, NVCC_RUNS, "`nvidia-modprobe -u -c 0`"),
    ("extras", {"extras__dcgm": None}, {"stack__extras": ["dcgm"]}, "DCGM 4.5.2", "--role extras"),
    ("opencv", {"opencv__found": None}, {}, "OpenCV in /opt/gpuprov/venvs/opencv, and it resizes an image correctly", "--role opencv"),
    (
        "opencv",
        {},
        CV,
        "OpenCV in /opt/gpuprov/venvs/opencv, built with CUDA and cuDNN for sm_75, and it resizes an image correctly",
        "--role opencv",
    ),
    ("nvenc", {"encoders__nvenc": None}, {}, "ffmpeg built with NVENC, and one frame encoded by the GPU", "--role ffmpeg"),
    (
        "opencv",
        {},
        NO_CUDNN,
        "OpenCV in /opt/gpuprov/venvs/opencv, built with CUDA for sm_75, and it resizes an image correctly",
        "--role opencv",
    ),
    ("opencv-cuda", {}, CV, CV_EXPECTED, "--role opencv"),
    ("opencv-cuda", {"opencv__found": {**CV_FOUND, "cudnn": False}}, CV, CV_EXPECTED, "--role opencv"),
    ("pytorch", GONE, IMAGE, "PyTorch in /opt/x, computing on every GPU", "the image's own"),
    ("pytorch-installed", GONE, IMAGE, "PyTorch imports, is built for CUDA and has kernels for T4", "the image's own"),
    ("nvenc", {"encoders__encode": SESSIONS}, {}, "ffmpeg built with NVENC, and one frame encoded by the GPU", "the limit of sessions"),
]

test_table = table(CASES)
test_texts = texts(TEXTS)


def test_what_imports_a_framework_or_starts_a_compiler_or_an_encoder_is_left_out_by_tier_quick() -> None:
    slow = {"nvcc-runs", "nvenc", "opencv", "opencv-cuda"}
    slow |= {f"{name}{suffix}" for name in ("pytorch", "tensorflow", "jax") for suffix in ("", "-installed")}
    assert {check.id for check in stack.CHECKS if check.tier != "quick"} == slow
    assert {check.tier for check in stack.CHECKS} == {"quick", "standard"}


def test_a_role_puts_right_what_a_check_of_the_stack_finds_and_all_but_opencv_need_a_gpu() -> None:
    own = {"nvcc": "cuda_toolkit", "nvcc-runs": "cuda_toolkit", "profilers": "nsight", "nvenc": None, "opencv-cuda": "opencv"}
    assert {c.id: c.role for c in stack.CHECKS} == {c.id: own.get(c.id, c.id.removesuffix("-installed")) for c in stack.CHECKS}
    assert {check.id for check in stack.CHECKS if not check.needs_gpu} == {"opencv"}
