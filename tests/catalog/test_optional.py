"""nvprof, OpenCV with CUDA and the components of `stack.extras`: where they work, and the reason where they do not."""

import datetime as dt

import msgspec
import pytest

from provision.catalog import read
from provision.catalog.optional import OPENCV, optional_rules
from provision.catalog.resolve import StackRequest, resolve
from provision.errors import StackConflictError

TODAY = dt.date(2026, 11, 21)
NOBLE = "ubuntu 24.04"


def values(**request: object) -> dict[str, str]:
    return resolve(StackRequest(**{"os": NOBLE, **request}), TODAY).values  # type: ignore[arg-type]


def refused(**request: object) -> StackConflictError:
    with pytest.raises(StackConflictError) as caught:
        resolve(StackRequest(**{"os": NOBLE, **request}), TODAY)  # type: ignore[arg-type]
    return caught.value


def test_a_component_that_works_changes_nothing_else() -> None:
    plain = values(gpu="t4", pytorch="auto")
    more = values(gpu="t4", pytorch="auto", extras=("dcgm", "nccl", "nvtx", "triton"))
    assert {name: value for name, value in more.items() if name in plain} == plain


@pytest.mark.parametrize(
    ("request_", "reason", "remedy"),
    [
        ({"gpu": "t4", "extras": ("flash-attn",)}, "compute capability 8.0", "remove flash-attn from stack.extras"),
        ({"gpu": "p100", "pytorch": "auto", "extras": ("tensorrt",)}, "serves compute capability 7.0 and later", "remove tensorrt from"),
        (
            {"gpu": "v100", "os": "debian 12", "pytorch": "auto", "extras": ("tensorrt",)},
            "the last release of TensorRT for compute capability 7.0 is 10.4.0.26, whose packages are in NVIDIA's repositories ubuntu2204",
            "change os to ubuntu",
        ),
        (
            {"gpu": "t4", "os": "debian 13", "pytorch": "auto", "extras": ("tensorrt",)},
            "NVIDIA's repository for debian 13 has no packages of TensorRT",
            "change os to",
        ),
        ({"gpu": "v100", "os": "rocky 9", "pytorch": "auto", "extras": ("tensorrt",)}, "not in rhel9", "change os to ubuntu"),
        ({"gpu": "t4", "extras": ("tensorrt",)}, "the profile asks for no PyTorch", "stack.frameworks.pytorch to"),
        (
            {"gpu": "t4", "os": "debian 12", "packages": "distribution", "driver": "535", "pytorch": "2.10.0", "extras": ("tensorrt",)},
            "TensorRT is in NVIDIA's repositories",
            "remove tensorrt from stack.extras",
        ),
        ({"gpu": "t4", "extras": ("apex",)}, "torch.amp", "remove apex from stack.extras"),
        ({"gpu": "v100", "pytorch": "auto", "extras": ("flash-attn",)}, "its kernels begin with Ampere", "remove flash-attn from"),
        ({"gpu": "t4", "extras": ("transformer-engine",)}, "its FP8 needs tensor cores that have it", "remove transformer-engine from"),
        ({"gpu": "a100-40gb", "pytorch": "auto", "extras": ("transformer-engine",)}, "A100 40 GB is 8.0", "remove transformer-engine from"),
        (
            {"gpu": "h100", "pytorch": "2.10.0", "extras": ("transformer-engine",)},
            "needs cuDNN 9.12 or later, and PyTorch 2.10.0 brings 9.10.2.21",
            "stack.frameworks.pytorch to 2.11.0",
        ),
        (
            {"gpu": "h100", "pytorch": "2.10.0", "cuda": "13.0", "extras": ("flash-attn",)},
            "is built against PyTorch 2.10.0, whose CUDA is 12.8, and the toolkit is CUDA 13.0",
            "stack.cuda to 12.9",
        ),
        (
            {
                "gpu": "a100-40gb",
                "os": "debian 12",
                "packages": "distribution",
                "driver": "535",
                "pytorch": "2.4.1",
                "extras": ("flash-attn",),
            },
            "is built with NVIDIA's own toolkit",
            "remove flash-attn from",
        ),
        ({"gpu": "t4", "extras": ("dali",)}, "the profile asks for no PyTorch", "stack.frameworks.pytorch to"),
        ({"gpu": "t4", "extras": ("nccl",)}, "comes with PyTorch or TensorFlow or JAX", "stack.frameworks.jax to"),
        (
            {"gpu": "p100", "pytorch": "2.7.1", "extras": ("triton",)},
            "serves compute capability 7.0 and later",
            "remove triton from stack.extras",
        ),
        (
            {"gpu": "t4", "os": "debian 12", "packages": "distribution", "driver": "535", "extras": ("dcgm",)},
            "NVIDIA's repositories",
            "remove dcgm from stack.extras",
        ),
    ],
)
def test_a_component_that_does_not_work_is_refused_with_the_reason(request_: dict[str, object], reason: str, remedy: str) -> None:
    error = refused(**request_)
    assert reason in error.message
    assert remedy in error.hint


@pytest.mark.parametrize(
    ("request_", "cuda", "release"),
    [
        ({"gpu": "t4"}, "13", "11.3.0.99"),
        ({"gpu": "t4", "os": "debian 12"}, "13", "11.3.0.99"),
        ({"gpu": "t4", "cuda": "12.9"}, "12", "10.16.1.11"),
        ({"gpu": "v100"}, "12", "10.4.0.26"),
        ({"gpu": "b200", "os": "rocky 9"}, "13", "11.3.0.99"),
    ],
)
def test_a_release_of_tensorrt_fits_the_card_the_system_and_cuda(request_: dict[str, str], cuda: str, release: str) -> None:
    found = values(pytorch="auto", extras=("tensorrt",), **request_)
    assert found["cuda"].split(".")[0] == cuda
    system = next(s for s in read.systems().systems if s.key == found["os"])
    parts = {"capability": read.gpu(request_["gpu"]).compute_capability, "repository": system.repository, "cuda": found["cuda"]}
    fitting = [r.version for r in read.extras()["tensorrt"].releases if r.runs(**parts, driver=found["driver"])]
    assert fitting[:1] == [release]


def test_tensorrt_of_a_cuda_needs_the_driver_of_its_release() -> None:
    """No branch of the catalogue is older than that today, so the rule is asked by itself."""
    rule = next(rule for rule in optional_rules(("tensorrt",)) if rule.id == "tensorrt-goes-with-driver")
    it = read.extras()["tensorrt"]
    branches = {branch.branch: branch for branch in read.driver().branches}
    toolkits = {toolkit.version: toolkit for toolkit in read.toolkits().toolkits}
    assert rule.holds(branches["580"], toolkits["13.0"], it)
    assert rule.holds(branches["535"], toolkits["12.9"], it)
    assert rule.holds(branches["535"], toolkits["13.0"], None)
    assert not rule.holds(branches["535"], toolkits["13.0"], it)
    assert rule.says(branches["535"], toolkits["13.0"], it) == "TensorRT for CUDA 13 needs driver 580 or later, and 535 is older"
    # The rule asks one driver of a major release of CUDA, so all releases for it must have the same.
    assert len({(release.cuda.split(".")[0], release.driver) for release in it.releases}) == len({r.cuda[:2] for r in it.releases})


def test_a_build_takes_the_architecture_that_its_card_runs() -> None:
    build = read.extras()["flash-attn"].build
    assert build is not None
    assert {c: build.architecture(c) for c in ("8.0", "8.6", "8.9", "9.0", "10.3", "12.0")} == {
        "8.0": "80",
        "8.6": "80",
        "8.9": "80",
        "9.0": "90",
        "10.3": "100",
        "12.0": "120",
    }


@pytest.mark.parametrize("own", [{}, {"os": "debian 12", "packages": "distribution", "driver": "535"}, {"gpu": "v100"}, {"os": "rocky 9"}])
def test_opencl_is_a_part_of_every_driver_and_changes_nothing_else(own: dict[str, object]) -> None:
    request = {"gpu": "t4", **own}
    plain, more = values(**request), values(**request, extras=("opencl",))
    assert {name: value for name, value in more.items() if name in plain} == plain


def test_auto_takes_the_newest_pytorch_that_the_component_goes_with() -> None:
    release = values(gpu="t4", pytorch="auto", extras=("cutlass",))["pytorch"]
    text = read.closures(f"torch-{release}-cp312-cutlass")
    assert text
    assert "nvidia-cutlass==" in text


def test_nvprof_where_it_works_and_a_clear_word_where_it_does_not() -> None:
    """It traces below 8.0, reads metrics below 7.5, and CUDA 13 has none."""
    v100 = resolve(StackRequest(gpu="v100", os=NOBLE, nvprof=True), TODAY)
    assert v100.values["cuda"] == "12.9"
    assert v100.advice == ()
    t4 = resolve(StackRequest(gpu="t4", os=NOBLE, nvprof=True), TODAY)
    assert t4.values["cuda"] == "12.9"
    assert [advice.part for advice in t4.advice] == ["nvprof"]
    assert "runs on nothing from compute capability 8.0 on" in refused(gpu="a100-40gb", nvprof=True).message
    assert "CUDA 13.0 has none" in refused(gpu="t4", cuda="13.0", nvprof=True).message


def test_opencv_is_not_built_with_a_cuda_that_its_source_does_not_know() -> None:
    assert values(gpu="t4", opencv=True)["cuda"] == values(gpu="t4")["cuda"]
    assert values(gpu="v100", opencv=True)["cuda"] == "12.9"
    build = read.systems().opencv.build
    assert [getattr(build.release_for(cuda), "version", None) for cuda in ("11.8", "12.9", "13.0", "13.5", "14.0")] == [
        *("4.12.0.88", "4.12.0.88", "4.14.0.94", "4.14.0.94", None)
    ]
    (rule,) = optional_rules([OPENCV])
    later = msgspec.structs.replace(read.toolkits().toolkits[0], version="14.0")
    assert (rule.holds(later, object()), rule.holds(later, None)) == (False, True)
    assert rule.says(later, object()) == "the source of OpenCV 4.14.0.94 is not known to build with CUDA 14.0 and later (14.0)"
